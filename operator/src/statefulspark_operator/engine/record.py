"""Writes the decision's status before any action: facts and intent, in one patch, and only if it differs.

The patch carries the version of the resource that the decision was made from. If the resource has changed since then,
nothing is written and no action is performed: the next pass decides from the new state.
"""

from __future__ import annotations

import json

from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine.ports import Ports


def as_json(status: StatefulSparkJobStatus) -> Resource:
    """Return a status in its stored form."""
    decoded: Resource = json.loads(status.to_json())
    return decoded


async def record(ports: Ports, key: JobKey, resource: Resource, status: StatefulSparkJobStatus) -> str:
    """Store a status if it differs from the stored one.

    Args:
        ports: The ports.
        key: The job.
        resource: The resource that the decision was made from.
        status: The status to store.

    Returns:
        The version of the resource afterwards.

    Raises:
        PreconditionFailedError: The resource has changed since it was read.
        TransientError: `NotLeading`: this operator leads no longer.
    """
    version = resources.text(resource, "metadata", "resourceVersion")
    patch = resources.merge_patch(resources.section(resource, "status"), as_json(status))
    if not patch:
        return version
    ports.require_leadership()
    return await ports.gateway.patch_status(key, patch, resource_version=version)
