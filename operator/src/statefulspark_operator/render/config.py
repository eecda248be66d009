"""The configuration of a driver: `JobConfig`, made from the spec, in a ConfigMap per epoch. It has no secrets. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue
from statefulspark.contract.base import WireModel
from statefulspark.contract.config import JobConfig, RestoreConfig

from statefulspark_operator.api import memory, names
from statefulspark_operator.api.revision import word_id
from statefulspark_operator.api.status import RestoreIntent
from statefulspark_operator.render import base, executor
from statefulspark_operator.render.base import Manifest, Subject, metadata

FILE_NAME = "job.json"
FOLDER = "/etc/statefulspark"
POD_IP = "POD_IP"
"""Variable of a standby with its own address, which Spark's settings refer to."""


def job_config(
    subject: Subject, owner: executor.Owner, *, restore: RestoreIntent | None, host: str | None = None
) -> JobConfig:
    """Return the configuration of the driver.

    Args:
        subject: The job.
        owner: The pod of the driver.
        restore: The snapshot to start from; None for the newest committed batch.
        host: The driver's address for its executors, if it is not the job's Service.

    Returns:
        The configuration; fields that the spec does not set keep the runtime's defaults.
    """
    spec, job = subject.spec, subject.job
    platform = {"spark.driver.memory": f"{memory.quantity_mib(spec.driver.heap)}m"}
    master = f"local[{spec.driver.cores}]" if spec.driver.cores else None
    if spec.executor is not None:
        platform |= executor.settings(subject, owner, host=host, template=f"{FOLDER}/{executor.TEMPLATE_FILE}")
        master = "k8s://https://kubernetes.default.svc"
    document: dict[str, object] = {
        "name": job.name,
        "namespace": job.namespace,
        "ownerId": job.uid,
        "clusterId": subject.cluster_id,
        "revision": owner.revision,
        "storage": {
            "uri": spec.storage.uri,
            "s3": {
                **_given(spec.storage.s3, exclude={"credentials_secret_ref", "ca_secret_ref"}),
                "caFile": base.authority_file(spec.storage),
            },
            "ownership": spec.storage.ownership,
        },
        "checkpoint": spec.checkpoint.config(),
        "restore": _restore(subject, restore),
        "engine": {
            "master": master,
            "conf": dict(spec.spark_conf),
            "platform": platform,
        },
        "savepointLocation": spec.savepoint.location,
        "rehearsal": spec.upgrade.rehearsal,
        "apiPort": names.API_PORT,
        "metricsPort": names.METRICS_PORT,
        "parameters": dict(spec.job.parameters),
    }
    return JobConfig.model_validate(document)


def restore_config(subject: Subject, restore: RestoreIntent | None) -> RestoreConfig:
    """Return what a standby is told about its start when it becomes the driver.

    Args:
        subject: The job.
        restore: The snapshot to start from; None for the newest committed batch.
    """
    return RestoreConfig.model_validate(_restore(subject, restore))


def _restore(subject: Subject, restore: RestoreIntent | None) -> dict[str, object]:
    spec = subject.spec
    words = {
        "dropState": spec.restore.drop_state,
        "repeatOutputOf": spec.restore.repeat_output_of,
        "loseOutputOf": spec.restore.lose_output_of,
        "ofAnotherRevision": subject.is_withheld,
        "keepAside": subject.goes_back or (restore is not None and restore.rollback),
        "takesOverAs": word_id(spec),
    }
    if restore is None:
        return words
    return {**_given(restore, exclude={"id"}), "nonce": restore.id, **words}


def _given(model: WireModel, exclude: set[str] | None = None) -> dict[str, object]:
    return model.model_dump(by_alias=True, exclude_none=True, exclude=exclude)


def config_map(subject: Subject, *, epoch: int, revision: str, restore: RestoreIntent | None) -> Manifest:
    """Return the ConfigMap that the driver of an epoch reads.

    Args:
        subject: The job.
        epoch: The epoch of the driver.
        revision: Revision of the spec.
        restore: The snapshot to start from; None for the newest committed batch.
    """
    labels = names.driver_labels(subject.job.name, epoch=epoch, revision=revision)
    owner = executor.Owner(names.driver_pod(subject.job.name, epoch), revision, epoch)
    files = _files(subject, owner, job_config(subject, owner, restore=restore))
    return _config_map(subject, names.config(subject.job.name, epoch), labels, files)


def standby_config_map(subject: Subject, *, pod: str, revision: str) -> Manifest:
    """Return the ConfigMap that a standby reads.

    It names no snapshot: a standby follows the newest one, and is told where to start when it becomes the driver. Its
    executors reach it by the address of its pod, because the job's Service leads to the running driver.

    Args:
        subject: The job.
        pod: Name of the standby's pod.
        revision: Revision of the spec.
    """
    owner = executor.Owner(pod, revision)
    files = _files(subject, owner, job_config(subject, owner, restore=None, host=f"${{env:{POD_IP}}}"))
    labels = names.standby_labels(subject.job.name, revision=revision)
    return _config_map(subject, names.standby_config(pod), labels, files)


def _files(subject: Subject, owner: executor.Owner, document: JobConfig) -> dict[str, JsonValue]:
    """Return what a driver finds in its folder: its configuration, and the template of its executors if it has any."""
    files: dict[str, JsonValue] = {FILE_NAME: document.to_json(indent=1) + "\n"}
    if subject.spec.executor is not None:
        files[executor.TEMPLATE_FILE] = json.dumps(executor.template(subject, owner), indent=1) + "\n"
    return files


def _config_map(subject: Subject, name: str, labels: Mapping[str, str], files: dict[str, JsonValue]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(subject.job, name, labels),
        "data": files,
    }
