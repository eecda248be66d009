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

Address = tuple[str, str, str]
"""Identity of the job, kind and name."""
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


async def apply(gateway: Gateway, job: Job, manifest: Resource, versions: dict[Address, str]) -> None:
    """Apply a manifest, unless an object with its name does not belong to the job.

    Args:
        gateway: The API server.
        job: The job.
        manifest: What to apply.
        versions: Of the job's objects as they were written last; it is updated. An object that still has its version need
            not be looked at: the write names it, and is refused if the object is another one by now.

    Raises:
        TransientError: `NameTaken`: there is such an object; it was not changed.
        PreconditionFailedError: The object has changed since it was looked at, or written.
        SpecRejectedError: `ManifestRejected`: the API server refuses the object.
    """
    kind, name = resources.kind_of(manifest), resources.text(manifest, "metadata", "name")
    address = job.uid, kind.name, name
    version = versions.pop(address, None) or await _version(gateway, job, kind, name)
    versions[address] = await gateway.apply(manifest, resource_version=version)


async def _version(gateway: Gateway, job: Job, kind: Kind, name: str) -> str | None:
    """Return the version of an object that belongs to the job; None if there is none of this name."""
    existing = await gateway.get(kind, job.namespace, name)
    if existing is None:
        return None
    if not belongs_to(existing, job):
        raise errors.TransientError(
            "NameTaken",
            f"{kind.name} {name} exists and does not belong to this job, so it is not changed; delete it, or give the job"
            " another name. The driver waits until it is gone.",
            retry_after_s=5.0,
        )
    return watched.version_of(existing)


async def create(gateway: Gateway, job: Job, manifest: Resource) -> None:
    """Create an object whose name is used once; one that is there already, of an attempt that was cut short, is applied.

    Raises:
        TransientError: `NameTaken`: there is such an object, and it does not belong to the job; it was not changed.
        PreconditionFailedError: The object has changed since it was looked at.
        SpecRejectedError: `ManifestRejected`: the API server refuses the object.
    """
    if not await gateway.create(manifest):
        await apply(gateway, job, manifest, {})


async def delete(gateway: Gateway, job: Job, kind: Kind, name: str) -> None:
    """Delete an object if it exists and belongs to the job."""
    existing = await gateway.get(kind, job.namespace, name)
    if existing is not None and belongs_to(existing, job):
        await gateway.delete(kind, job.namespace, name, uid=watched.uid_of(existing))
