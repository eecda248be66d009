"""Stores the spec of a revision with its code before it runs, and drops the code of those that cannot run again."""

from __future__ import annotations

from collections.abc import Collection

from statefulspark import errors

from statefulspark_operator.api import names
from statefulspark_operator.api.code import ConfigMapCode, ObjectCode
from statefulspark_operator.api.spec import Storage
from statefulspark_operator.cluster import config_maps, resources, watched
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine import observe
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import code
from statefulspark_operator.lifecycle.situation import Job, Situation
from statefulspark_operator.render import children
from statefulspark_operator.render import code as code_manifests
from statefulspark_operator.render.base import Subject


async def store(ports: Ports, subject: Subject, revision: str) -> None:
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
    is_new = await ports.gateway.create(children.controller_revision(subject, revision=revision))
    source = subject.spec.job.from_
    if source is not None and source.config_map is not None:
        await _keep_files(ports, subject, source.config_map, revision, is_new=is_new)
    elif source is not None and source.s3 is not None:
        await _keep_object(ports, subject, source.s3)


async def _keep_files(ports: Ports, subject: Subject, source: ConfigMapCode, revision: str, *, is_new: bool) -> None:
    gateway, job = ports.gateway, subject.job
    stored_as = names.controller_revision(job.name, revision)
    stored = await gateway.get(resources.CONTROLLER_REVISION, job.namespace, stored_as)
    if stored is None:
        raise errors.PreconditionFailedError("NotFound", f"ControllerRevision {stored_as} is gone again.")
    name = names.code(job.name, revision)
    kept = await gateway.get(resources.CONFIG_MAP, job.namespace, name)
    if kept is not None:
        _require_own(kept, watched.uid_of(stored), name)
        return
    original = await gateway.get(resources.CONFIG_MAP, job.namespace, source.name)
    chosen = code.choose(subject.spec, source, config_maps.files(original) if original is not None else None)
    if isinstance(chosen, code.Chosen):
        uid = watched.uid_of(stored)
        await gateway.create(code_manifests.kept(subject, revision=revision, files=chosen.files, owner_uid=uid))
    elif is_new:
        raise errors.PreconditionFailedError("CodeChanged", f"The code has just changed. {chosen.message}")
    else:
        raise errors.StateUnknownError(
            "CodeLost",
            f"The ConfigMap {name} with the code of revision {revision} is gone, and ConfigMap {source.name} does not have "
            "it any more. Put that code back there, or change spec.job.",
        )


def _require_own(kept: Resource, owner_uid: str, name: str) -> None:
    owners = resources.items(kept, "metadata", "ownerReferences")
    if not any(owner.get("uid") == owner_uid for owner in owners):
        raise errors.TransientError(
            "NameTaken",
            f"ConfigMap {name} exists and does not belong to this job, so it is not used; delete it. The driver waits until "
            "it is gone.",
        )


async def _keep_object(ports: Ports, subject: Subject, source: ObjectCode) -> None:
    target = await _target(ports, subject.job, subject.spec.storage)
    await ports.storage.keep_code(target, source)


async def drop_objects(
    ports: Ports, situation: Situation, gone: Collection[Resource], kept: Collection[Resource]
) -> None:
    """Delete the kept objects with the code of stored revisions; files go with the ConfigMap that the revision owns.

    Args:
        ports: The ports.
        situation: The job's situation, with a spec.
        gone: Stored revisions that are about to be deleted.
        kept: All others of the job; what one of them names stays.
    """
    checksums = _checksums(gone) - _checksums(kept)
    if not checksums or situation.spec is None:
        return
    target = await _target(ports, situation.job, situation.spec.storage)
    ports.require_leadership()
    await ports.storage.drop_code(target, checksums)


async def _target(ports: Ports, job: Job, storage: Storage) -> StorageTarget:
    target = await observe.connection(ports, JobKey(job.namespace, job.name), storage, owner_id=job.uid)
    if not isinstance(target, StorageTarget):
        raise errors.TransientError(target.reason, target.message)
    return target


def _checksums(stored: Collection[Resource]) -> frozenset[str]:
    checksums = (resources.text(item, "data", "spec", "job", "from", "s3", "sha256") for item in stored)
    return frozenset(checksum for checksum in checksums if checksum)
