"""The plan of a start: what it does, decided without any I/O, and what is carried out.

Never empty because something failed: empty state needs proof that there is none, or somebody's explicit word. A restore
that was asked for happens once: the generation it made remembers it, and so do the generations that follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from statefulspark import errors
from statefulspark.canonical import skeleton
from statefulspark.checkpoint import lineage_records, plans, transfer
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, Manifest, MasterStateEntry, QueryEntry
from statefulspark.recovery import generations

_KEY_GROUPS_UNTOLD = 128
"""What every operator had before manifests told the number."""


class Intent(StrEnum):
    """What the start does, before it is known which snapshot verifies."""

    EMPTY = "empty"
    """Start with empty state in a new generation."""
    RESTORE = "restore"
    """Restore the snapshot that was asked for."""
    RECOVER = "recover"
    """Go on from the newest state there is."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What storage holds and what somebody asked for.

    Attributes:
        restore: What was asked for.
        current: The generation in use, None before the first.
        unfinished_generation: True if files of a generation without a record exist.
        checkpoints: Number of completed checkpoints.
        savepoints: Number of completed savepoints in the job's own root.
        uri: Names the root in errors.
        record_problem: Why the record of the generation in use cannot be read, None if it can.
        traces: What tells that the job has had state here, where there is no generation; see `beginnings`.
    """

    restore: RestoreConfig
    current: GenerationRecord | None
    unfinished_generation: bool
    checkpoints: int
    savepoints: int
    uri: str
    record_problem: str | None = None
    traces: tuple[str, ...] = ()


def decide(situation: Situation) -> Intent:
    """Decide what the start does.

    Raises:
        StateUnknownError: `StateWithoutCheckpoint`: there is state, and none of it is known to be complete.
            `StateMissing`: there was state, and none is left.
            `RestoreUnknown`: it cannot be told whether the restore that is asked for has been done.
    """
    asked = situation.restore.once_key
    if asked is not None and situation.record_problem is not None:
        raise errors.StateUnknownError(
            "RestoreUnknown",
            f"{situation.record_problem} It says whether the restore {asked!r} was done, so it cannot be told what to do. "
            "Ask for no restore to go on from the newest checkpoint.",
        )
    done = situation.current.restore_id if situation.current else None
    if asked is not None and not situation.restore.is_done(done):
        return Intent.EMPTY if situation.restore.fresh else Intent.RESTORE
    if situation.current is not None:
        return Intent.RECOVER
    leftovers = _leftovers(situation)
    if leftovers:
        raise errors.StateUnknownError(
            "StateWithoutCheckpoint",
            f"{situation.uri} holds {leftovers} and no usable generation, so it cannot be told what the job's state is. "
            "Restore from a snapshot by name, or ask for a fresh start.",
        )
    if situation.traces:
        raise errors.StateUnknownError(
            "StateMissing",
            f"{situation.uri} has held state, as {situation.traces[0]} tells, and neither {layout.GENERATIONS}/ nor "
            f"{layout.CHECKPOINTS}/ holds any of it now. Put them back, restore a savepoint by name, or ask for empty state "
            "with restore.freshState (on the command line --fresh).",
        )
    return Intent.EMPTY


def skipped_restore(wish: RestoreConfig, *, restored_from: str | None) -> str:
    """Say that a restore is not done because it was done before, and how to ask for it again.

    Args:
        wish: What is asked for.
        restored_from: What the job goes on from instead.
    """
    what = "The start with empty state" if wish.fresh else f"The restore of {wish.snapshot}"
    name = f", under the name {wish.id!r}" if wish.id is not None else ""
    state = restored_from or "the beginning of its generation"
    return (
        f"{what} was done before{name}, and a restart does not repeat it: the job goes on from {state}. To do it once more, "
        "add --again, or give the wish a new name: --restore-id, or restore.id in a configuration file."
    )


@dataclass(frozen=True, slots=True)
class CandidateName:
    """Names one candidate; see `in_order`.

    Attributes:
        checkpoint_id: A checkpoint; None stands for the generation's own beginning, or for `savepoint`.
        generation: Generation of the checkpoint or of the beginning.
        savepoint: URI of the savepoint that the oldest ancestor was made from.
    """

    checkpoint_id: int | None
    generation: int
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing to start from.

    Attributes:
        label: For people: `checkpoint 41`, a savepoint's URI, None for the beginning of an empty generation.
        queries: Its queries.
        place: Where its files are.
        generation: Generation that a new one descends from, None for savepoints.
        reference: `checkpoint:<id>` or a savepoint's URI; None for the beginning of an empty generation.
        manifest: None for a generation's beginning.
        folder: The snapshot's own folder, for one that somebody named by its URI.
        descent: Where it comes from.
        master_states: What the job's master hooks had answered.
    """

    label: str | None
    queries: tuple[QueryEntry, ...]
    place: transfer.SnapshotLocation
    generation: int | None = None
    reference: str | None = None
    manifest: Manifest | None = None
    folder: transfer.SnapshotLocation | None = None
    descent: lineage_records.Descent | None = None
    master_states: tuple[MasterStateEntry, ...] = ()

    @property
    def holds_state(self) -> bool:
        """True if at least one query has committed something."""
        return any(query.batch_id >= 0 for query in self.queries)


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
        source: Where the files to copy are; None once carried out.
        record: The record of the generation in use, if the start continues in it.
        note_restore: That record with what this start changes of it, if it changes anything: the restore that is done
            without a copy, and what queries without state are declared as.
        head: The generation in use as something to copy from, if the start would continue in it.
        unfinished: Generations that a dead driver left half made; `settle` makes sure that they stay so.
        obsolete_notes: Keys of notes on damage that is past.
        scratch: Names of the folders that starts have worked in, by their epochs; `settle` deletes what older ones left.
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
    source: Candidate | None = None
    record: GenerationRecord | None = None
    note_restore: GenerationRecord | None = None
    head: Candidate | None = None
    unfinished: tuple[int, ...] = ()
    obsolete_notes: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    claim: Candidate | None = None
    changes: tuple[str, ...] = ()
    descent: lineage_records.Descent | None = None
    master_states: tuple[MasterStateEntry, ...] = ()

    def partitions_of(self, query_uid: str) -> int:
        """Return how many partitions the restored state of a query has; 0 if it has none."""
        found = [one.partitions for query in self.queries if query.uid == query_uid for one in query.operators]
        return max(found, default=0)

    def key_groups_of(self, query_uid: str) -> dict[str, int]:
        """Return how many key groups the restored operators of a query have, by uid.

        A job that leaves the number out keeps it. The shells of a canonical savepoint have none, since any may be chosen;
        its manifest tells what it was.
        """
        source = self.source.manifest if self.source is not None else None
        restored = source.queries if source is not None and skeleton.is_canonical(source) else self.queries
        known = plans.key_groups(query for query in restored if query.uid == query_uid)
        return {uid: groups or _KEY_GROUPS_UNTOLD for uid, groups in known.items()}

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
    lineages: lineage_records.Lineages = field(default_factory=lineage_records.Lineages)


