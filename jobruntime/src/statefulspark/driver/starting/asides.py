"""Finds the state that a version of the job leaves aside when it runs again after a version that has added to it.

The earlier version had a place for all state that it knew. So state without a place is what the later version has added, and
nothing of the earlier version's results is in it. If a part of the job would start empty as well, a uid may have another
name in the later version, and nothing is left aside. Transactions of a sink never are: a query that stays would lose the
rows of those batches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from statefulspark.checkpoint import plans
from statefulspark.contract import layout, lost_state
from statefulspark.contract.config import RestoreConfig
from statefulspark.evolution import comparison

if TYPE_CHECKING:
    from statefulspark.recovery.plan import RestoredState


def find(
    restore: RestoreConfig, start_plan: RestoredState, planned: Sequence[plans.PlannedQuery], hooks: Collection[str]
) -> tuple[lost_state.LostState, ...]:
    """Return the state that this start leaves aside; empty unless the job goes back and only lacks what was added.

    Args:
        restore: What the start was asked for.
        start_plan: Where it starts, with the queries that it leaves aside.
        planned: Every query of the job.
        hooks: The identifiers of the job's master hooks.

    Raises:
        SpecRejectedError: `NonRestoredState`: a query would be left aside, and another part of the job would start empty.
    """
    if not restore.keep_aside:
        return ()
    restored = {query.uid: query for query in start_plan.queries}
    changes = [comparison.evolve(restored[plan.uid], plan) for plan in planned if plan.uid in restored]
    if len(changes) < len(planned) or any(change.empty for change in changes):
        lost_state.require_permission(
            start_plan.kept_aside,
            restore.drop_state,
            holds=f"{start_plan.restored_from or 'The state on storage'} holds state of",
            remedy="Give the job back those uids",
        )
        return ()
    states = sorted(state.identifier for state in start_plan.master_states if state.identifier not in hooks)
    added = (
        *start_plan.kept_aside,
        *(part for change in changes for part in change.lost),
        *(lost_state.LostState(identifier, f"master hook {identifier!r}") for identifier in states),
    )
    return tuple(part for part in added if part.uid not in restore.drop_state)


def sentence(start_plan: RestoredState) -> str | None:
    """Return what a start has left aside and where that stays; None if it has left nothing."""
    if not start_plan.kept_aside:
        return None
    names = ", ".join(part.name for part in start_plan.kept_aside)
    snapshot = start_plan.restored_from or "the state before this start"
    is_checkpoint = snapshot.startswith(layout.CHECKPOINT_REFERENCE.rstrip(":"))
    stays = "for at least a day" if is_checkpoint else "as long as that savepoint"
    return (
        f"This version runs again after one that has added {names}. The state of that is kept aside: it stays in {snapshot} "
        f"{stays}, and a version that has these uids again starts them empty."
    )
