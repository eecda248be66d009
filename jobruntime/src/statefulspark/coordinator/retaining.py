"""Which completed checkpoints are retained: the newest ones, and as many that count. Pure.

A checkpoint counts when the driver that completed it has loaded the state of every query. Spark loads a query's state with
its first batch, which may be long after the start of a query without input, or of a slow one. Until then the others
complete checkpoints that all share the state that was restored; if that cannot be loaded, none of them can be used. So the
checkpoints of before the start stay until every query has committed a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from statefulspark.contract import retained
from statefulspark.coordinator.model import State


def untried(restored: Mapping[str, int], batches: Mapping[str, int]) -> tuple[str, ...]:
    """Return the participants whose restored state nobody has loaded yet, sorted: they have not committed a batch since.

    Args:
        restored: The batch at which each participant's state was restored, for those that have state.
        batches: The batches of a snapshot, by participant.
    """
    return tuple(sorted(uid for uid, batch in restored.items() if batches.get(uid, batch) <= batch))


def retain(state: State, completed_id: int, batches: Mapping[str, int]) -> tuple[State, tuple[int, ...]]:
    """Retain a checkpoint that is complete, and return the ids of those that are not needed any more, oldest first.

    Args:
        state: The coordinator's state.
        completed_id: The checkpoint.
        batches: Its batches, by participant.
    """
    without = state.untried | ({completed_id} if untried(state.restored, batches) else frozenset())
    completed_ids = sorted((*state.retained, completed_id))
    kept = frozenset(retained.retained(completed_ids, without, state.settings.retained))
    state = replace(state, retained=tuple(sorted(kept)), untried=without & kept)
    return state, tuple(number for number in completed_ids if number not in kept)
