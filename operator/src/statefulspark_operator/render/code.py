"""Code that is not in the image, as drivers, standbys and executors see it: the same files in the same folder. Pure.

The files of a ConfigMap are mounted from the copy that is kept of their revision, which never changes. An object is fetched
by an init container, before anything of the job starts, from the copy on the job's own storage; a wrong checksum ends it
with a reason.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from pydantic import JsonValue
from statefulspark.contract import layout
from statefulspark.contract.config import Addressing

from statefulspark_operator.api import names
from statefulspark_operator.api.spec import Driver, Executor, StatefulSparkJobSpec
from statefulspark_operator.render import base
from statefulspark_operator.render.base import Manifest, Subject

FOLDER = "/opt/job"
VOLUME = "job-code"
_MOUNT: Manifest = {"name": VOLUME, "mountPath": FOLDER}


def entry(spec: StatefulSparkJobSpec) -> str:
    """Return the path of the job's file in its container."""
    return spec.job.entry if spec.job.source is None else f"{FOLDER}/{spec.job.entry}"


def volumes(subject: Subject, revision: str) -> list[JsonValue]:
    """Return the volume with the code of a revision; none if it is in the image."""
    source = subject.spec.job.source
    if source is None:
        return []
    if source.config_map is not None:
        return [{"name": VOLUME, "configMap": {"name": names.code(subject.job.name, revision)}}]
    return [{"name": VOLUME, "emptyDir": {}}]


def mounts(spec: StatefulSparkJobSpec) -> list[JsonValue]:
    """Return where the volume is mounted."""
    return [] if spec.job.source is None else [{**_MOUNT, "readOnly": True}]


def variables(spec: StatefulSparkJobSpec) -> list[JsonValue]:
    """Return the variable with which Python, in workers too, finds modules beside the job's file and in the code's root."""
    if spec.job.source is None:
        return []
    beside = entry(spec).rpartition("/")[0]
    return [{"name": "PYTHONPATH", "value": ":".join(dict.fromkeys((beside, FOLDER)))}]


def init_containers(subject: Subject, runner: Driver | Executor) -> list[JsonValue]:
    """Return the container that fetches the code, if it is an object; what it may use is what the one after it may.

    Args:
        subject: The job.
        runner: The part of the spec about the container that runs the code.
    """
    spec = subject.spec
    source = spec.job.source.s3 if spec.job.source is not None else None
    if source is None:
        return []
    storage, job = subject.spec.storage, subject.job
    root = f"{storage.uri.rstrip('/')}/{layout.job_prefix(job.namespace, job.name)}"
    location = f"{root}/{layout.code(source.sha256, source.name)}"
    connection = [
        ("--endpoint", storage.s3.endpoint),
        ("--region", storage.s3.region),
        ("--storage-ca", base.authority_file(storage)),
    ]
    given: list[JsonValue] = [part for flag, value in connection if value is not None for part in (flag, value)]
    if storage.s3.addressing is Addressing.VIRTUAL_HOST:
        given.append("--virtual-host")
    rendered: Manifest = {
        "name": "code",
        "image": spec.image,
        "args": ["statefulspark", "code", location, "--sha256", source.sha256, "--into", FOLDER, *given],
        "env": [*base.credentials(spec.storage), *base.variables(runner.env)],
        "securityContext": base.container_security(),
        "volumeMounts": [{"name": "work", "mountPath": base.WORK_FOLDER}, _MOUNT, *base.authority_mounts(storage)],
    }
    if spec.image_pull_policy is not None:
        rendered["imagePullPolicy"] = spec.image_pull_policy.value
    if runner.env_from:
        rendered["envFrom"] = base.variables(runner.env_from)
    if runner.resources is not None:
        rendered["resources"] = base.resources(runner.resources)
    return [rendered]


def kept(subject: Subject, *, revision: str, files: Mapping[str, bytes], owner_uid: str) -> Manifest:
    """Return the ConfigMap that keeps the code of a revision; it goes with the revision's stored spec.

    Args:
        subject: The job.
        revision: The revision.
        files: The files by name.
        owner_uid: Identity of the ControllerRevision.
    """
    job = subject.job
    owner: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "name": names.controller_revision(job.name, revision),
        "uid": owner_uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.code(job.name, revision),
            "namespace": job.namespace,
            "labels": {**names.labels(job.name), names.LABEL_REVISION: revision},
            "ownerReferences": [owner],
        },
        "immutable": True,
        "binaryData": {name: base64.b64encode(content).decode() for name, content in sorted(files.items())},
    }