def in_order(known: generations.Generations, checkpoints: Mapping[int, int]) -> tuple[CandidateName, ...]:
    """Order what a recovery may start from: along the line of ancestors of the generation in use, newest first.

    Checkpoints that were left behind by an earlier restore are not on that line and are never returned.

    Args:
        known: The generations.
        checkpoints: Generation of each completed checkpoint, by its id.
    """
    line: list[CandidateName] = []
    record, highest = known.current, max(checkpoints, default=0)
    while record is not None:
        own = [number for number, where in checkpoints.items() if where == record.generation and number <= highest]
        line += [CandidateName(number, record.generation) for number in sorted(own, reverse=True)]
        line.append(CandidateName(None, record.generation))
        source = record.source or ""
        if record.parent_generation is None:
            line += [CandidateName(None, record.generation, source)] if source else []
            break
        if source.startswith(layout.CHECKPOINT_REFERENCE):
            highest = int(source.removeprefix(layout.CHECKPOINT_REFERENCE))
        parent = known.record(record.parent_generation)
        if parent is None:
            line += _of_vanished_parent(record, checkpoints, highest)
        record = parent
    return tuple(line)


def _of_vanished_parent(record: GenerationRecord, checkpoints: Mapping[int, int], highest: int) -> list[CandidateName]:
    own = [number for number, where in checkpoints.items() if where == record.parent_generation and number <= highest]
    return [CandidateName(number, record.parent_generation or 0) for number in sorted(own, reverse=True)]


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


def _leftovers(situation: Situation) -> str:
    found = [
        f"{situation.checkpoints} checkpoints" if situation.checkpoints else "",
        f"{situation.savepoints} savepoints" if situation.savepoints else "",
        "files of an unfinished generation" if situation.unfinished_generation else "",
    ]
    return ", ".join(word for word in found if word)
