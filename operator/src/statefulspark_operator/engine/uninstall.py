"""What only an operator can end, which therefore has to be gone before the last operator is."""

from __future__ import annotations

import asyncio

from statefulspark import errors

from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.gateway import Gateway
from statefulspark_operator.cluster.kubernetes_gateway import KubernetesGateway

TRIES, RETRY_S = 10, 3.0
"""How often and after how long a busy API server is asked again; the Job has two minutes."""


async def look(namespaces: tuple[str, ...]) -> tuple[str, ...]:
    """Connect to the cluster, and return what `remaining` says; an API server that is busy is asked again for a while."""
    gateway = await KubernetesGateway.connect()
    try:
        for _ in range(TRIES):
            try:
                return await remaining(gateway, namespaces)
            except errors.TransientError:
                await asyncio.sleep(RETRY_S)
        return await remaining(gateway, namespaces)
    finally:
        await gateway.close()


async def remaining(gateway: Gateway, namespaces: tuple[str, ...]) -> tuple[str, ...]:
    """Return the jobs and savepoints that exist, as `StatefulSparkJob shop/orders`.

    Args:
        gateway: Kubernetes.
        namespaces: Where to look; empty means the whole cluster.
    """
    kinds = (resources.JOB, resources.SAVEPOINT)
    listed = [(kind, await gateway.list_all(kind, where) or ()) for kind in kinds for where in namespaces or (None,)]
    return tuple(
        f"{kind.name} {resources.text(item, 'metadata', 'namespace')}/{resources.text(item, 'metadata', 'name')}"
        for kind, items in listed
        for item in items
    )
