"""Which scheduled savepoints are pruned, and why. Pure.

Only what the schedule made is pruned; what a person, an upgrade or an adoption made is theirs. The newest good one is never
pruned, whatever the limits say, and neither is one that something still names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark import durations

from statefulspark_operator.api.savepoint_schedule import SavepointRetention
from statefulspark_operator.api.spark_savepoint import SavepointOrigin


@dataclass(frozen=True, slots=True)
class KeptSavepoint:
    """A completed savepoint.

    Attributes:
        name: Name of its object.
        origin: Who asked for it.
        completed_at: When it was complete.
        size_bytes: Size of its files.
        is_good: Whether its manifest was read and its files are there; false if that is not known.
        is_named: Whether a restore, an upgrade or another object names it.
    """

    name: str
    origin: SavepointOrigin
    completed_at: datetime
    size_bytes: int
    is_good: bool = True
    is_named: bool = False


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
        limits: The limits of its schedule.
        now: The current time.
    """
    newest_first = sorted(savepoints, key=lambda savepoint: (savepoint.completed_at, savepoint.name), reverse=True)
    last_resort = next((savepoint.name for savepoint in newest_first if savepoint.is_good), None)
    scheduled = [savepoint for savepoint in newest_first if savepoint.origin is SavepointOrigin.SCHEDULED]
    pruned: list[Pruned] = []
    kept = kept_bytes = 0
    for savepoint in scheduled:
        if limits.count is not None and kept >= limits.count:
            why = f"{limits.count} newer ones are kept"
        elif limits.max_age is not None and now - savepoint.completed_at > limits.max_age:
            why = f"it is older than {durations.format_exact(limits.max_age)}"
        elif limits.max_bytes is not None and kept_bytes + savepoint.size_bytes > limits.max_bytes:
            why = f"with newer ones it is more than {limits.max_bytes} bytes"
        else:
            why = None
        if why is not None and not savepoint.is_named and savepoint.name != last_resort:
            pruned.append(Pruned(savepoint.name, why))
            continue
        kept, kept_bytes = kept + 1, kept_bytes + savepoint.size_bytes
    return tuple(reversed(pruned))
