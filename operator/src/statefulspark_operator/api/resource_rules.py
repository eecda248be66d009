"""Resources that no pod can have, or in which a driver cannot live: refused while the running revision still runs. Pure.

Kubernetes would refuse most of them, but only when the next pod is created. What executors need beside their heap is another
page's (`memory`).
"""

from __future__ import annotations

from collections.abc import Iterator

from statefulspark_operator.api import memory, quantities
from statefulspark_operator.api.spec import Driver, Executor, Resources, StatefulSparkJobSpec

_MIB = 1 << 20


def problem(spec: StatefulSparkJobSpec) -> str | None:
    """Return what is wrong with the resources of a job's pods, and what to do; None if nothing is."""
    return next(_problems(spec.driver, spec.executor), None)


def _problems(driver: Driver, executor: Executor | None) -> Iterator[str]:
    for part, resources in (
        ("driver", driver.resources),
        ("executor", executor.resources if executor is not None else None),
    ):
        if resources is not None:
            yield from _amount_problems(part, resources)
    limit = (driver.resources.limits or {}).get(memory.MEMORY) if driver.resources is not None else None
    if limit is not None:
        least = memory.quantity_mib(driver.heap) + memory.PYTHON_MIN_MIB
        if quantities.amount(limit) < least * _MIB:
            yield (
                f"driver.resources limits memory to {limit}, but a heap of {driver.heap} and Python beside it need "
                f"{least}Mi at least; raise the limit, or lower driver.heap"
            )
    for part, disk in (
        ("driver", driver.local_disk),
        ("executor", executor.local_disk if executor is not None else None),
    ):
        if disk is None:
            continue
        try:
            if quantities.amount(disk.size) <= 0:
                yield f"{part}.localDisk.size is 0; name how much a pod may use, or leave localDisk out"
        except ValueError as error:
            yield f"{part}.localDisk.size: {error}"


def _amount_problems(part: str, resources: Resources) -> Iterator[str]:
    requests, limits = resources.requests or {}, resources.limits or {}
    for kind, given in (("requests", requests), ("limits", limits)):
        for name, text in given.items():
            try:
                quantities.amount(text)
            except ValueError as error:
                yield f"{part}.resources.{kind}.{name}: {error}"
                return
    for name in sorted(requests.keys() & limits.keys()):
        if quantities.amount(requests[name]) > quantities.amount(limits[name]):
            yield (
                f"{part}.resources requests {requests[name]} of {name} and limits it to {limits[name]}; Kubernetes creates "
                "no such pod. Lower the request, or raise the limit"
            )
