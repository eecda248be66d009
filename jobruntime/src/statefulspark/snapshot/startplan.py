"""Where a driver starts, and who starts it: what `recovery` finds out, and what is carried out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from statefulspark.contract import layout
from statefulspark.contract.manifest import GenerationRecord, Manifest, MasterStateEntry, QueryEntry
from statefulspark.snapshot import base, descent, plans


class StartMode(StrEnum):
    """How a start gets its checkpoint roots."""

    EMPTY = "empty"
    """A new generation without files."""
    CONTINUE = "continue"
    """The generation in use, as it is."""
    COPY = "copy"
    """A new generation, filled with copies of the base's files."""


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Where a driver starts.

    Attributes:
        mode: How it gets there.
        generation: The generation to run in; for EMPTY and COPY a proposal until `carry_out` has reserved one.
        queries: What is restored, by query; with paths inside `generation` once carried out.
        restored_from: `checkpoint 41`, a savepoint's URI, or None for empty state.
        restored: Manifest of what is restored; None for empty state and for a generation's own beginning.
        fallback: Why something older than the newest state is used, None if it is not.
        next_snapshot_id: The number for the next snapshot.
        checkpoint_ids: The job's completed checkpoints, ascending; with the salvaged one, once that is settled.
        salvage: All queries of the generation in use, if they committed batches that no checkpoint covers; `carry_out`
            completes them as a checkpoint.
        restore_id: The latest restore that was asked for, done with this start or before.
        source: Where the base's files are.
        record: The record of the generation in use, if the start continues in it.
        note_restore: That record with what this start changes of it, if it changes anything: the restore that is done
            without a copy, and what queries without state are declared as.
        head: The generation in use as something to copy from, if the start would continue in it.
        unfinished: Generations that a dead driver left half made; `settle` makes sure that they stay so.
        obsolete_notes: Keys of notes on damage that is past.
        restore_skipped: Why the restore that is asked for is not done: it was before. None if it is, or none is asked for.
        claim: The snapshot that the job takes for its own with this start.
        changes: What is changed on the way into a new generation, in sentences.
        descent: Where the state of `generation` comes from; for COPY and EMPTY known once carried out.
        master_states: What the job's master hooks are restored with.
    """

    mode: StartMode
    generation: int
    queries: tuple[QueryEntry, ...] = ()
    restored_from: str | None = None
    restored: Manifest | None = None
    fallback: str | None = None
    next_snapshot_id: int = 1
    checkpoint_ids: tuple[int, ...] = ()
    salvage: tuple[QueryEntry, ...] = ()
    restore_id: str | None = None
    restore_skipped: str | None = None
    source: base.Base | None = None
    record: GenerationRecord | None = None
    note_restore: GenerationRecord | None = None
    head: base.Base | None = None
    unfinished: tuple[int, ...] = ()
    obsolete_notes: tuple[str, ...] = ()
    claim: base.Base | None = None
    changes: tuple[str, ...] = ()
    descent: descent.Descent | None = None
    master_states: tuple[MasterStateEntry, ...] = ()

    def partitions_of(self, query_uid: str) -> int:
        """Return how many partitions the restored state of a query has; 0 if it has none."""
        found = [one.partitions for query in self.queries if query.uid == query_uid for one in query.operators]
        return max(found, default=0)

    @property
    def start_batches(self) -> Mapping[str, int]:
        """Last committed batch by query uid; a query that is not named starts empty."""
        return {query.uid: query.batch_id for query in self.queries}


@dataclass(frozen=True, slots=True)
class Author:
    """Who carries a plan out; goes into the manifest of a salvaged checkpoint and the record of a generation."""

    namespace: str
    job: str
    epoch: int
    now: datetime
    revision: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    owner_id: str = "local"
    lineages: descent.Lineages = field(default_factory=descent.Lineages)


def in_new_generation(plan: StartPlan, changes: tuple[str, ...]) -> StartPlan:
    """Return a plan that copies what the start would have continued in, so that it can be changed on the way.

    Args:
        plan: Any; one that copies already, or starts empty, goes on doing that.
        changes: What is changed, in sentences.
    """
    if plan.mode is not StartMode.CONTINUE:
        return replace(plan, changes=changes)
    return replace(
        plan,
        mode=StartMode.COPY,
        generation=plan.generation + 1,
        source=plan.head,
        note_restore=None,
        changes=changes,
    )


def noting_declared(plan: StartPlan, planned: Iterable[plans.PlannedQuery]) -> StartPlan:
    """Have the record of the generation in use say what queries that have no state there yet are declared as.

    What they commit before the next checkpoint is told by that record alone, should this driver die: storage does not
    tell how many key groups an operator has.

    Args:
        plan: Any; one that makes a new generation describes every query there.
        planned: Every query of the job.
    """
    if plan.mode is not StartMode.CONTINUE or plan.record is None:
        return plan
    stated = {query.uid for query in plan.queries if query.batch_id >= 0}
    declared = {
        one.uid: plans.declared(one, layout.query_root(plan.generation, one.uid))
        for one in planned
        if one.uid not in stated
    }
    record = plan.note_restore or plan.record
    queries = tuple(({query.uid: query for query in record.queries} | declared).values())
    if queries == record.queries:
        return plan
    return replace(plan, note_restore=record.model_copy(update={"queries": queries}))
