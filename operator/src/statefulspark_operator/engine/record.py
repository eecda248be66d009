"""Writes the decision's status before anything is done: facts and intent, in one patch, and only if it differs.

The patch carries the version of the resource that the decision was made from. If anybody changed the resource
meanwhile, nothing is written and nothing is done: the next pass decides from what is true then.
"""

from __future__ import annotations

import json

from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine.world import World


def as_json(status: StatefulSparkJobStatus) -> Resource:
    """Return a status as it is stored."""
    decoded: Resource = json.loads(status.to_json())
    return decoded


async def record(world: World, key: JobKey, resource: Resource, status: StatefulSparkJobStatus) -> str:
    """Store a status, unless it is stored already.

    Args:
        world: The ports.
        key: The job.
        resource: The resource that the decision was made from.
        status: What to store.

    Returns:
        The version of the resource afterwards.

    Raises:
        PreconditionFailedError: The resource has changed since it was read.
    """
    version = resources.text(resource, "metadata", "resourceVersion")
    patch = resources.merge_patch(resources.section(resource, "status"), as_json(status))
    if not patch:
        return version
    return await world.gateway.patch_status(key, patch, resource_version=version)
