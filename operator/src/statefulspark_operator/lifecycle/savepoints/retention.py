"""Which savepoints that the operator made by itself are pruned, and why. Pure.

What a person asked for or adopted is theirs. The newest good one is never pruned, whatever the limits say. Neither is one
that a start, an upgrade or a rollback may still go back to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark import durations

from statefulspark_operator.api import quantities
from statefulspark_operator.api.savepoint_schedule import SavepointRetention
from statefulspark_operator.api.spark_savepoint import AUTOMATIC, SavepointOrigin


@dataclass(frozen=True, slots=True)
class KeptSavepoint:
    """A completed savepoint.

    Attributes:
        name: Name of its object.
        origin: Why it was taken.
        completed_at: When it was complete.
        size_bytes: Size of its files.
        is_good: Whether its manifest was read and its files are there; false if that is not known.
        is_named: Whether a start, an upgrade or a revision of the history names it.
        is_reachable: Whether its files are where the job keeps its savepoints: in its own folder, or in the one of its spec.
    """

    name: str
    origin: SavepointOrigin
    completed_at: datetime
    size_bytes: int
    is_good: bool = True
    is_named: bool = False
    is_reachable: bool = True


@dataclass(frozen=True, slots=True)
class Pruned:
    """A savepoint to prune.

    Attributes:
        name: Name of its object.
        why: The limit that it is beyond, in a few words.
    """

    name: str
    why: str


def prune(savepoints: Sequence[KeptSavepoint], limits: SavepointRetention, *, now: datetime) -> tuple[Pruned, ...]:
    """Return what to prune, the oldest first.

    Args:
        savepoints: All completed savepoints of one job, in any order.
        limits: The limits of its spec.
        now: The current time.
    """
    newest_first = sorted(savepoints, key=lambda savepoint: (savepoint.completed_at, savepoint.name), reverse=True)
    last_resort = next((savepoint.name for savepoint in newest_first if savepoint.is_good), None)
    max_bytes = quantities.amount(limits.max_size) if limits.max_size is not None else None
    pruned: list[Pruned] = []
    kept = kept_bytes = 0
    for savepoint in newest_first:
        if savepoint.origin not in AUTOMATIC or not savepoint.is_reachable:
            continue
        if kept >= limits.count:
            why = f"{limits.count} newer ones are kept"
        elif limits.max_age is not None and now - savepoint.completed_at > limits.max_age:
            why = f"it is older than {durations.format_exact(limits.max_age)}"
        elif max_bytes is not None and kept_bytes + savepoint.size_bytes > max_bytes:
            why = f"with newer ones it is more than {limits.max_size}"
        else:
            why = None
        if why is not None and not savepoint.is_named and savepoint.name != last_resort:
            pruned.append(Pruned(savepoint.name, why))
            continue
        kept, kept_bytes = kept + 1, kept_bytes + savepoint.size_bytes
    return tuple(reversed(pruned))
