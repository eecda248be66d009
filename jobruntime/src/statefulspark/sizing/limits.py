"""The limits of a planned job, and the first one that a growing job reaches. Pure."""

from __future__ import annotations

import math

from statefulspark import errors
from statefulspark.sizing import coefficients, layout, objects, times
from statefulspark.sizing.answer import Limit
from statefulspark.sizing.workload import Workload
from statefulspark.state import keygroups

FAR = 1e6
"""Beyond this a factor says nothing."""


def limits(workload: Workload, rate: layout.Rate, pods: layout.Pods) -> tuple[Limit, ...]:
    """Return how many times as many keys and rows a plan holds, by what is used up, the nearest first.

    Raises:
        SpecRejectedError: `SizeImpossible`: requests or checkpoints do not fit into their time as it is.
    """
    state_mib = layout.state_bytes(workload) / layout.MIB
    driver_mib = layout.driver_python_mib(workload, pods.partitions) if pods.instances == 0 else 0
    beside = layout.beside_workers_mib(pods.heap_mib) + driver_mib
    room_mib = min((workload.pod_memory_mib - beside) // pods.cores, layout.most_worker_mib())
    writes = objects.requests(workload, pods.partitions, rate.interval_s).batch_writes / objects.HOUR_S
    reached = [
        Limit(name="cores", factor=rate.capacity(pods.partitions), what_then=_MORE_CORES),
        Limit(
            name="memory",
            factor=FAR if state_mib == 0 else room_mib / 2 * pods.partitions / state_mib,
            what_then=_MORE_MEMORY,
        ),
        Limit(name="keyGroups", factor=pods.key_groups / pods.partitions, what_then=_MORE_GROUPS),
        Limit(name="requests", factor=coefficients.WRITES_PER_S_LIMIT.value / writes, what_then=_MORE_PREFIXES),
        Limit(
            name="checkpoints",
            factor=workload.checkpoint_interval_s / checkpoint_s(workload, rate, pods),
            what_then=_LONGER_INTERVALS,
        ),
    ]
    goal, within_s = times.goal(workload), workload.restart_within_s
    if within_s is not None and goal.is_reachable:
        left_s = within_s - times.fixed_s(needs_standby=goal.needs_standby)
        reading_s = times.read_s(workload, pods.partitions)
        factor = math.inf if reading_s == 0 else left_s / reading_s
        reached.append(Limit(name="restart", factor=factor, what_then=_MORE_CORES))
    for limit in reached:
        if limit.factor < 1 and limit.name in _OF_TIME:
            raise errors.SpecRejectedError(
                "SizeImpossible",
                f"With {pods.partitions} partitions, the limit {limit.name} holds only {limit.factor:.2f} times the job. "
                f"{limit.what_then}",
            )
    rounded = [limit.model_copy(update={"factor": round(min(limit.factor, FAR), 2)}) for limit in reached]
    return tuple(sorted(rounded, key=lambda limit: limit.factor))


def checkpoint_s(workload: Workload, rate: layout.Rate, pods: layout.Pods) -> float:
    """Return the time of a core that the driver needs for a checkpoint: to find its files, and to write them down."""
    return objects.files(workload, pods.partitions, rate.interval_s) * coefficients.FILE_CORE_S.value


_OF_TIME = frozenset({"requests", "checkpoints"})
"""Limits that a job cannot be beyond: what does not fit into its time waits longer and longer."""
_MORE_CORES = (
    "Ask again with the larger numbers, and rescale to the partitions of that answer: a start with other partitions."
)
_MORE_MEMORY = (
    "Give pods more memory with --pod-memory and ask again. Beyond 1 GiB of state in a worker raise cache_bytes of the "
    "operator, too. Beyond memory state is on the pod's disk: the same results, in batches of 1.1 times the length."
)
_MORE_GROUPS = (
    f"More partitions than key groups need another max_parallelism, {keygroups.MAX_PARALLELISM_LIMIT} at most, and a "
    "canonical savepoint between: set it before the operator first runs."
)
_MORE_PREFIXES = (
    "The object store answers 503 for a while and spreads the prefix by itself; longer batches need fewer requests "
    "(--batch-interval)."
)
_LONGER_INTERVALS = (
    "A checkpoint takes longer than the time from one to the next: make that longer with --checkpoint-interval, or split "
    "the job into several."
)
