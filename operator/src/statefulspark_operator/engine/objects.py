"""Objects that the operator creates, applies and deletes by their names: only those of the job, never somebody else's.

A name such as `<job>-driver` may be taken: by a Service of the user, or by what an earlier job of that name has left and
Kubernetes is about to remove. Applying by force would take it over, with its selector or its rights. A revision is stored
with its code before it runs.
"""

from __future__ import annotations

from statefulspark import errors

from statefulspark_operator.api import base, names
from statefulspark_operator.api.code import ConfigMapCode
from statefulspark_operator.api.spec import Storage
from statefulspark_operator.cluster import cache, resources
from statefulspark_operator.cluster.gateway import Gateway, JobKey
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine import access
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import code
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render import children
from statefulspark_operator.render import code as code_manifests
from statefulspark_operator.render.base import Subject

Address = tuple[str, str, str]
"""Identity of the job, kind and name."""
_MANAGED_BY = "app.kubernetes.io/managed-by"


def belongs_to(existing: Resource, job: Job) -> bool:
    """Tell whether an object belongs to a job.

    It names the job as its owner; or it has lost its owner, as `kubectl delete --cascade=orphan` leaves it, and the labels
    say that the operator made it for a job of this name.
    """
    if resources.items(existing, "metadata", "ownerReferences"):
        return resources.has_owner(existing, job.uid)
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
    version = versions.pop(address, None)
    if version is None:
        existing = await gateway.get(kind, job.namespace, name)
        if existing is not None and not belongs_to(existing, job):
            raise errors.TransientError(
                "NameTaken",
                f"{kind.name} {name} exists and does not belong to this job, so it is not changed; delete it, or give the "
                "job another name. The driver waits until it is gone.",
            )
        version = cache.version_of(existing) if existing is not None else None
    versions[address] = await gateway.apply(manifest, resource_version=version)


async def create(gateway: Gateway, job: Job, manifest: Resource) -> None:
    """Create an object whose name is used once; one that is there already, of an attempt that was cut short, is applied.

    Raises:
        TransientError: `NameTaken`: there is such an object, and it does not belong to the job; it was not changed.
        PreconditionFailedError: The object has changed since it was looked at.
        SpecRejectedError: `ManifestRejected`: the API server refuses the object.
    """
    if not await gateway.create(manifest):
        await apply(gateway, job, manifest, {})


async def keep(gateway: Gateway, job: Job, manifest: Resource, versions: dict[Address, str]) -> bool:
    """Create an object that is never changed, and tell whether it is new; one that exists is kept, unless an earlier job's.

    Args:
        gateway: The API server.
        job: The job.
        manifest: What to create.
        versions: As in `apply`; an object that is in it is not looked at again.

    Raises:
        TransientError: `NameTaken`: it belongs to an earlier job of that name, and Kubernetes is about to remove it.
        SpecRejectedError: `ManifestRejected`: the API server refuses the object.
    """
    kind, name = resources.kind_of(manifest), resources.text(manifest, "metadata", "name")
    address = job.uid, kind.name, name
    is_new = await gateway.create(manifest)
    if not is_new and address not in versions:
        existing = await gateway.get(kind, job.namespace, name)
        owners = resources.items(existing, "metadata", "ownerReferences")
        of_jobs = {owner.get("uid") for owner in owners if owner.get("kind") == base.KIND}
        if of_jobs and job.uid not in of_jobs:
            raise errors.TransientError(
                "NameTaken",
                f"{kind.name} {name} belongs to an earlier job of this name; the driver waits until Kubernetes has removed "
                "it.",
            )
    versions[address] = ""
    return is_new


async def delete(gateway: Gateway, job: Job, kind: Kind, name: str) -> None:
    """Delete an object if it exists and belongs to the job."""
    existing = await gateway.get(kind, job.namespace, name)
    if existing is not None and belongs_to(existing, job):
        await gateway.delete(kind, job.namespace, name, uid=cache.uid_of(existing))


async def store_revision(ports: Ports, subject: Subject, revision: str) -> None:
    """Store the spec and the code of a revision; what is stored already is kept.

    Args:
        ports: The ports.
        subject: The job with the spec of the revision.
        revision: The revision.

    Raises:
        PreconditionFailedError: `CodeChanged`: the code has changed since the decision; the next pass decides again.
        StateUnknownError: `CodeLost`: the kept code of an earlier revision is gone.
        SpecRejectedError: The code is not what its checksum says.
        TransientError: Something does not answer, or a name is taken.
    """
    is_new = await keep(ports.gateway, subject.job, children.controller_revision(subject, revision=revision), {})
    source = subject.spec.job.source
    if source is not None and source.config_map is not None:
        await _keep_code_files(ports, subject, source.config_map, revision, is_new=is_new)
    elif source is not None and source.s3 is not None:
        target = await storage_target(ports, subject.job, subject.spec.storage)
        await ports.storage.keep_code(target, source.s3)


async def _keep_code_files(
    ports: Ports, subject: Subject, source: ConfigMapCode, revision: str, *, is_new: bool
) -> None:
    gateway, job = ports.gateway, subject.job
    stored_as = names.controller_revision(job.name, revision)
    stored = await gateway.get(resources.CONTROLLER_REVISION, job.namespace, stored_as)
    if stored is None:
        raise errors.PreconditionFailedError("NotFound", f"ControllerRevision {stored_as} is gone again.")
    name = names.code(job.name, revision)
    kept = await gateway.get(resources.CONFIG_MAP, job.namespace, name)
    if kept is not None:
        if not resources.has_owner(kept, cache.uid_of(stored)):
            raise errors.TransientError(
                "NameTaken",
                f"ConfigMap {name} exists and does not belong to this job, so it is not used; delete it. The driver waits "
                "until it is gone.",
            )
        return
    original = await gateway.get(resources.CONFIG_MAP, job.namespace, source.name)
    chosen = code.choose(subject.spec, source, resources.config_map_files(original) if original is not None else None)
    if isinstance(chosen, code.Chosen):
        uid = cache.uid_of(stored)
        await gateway.create(code_manifests.kept(subject, revision=revision, files=chosen.files, owner_uid=uid))
    elif is_new:
        raise errors.PreconditionFailedError("CodeChanged", f"The code has just changed. {chosen.message}")
    else:
        raise errors.StateUnknownError(
            "CodeLost",
            f"The ConfigMap {name} with the code of revision {revision} is gone, and ConfigMap {source.name} does not have "
            "it any more. Put that code back there, or change spec.job.",
        )


async def storage_target(ports: Ports, job: Job, storage: Storage) -> StorageTarget:
    """Return the connection to a job's storage.

    Raises:
        TransientError: It cannot be reached now.
    """
    target = await access.connection(ports, JobKey(job.namespace, job.name), storage, owner_id=job.uid)
    if not isinstance(target, StorageTarget):
        raise errors.TransientError(target.reason, target.message)
    return target
