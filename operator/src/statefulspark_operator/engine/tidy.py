"""Removes what nothing needs: objects of a job (`lifecycle/leftovers.py`), files of one without a driver (`pruning.py`).

It happens after a pass that was made from what the API server says, and that acted on nothing; once, and again only after
the job has had another epoch, standby or revision: a quiet job costs no request. It never holds up its job: what fails is
tried again in a later pass. An operator that ends in the middle finds the others again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from statefulspark import errors

from statefulspark_operator.api import names
from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import cache, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine import access, objects, observe, record
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import leftovers, pruning
from statefulspark_operator.lifecycle.leftovers import Leftovers, StoredObject
from statefulspark_operator.lifecycle.situation import Accepted, Situation

_LOG = logging.getLogger("statefulspark.tidy")


async def remove_objects(ports: Ports, key: JobKey, situation: Situation, status: StatefulSparkJobStatus) -> None:
    """Remove the objects of a job that nothing needs, if there may be any.

    Args:
        ports: The ports.
        key: The job.
        situation: The job and its pods, as the API server has them.
        status: The status as it was recorded.
    """
    memory = ports.memories.get(key)
    come_to = leftovers.come_to(situation, status)
    if come_to is None or memory.tidied == come_to:
        return
    try:
        configs = await _own(ports, key, situation, resources.CONFIG_MAP)
        stored = await _own(ports, key, situation, resources.CONTROLLER_REVISION)
        unneeded = leftovers.unneeded(situation, status, configs=_named(configs), revisions=_named(stored))
        if unneeded != Leftovers():
            await _remove(ports, key, situation, unneeded, stored)
    except errors.StateUnknownError as error:
        _LOG.warning("objects not looked through", extra={"job": str(key), "error": error.message})
    except errors.StatefulSparkError as error:
        _LOG.info("objects not removed, tried again", extra={"job": str(key), "error": error.message})
        return
    memory.tidied = come_to


def _checksums(stored: Collection[Resource]) -> frozenset[str]:
    checksums = (resources.text(item, "data", "spec", "job", "source", "s3", "sha256") for item in stored)
    return frozenset(checksum for checksum in checksums if checksum)


async def _own(ports: Ports, key: JobKey, situation: Situation, kind: Kind) -> tuple[Resource, ...]:
    """Return the objects of a kind that belong to the job."""
    listed = await ports.gateway.list_all(kind, key.namespace, selector=names.object_selector(key.name))
    return tuple(item for item in listed or () if objects.belongs_to(item, situation.job))


def _named(listed: tuple[Resource, ...]) -> tuple[StoredObject, ...]:
    return tuple(StoredObject(resources.text(item, "metadata", "name"), cache.uid_of(item)) for item in listed)


async def _remove(
    ports: Ports, key: JobKey, situation: Situation, unneeded: Leftovers, stored_revisions: Collection[Resource]
) -> None:
    names_gone = {item.name for item in unneeded.revisions}
    gone = [item for item in stored_revisions if resources.text(item, "metadata", "name") in names_gone]
    # The kept objects with their code go first: a revision that is gone does not tell any more which code it had.
    checksums = _checksums(gone) - _checksums([item for item in stored_revisions if item not in gone])
    if checksums and situation.spec is not None:
        target = await objects.storage_target(ports, situation.job, situation.spec.storage)
        ports.require_leadership()
        await ports.storage.drop_code(target, checksums)
    for kind, stored in (
        (resources.CONFIG_MAP, unneeded.configs),
        (resources.CONTROLLER_REVISION, unneeded.revisions),
    ):
        for item in stored:
            ports.require_leadership()
            await ports.gateway.delete(kind, key.namespace, item.name, uid=item.uid)
    removed = [item.name for item in (*unneeded.configs, *unneeded.revisions)]
    _LOG.info("unneeded objects removed", extra={"job": str(key), "objects": removed})
    await record.tell(ports, key, situation.job, (leftovers.announcement(unneeded),))


async def prune_storage(ports: Ports, key: JobKey, situation: Situation, status: StatefulSparkJobStatus) -> None:
    """Prune the folder of a job whose driver has ended, if it is time for that.

    The job is read once more before: a start that was decided meanwhile would be in its status.

    Args:
        ports: The ports.
        key: The job.
        situation: The job and its pods, as the API server has them.
        status: The status as it was recorded.
    """
    epoch = pruning.epoch_to_prune(situation, status)
    if epoch is None or situation.spec is None:
        return
    try:
        resource = await observe.read_job(ports, key)
        target = await access.storage_target(ports, situation.job, Accepted(situation.spec))
        if resource is None or not isinstance(target, StorageTarget):
            return
        job = observe.read_metadata(resource)
        is_same = (job.uid, job.generation) == (situation.job.uid, situation.job.generation)
        if not is_same or job.deletion_requested_at is not None or observe.read_status(resource) != status:
            return
        ports.require_leadership()
        pruned = await ports.storage.prune(target, situation.spec.checkpoint, epoch=epoch, now=situation.now)
        ports.freed.pruned += pruned.freed.size_bytes
        record_after = pruning.recorded(status.pruning, pruned, epoch=epoch, now=situation.now)
        await record.record(ports, key, resource, status.model_copy(update={"pruning": record_after}))
        await record.tell(ports, key, situation.job, pruning.told(pruned))
    except errors.StatefulSparkError as error:
        _LOG.info("folder not pruned, tried again", extra={"job": str(key), "error": error.message})
