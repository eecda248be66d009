"""The limits of a planned job, and the first one that a growing job reaches. Pure."""

from __future__ import annotations

import math

from statefulspark.sizing import coefficients, layout, objects, times
from statefulspark.sizing.answer import Limit
from statefulspark.sizing.questions import Questions
from statefulspark.state import keygroups

FAR = 1e6
"""Beyond this a factor says nothing."""


def limits(asked: Questions, rate: layout.Rate, pods: layout.Pods) -> tuple[Limit, ...]:
    """Return how many times as many keys and rows a plan holds, by what is used up, the nearest first."""
    reached = [
        Limit(name="cores", factor=rate.capacity(pods.partitions), what_then=_MORE_CORES),
        Limit(name="memory", factor=_memory(asked, pods), what_then=_MORE_MEMORY),
        Limit(name="keyGroups", factor=pods.key_groups / pods.partitions, what_then=_MORE_GROUPS),
        Limit(name="requests", factor=_requests(asked, pods, rate), what_then=_MORE_PREFIXES),
    ]
    restart = _restart(asked, pods)
    if restart is not None:
        reached.append(Limit(name="restart", factor=restart, what_then=_MORE_CORES))
    return tuple(sorted((_rounded(limit) for limit in reached), key=lambda limit: limit.factor))


def _rounded(limit: Limit) -> Limit:
    return limit.model_copy(update={"factor": round(min(limit.factor, FAR), 2)})


def _memory(asked: Questions, pods: layout.Pods) -> float:
    """Return how many times the state fits into pods of the size that was given, with as many cores as there are."""
    state_mib = layout.state_bytes(asked) / layout.MIB
    beside = layout.beside_workers_mib(pods.heap_mib) + (layout.DRIVER_MIB if pods.instances == 0 else 0)
    room_mib = min((asked.pod_memory_mib - beside) // pods.cores, layout.most_worker_mib())
    return FAR if state_mib == 0 else room_mib / 2 * pods.partitions / state_mib


def _requests(asked: Questions, pods: layout.Pods, rate: layout.Rate) -> float:
    """Return how many times as many partitions may write before the object store slows a prefix down."""
    writes = objects.requests(asked, pods.partitions, rate.interval_s).batch_writes / objects.HOUR_S
    return coefficients.WRITES_PER_S_LIMIT.value / writes


def _restart(asked: Questions, pods: layout.Pods) -> float | None:
    """Return how many times the state can be read within the wanted time; None if none is wanted or can be reached."""
    goal, within_s = times.goal(asked), asked.restart_within_s
    if within_s is None or not goal.is_reachable:
        return None
    reading_s = times.read_s(asked, pods.partitions)
    return math.inf if reading_s == 0 else (within_s - times.fixed_s(needs_standby=goal.needs_standby)) / reading_s


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
    "The object store answers 503 for a while and spreads the prefix by itself; longer batches need fewer requests."
)
