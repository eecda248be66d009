"""Refuses a rollback that would lose state, or repeat output that no sink withdraws or replaces.

A rollback is a start that nobody asked for by name: the job goes back to a version that ran before, on the newest state if
that fits, else on the savepoint from which the failed version began. So it is refused where a start that a person asks for
would be told what it costs, and go on. Nothing is changed before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract import layout, rights
from statefulspark.contract.config import RestoreConfig
from statefulspark.declaration import QueryOutputs
from statefulspark.evolution import comparison
from statefulspark.recovery import generations, history, recovery
from statefulspark.sinks import base, visibility

if TYPE_CHECKING:
    from statefulspark.contract.manifest import Manifest
    from statefulspark.driver.starting.start_parts import JobRoot
    from statefulspark.recovery.plan import StartPlan


def require_harmless(
    restore: RestoreConfig,
    root: JobRoot,
    start_plan: StartPlan,
    changes: Iterable[comparison.Evolution],
    *,
    planned: Iterable[plans.PlannedQuery],
    outputs: Mapping[str, object],
) -> None:
    """Refuse a rollback that starts a part of the job empty, or that repeats output; any other start passes.

    Cost: nothing, unless a snapshot is copied; then that of `recovery.plan_recovery`, and the records of generations.

    Args:
        restore: What the start was asked for.
        root: The job's root.
        start_plan: Where it would start.
        changes: The changes of each restored query.
        planned: Every query of the job.
        outputs: What each query writes, by query uid.

    Raises:
        SpecRejectedError: `StateAbsent`, `OutputRepeated`.
    """
    if not restore.rollback:
        return
    comparison.require_state_for_all(changes, planned, start_plan.restored_from or "The state on storage")
    manifest = start_plan.restored
    if manifest is None or start_plan.why_copied is None:
        return  # It goes on where the job is.
    repeated, refusing = [], []
    for uid, span in _committed_since(manifest, root):
        if uid not in outputs:
            continue
        written = outputs[uid]
        if not isinstance(written, QueryOutputs):
            repeated.append(f"query {uid!r} (a sink of Spark), {span}")
            continue
        for output in written.outputs:
            # Some sinks withdraw or replace the rows of batches that they get once more.
            if getattr(output.sink, "takes_batches_again", False) is True:
                continue
            repeated.append(f"query {uid!r} ({base.kind_of(output.sink)}), {span}")
            if visibility.sink_visibility(output.sink) is visibility.Visibility.BATCH:
                refusing.append(layout.sink_name(uid, output.uid))
    if repeated:
        with_rights = f" Do so with {rights.described({rights.SinkRight.REPEAT: refusing})}." if refusing else ""
        raise errors.SpecRejectedError(
            "OutputRepeated",
            f"Batches were committed after {start_plan.restored_from}: {'; '.join(repeated)}. Those of their rows that are "
            "visible would be written once more; of a sink that waits for checkpoints, that is what a checkpoint or "
            "savepoint has covered. Go on from the newest state with a version of the job that it fits; or restore that "
            f"snapshot by name, which writes them again.{with_rights}",
        )


def _committed_since(manifest: Manifest, root: JobRoot) -> Iterator[tuple[str, str]]:
    """Find the queries that have committed batches after a snapshot, and which.

    A query whose newest batch does not descend from the snapshot counts, too: its rows cannot be told apart by number.
    Which of the batches are visible is not asked: a savepoint at any location may have shown them.
    """
    lineages = root.author.lineages if root.author else None
    newest = recovery.plan_recovery(root.store, restore=RestoreConfig(), lineages=lineages)
    line = history.trace(generations.read_all(root.store), newest.generation)
    through = next((cut.batches for cut in line.cuts if cut.generation == manifest.generation), {})
    for query in manifest.queries:
        reached = newest.start_batches.get(query.uid, -1)
        if newest.generation != manifest.generation and reached >= 0 and through.get(query.uid, -1) < query.batch_id:
            yield query.uid, "up to batch " + str(reached) + " of other state"
        elif reached > query.batch_id:
            yield query.uid, f"batches {query.batch_id + 1} to {reached}"
