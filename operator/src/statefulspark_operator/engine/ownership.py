"""Objects that the operator applies and deletes by their names: only those that belong to the job, never somebody else's.

A name such as `<job>-driver` may be taken: by a Service of the user, or by what an earlier job of that name has left and
Kubernetes is about to remove. Applying by force would take it over, with its selector or its rights.
"""

from __future__ import annotations

from statefulspark import errors

from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources, watched
from statefulspark_operator.cluster.gateway import Gateway
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.lifecycle.situation import Job

_MANAGED_BY = "app.kubernetes.io/managed-by"


def belongs_to(existing: Resource, job: Job) -> bool:
    """Tell whether an object belongs to a job.

    It names the job as its owner; or it has lost its owner, as `kubectl delete --cascade=orphan` leaves it, and the labels
    say that the operator made it for a job of this name.
    """
    owners = resources.items(existing, "metadata", "ownerReferences")
    if owners:
        return any(owner.get("uid") == job.uid for owner in owners)
    labels = resources.section(existing, "metadata", "labels")
    return labels.get(_MANAGED_BY) == names.FIELD_MANAGER and labels.get(names.LABEL_JOB) == job.name


async def apply(gateway: Gateway, job: Job, manifest: Resource) -> None:
    """Apply a manifest, unless an object with its name does not belong to the job.

    Raises:
        TransientError: `NameTaken`: there is such an object; it was not changed.
        PreconditionFailedError: The object has changed since it was looked at.
        SpecRejectedError: `ManifestRejected`: the API server refuses the object.
    """
    kind, name = resources.kind_of(manifest), resources.text(manifest, "metadata", "name")
    existing = await gateway.get(kind, job.namespace, name)
    if existing is None:
        await gateway.apply(manifest)
        return
    if not belongs_to(existing, job):
        raise errors.TransientError(
            "NameTaken",
            f"{kind.name} {name} exists and does not belong to this job, so it is not changed; delete it, or give the job"
            " another name. The driver waits until it is gone.",
            retry_after_s=5.0,
        )
    await gateway.apply(manifest, resource_version=watched.version_of(existing))


async def delete(gateway: Gateway, job: Job, kind: Kind, name: str) -> None:
    """Delete an object if it exists and belongs to the job."""
    existing = await gateway.get(kind, job.namespace, name)
    if existing is not None and belongs_to(existing, job):
        await gateway.delete(kind, job.namespace, name, uid=watched.uid_of(existing))
