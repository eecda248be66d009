"""The objects that the demo applies: those of `examples/flights/`, with this cluster's addresses filled in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml

from demo import cluster, kubectl, settings

EXAMPLE = Path("examples", "flights")
JOB = "flights"
RESOURCE = f"statefulsparkjob/{JOB}"
INPUT, OUTPUT, STATE = "input", "output", "state"
VERSION_2_FILE = "/opt/job/flights_v2.py"
BROKEN_FILE = "/opt/job/flights_broken.py"
TRIGGER = "2s"
"""Time between two batches: on a quick machine, too, there shall be flights left for the last chapter."""

EXECUTOR = {"heap": "512Mi", "resources": {"requests": {"cpu": "200m"}}}
"""Of each executor, if there are any: small ones, of which a standby has as many again."""

Document = dict[str, object]


def load(folder: Path = EXAMPLE) -> tuple[Document, ...]:
    """Read the example's documents: namespace, secret and job, in the order in which they are applied."""
    names = ("namespace.yaml", "secret.yaml", "job.yaml")
    return tuple(cast("Document", yaml.safe_load((folder / name).read_text("utf-8"))) for name in names)


def fill_in(
    documents: tuple[Document, ...], connection: cluster.Connection, chosen: settings.Settings
) -> tuple[Document, ...]:
    """Put the demo's addresses, image and namespace into the example's documents."""
    namespace, secret, job = documents
    return (
        merge(namespace, {"metadata": {"name": chosen.namespace}}),
        merge(secret, _secret(connection, chosen)),
        merge(job, _job(connection, chosen)),
    )


def change_to_version_2() -> kubectl.Json:
    """Return the change of the spec that starts the upgrade."""
    return {"spec": {"job": {"file": VERSION_2_FILE}}}


def keep_standby() -> kubectl.Json:
    """Return the change of the spec after which a standby is kept."""
    return {"spec": {"driver": {"standby": True}}}


def break_job() -> kubectl.Json:
    """Return a change of the spec whose revision cannot start."""
    return {"spec": {"job": {"file": BROKEN_FILE}}}


def change_cold() -> kubectl.Json:
    """Return a change of the spec that is carried out without a standby of the new revision."""
    return {"spec": {"upgrade": {"strategy": "Cold"}, "sparkConf": {"spark.ui.showConsoleProgress": "false"}}}


def _secret(connection: cluster.Connection, chosen: settings.Settings) -> Document:
    keys = {"AWS_ACCESS_KEY_ID": connection.access_key, "AWS_SECRET_ACCESS_KEY": connection.secret_key}
    return {"metadata": {"namespace": chosen.namespace}, "stringData": keys}


def _job(connection: cluster.Connection, chosen: settings.Settings) -> Document:
    parameters = {
        "input": connection.uri(INPUT).replace("s3://", "s3a://"),
        "output": connection.uri(OUTPUT),
        "files_per_batch": str(chosen.files_per_batch),
        "trigger": TRIGGER,
    }
    storage = {
        "uri": connection.uri(STATE),
        "s3": {"endpoint": connection.s3_pod_endpoint, "region": connection.region},
    }
    spec: Document = {"image": chosen.job_image, "job": {"parameters": parameters}, "storage": storage}
    if chosen.executors:
        spec["executor"] = {"instances": chosen.executors, **EXECUTOR}
    return {"metadata": {"namespace": chosen.namespace}, "spec": spec}


def merge(base: Mapping[str, object], change: Mapping[str, object]) -> Document:
    """Lay a change over a document, mapping by mapping; the document stays as it is."""
    merged = dict(base)
    for name, value in change.items():
        old = merged.get(name)
        merged[name] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
