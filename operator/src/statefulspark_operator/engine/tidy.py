"""Removes objects of a job that nothing needs any more, which `lifecycle/leftovers.py` decides.

It happens after a pass that was made from what the API server says, and that acted on nothing; once, and again only after
the job has had another epoch, standby or revision: a quiet job costs no request. It never holds up its job: what fails is
tried again in a later pass. An operator that ends in the middle finds the others again.
"""

from __future__ import annotations

import logging

from statefulspark import errors

from statefulspark_operator.api import names
from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import resources, watched
from statefulspark_operator.cluster.gateway import EventNote, JobKey
from statefulspark_operator.cluster.resources import Kind
from statefulspark_operator.engine import ownership
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import leftovers
from statefulspark_operator.lifecycle.leftovers import Leftovers, StoredObject
from statefulspark_operator.lifecycle.situation import Situation

_LOG = logging.getLogger("statefulspark.tidy")


async def objects(ports: Ports, key: JobKey, situation: Situation, status: StatefulSparkJobStatus) -> None:
    """Remove the objects of a job that nothing needs, if there may be any.

    Args:
        ports: The ports.
        key: The job.
        situation: The job and its pods, as the API server has them.
        status: The status as it was recorded.
    """
    memory = ports.memories.of(key)
    come_to = leftovers.come_to(situation, status)
    if come_to is None or memory.tidied == come_to:
        return
    try:
        found = await _find(ports, key, situation, status)
        await _remove(ports, key, situation, found)
    except errors.StateUnknownError as error:
        _LOG.warning("objects not looked through", extra={"job": str(key), "error": error.message})
    except errors.StatefulSparkError as error:
        _LOG.info("objects not removed, tried again", extra={"job": str(key), "error": error.message})
        return
    memory.tidied = come_to


async def _find(ports: Ports, key: JobKey, situation: Situation, status: StatefulSparkJobStatus) -> Leftovers:
    configs = await _own(ports, key, situation, resources.CONFIG_MAP)
    revisions = await _own(ports, key, situation, resources.CONTROLLER_REVISION)
    return leftovers.unneeded(situation, status, configs=configs, revisions=revisions)


async def _own(ports: Ports, key: JobKey, situation: Situation, kind: Kind) -> tuple[StoredObject, ...]:
    """Return the objects of a kind that belong to the job."""
    listed = await ports.gateway.list_all(kind, key.namespace, selector=names.object_selector(key.name))
    return tuple(
        StoredObject(resources.text(found, "metadata", "name"), watched.uid_of(found))
        for found in listed or ()
        if ownership.belongs_to(found, situation.job)
    )


async def _remove(ports: Ports, key: JobKey, situation: Situation, found: Leftovers) -> None:
    for kind, unneeded in (
        (resources.CONFIG_MAP, found.configs),
        (resources.CONTROLLER_REVISION, found.revisions),
    ):
        for kept in unneeded:
            ports.require_leadership()
            await ports.gateway.delete(kind, key.namespace, kept.name, uid=kept.uid)
    if found == Leftovers():
        return
    note = leftovers.announcement(found)
    names_of = [kept.name for kept in (*found.configs, *found.revisions)]
    _LOG.info("unneeded objects removed", extra={"job": str(key), "objects": names_of})
    await ports.gateway.post_event(key, situation.job.uid, EventNote(note.reason, note.message))
