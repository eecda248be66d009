"""Jobs, pods and savepoint objects as a watch shows them: with a version and an identity."""

from __future__ import annotations

from statefulspark_operator.api import names
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Kind, Resource

KEY = JobKey("demo", "flights")


def a_shown_object(
    kind: Kind, name: str, version: int | str, uid: str | None = None, *, job: str = KEY.name, **content: Resource
) -> Resource:
    """Return an object that carries the labels of a job, `KEY` or another; its uid is its name unless it is given."""
    labels: Resource = {names.LABEL_JOB: job, names.LABEL_ROLE: names.ROLE_DRIVER}
    meta: Resource = {
        "name": name,
        "namespace": KEY.namespace,
        "uid": uid or name,
        "resourceVersion": str(version),
        "labels": labels,
    }
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **content}
