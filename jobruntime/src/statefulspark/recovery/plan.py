"""The stages of a start as data, and the decisions that need no I/O.

An `Intent` is decided first. A `RecoveryPlan` is found by reading alone; a driver that holds the root makes it a
`SettledPlan`, and that a `ReadyState`. A job is built for any `StartPlan`, and only a `SettledPlan` is carried out.

A start is never empty because of a failure: empty state needs proof that there is no state, or an explicit request. A
requested restore is carried out once in the life of a root: every generation records all that were carried out before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from statefulspark import errors
from statefulspark.canonical import skeleton
from statefulspark.checkpoint import lineage_records, plans, transfer
from statefulspark.contract import layout, lost_state
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, Manifest, MasterStateEntry, QueryEntry
from statefulspark.recovery import copies, generations

_DEFAULT_KEY_GROUPS = 128
"""The number of key groups of every operator before manifests recorded it."""


class Intent(StrEnum):
    """What the start does, decided before any snapshot is verified."""

    EMPTY = "empty"
    """Start with empty state in a new generation."""
    RESTORE = "restore"
    """Restore the requested snapshot."""
    RECOVER = "recover"
    """Continue from the newest state."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The content of storage and the requested restore.

    Attributes:
        restore: The requested restore.
        current: The generation in use, None before the first.
        unfinished_generation: True if files of a generation without a record exist.
        checkpoints: Number of completed checkpoints.
        savepoints: Number of completed savepoints in the job's own root.
        uri: URI of the root, for error messages.
        record_problem: Why the record of the generation in use cannot be read, None if it can.
        carried_out: Keys of the restores that were carried out in this root.
        traces: Without a generation, the objects that show that the root has held state; see `beginnings`.
        half_purged: Without a generation in use, a record of state that was deleted on purpose and is there all the same.
    """

    restore: RestoreConfig
    current: GenerationRecord | None
    unfinished_generation: bool
    checkpoints: int
    savepoints: int
    uri: str
    record_problem: str | None = None
    carried_out: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    half_purged: str | None = None


def decide(situation: Situation) -> Intent:
    """Decide what the start does.

    Raises:
        StateUnknownError: `StateWithoutCheckpoint`: there is state, and none of it is proven to be complete.
            `StateMissing`: there was state, and it was deleted.
            `RestoreUnknown`: it is unknown whether the requested restore has been done.
    """
    asked = situation.restore.once_key
    if asked is not None and situation.record_problem is not None:
        raise errors.StateUnknownError(
            "RestoreUnknown",
            f"{situation.record_problem} Without it, it is unknown whether the restore {asked!r} was done. "
            "Request no restore to continue from the newest checkpoint.",
        )
    if asked is not None and not situation.restore.is_done(situation.carried_out):
        return Intent.EMPTY if situation.restore.starts_empty else Intent.RESTORE
    if situation.current is not None:
        return Intent.RECOVER
    if situation.half_purged is not None:
        raise errors.StateUnknownError(
            "StateWithoutCheckpoint",
            f"The state at {situation.uri} was deleted on purpose, and {situation.half_purged} is there: the deletion is "
            "not complete, or state was put back. Complete the deletion, or put back all objects, with those of "
            f"{layout.LINEAGES}/; or request empty state with restore.source.empty (on the command line --restore-empty).",
        )
    counts = {"checkpoints": situation.checkpoints, "savepoints": situation.savepoints}
    leftovers = [f"{count} {kind}" for kind, count in counts.items() if count]
    leftovers += ["files of an unfinished generation"] if situation.unfinished_generation else []
    if leftovers:
        raise errors.StateUnknownError(
            "StateWithoutCheckpoint",
            f"{situation.uri} holds {', '.join(leftovers)} and no usable generation, so the job's state is unknown. "
            "Restore a snapshot by name, or request a fresh start.",
        )
    if situation.traces:
        raise errors.StateUnknownError(
            "StateMissing",
            f"{situation.uri} has held state, as {situation.traces[0]} shows, and neither {layout.GENERATIONS}/ nor "
            f"{layout.CHECKPOINTS}/ holds any of it now. Put them back, restore a savepoint by name, or request empty state "
            "with restore.source.empty (on the command line --restore-empty).",
        )
    return Intent.EMPTY


def skipped_restore(restore: RestoreConfig, *, restored_from: str | None) -> str:
    """Return the message that a restore is skipped because it was done before, and how to repeat it.

    Args:
        restore: The requested restore.
        restored_from: The snapshot from which the job continues instead.
    """
    what = "The start with empty state" if restore.starts_empty else f"The restore of {restore.snapshot}"
    name = f", under the name {restore.nonce!r}" if restore.nonce is not None else ""
    state = restored_from or "the beginning of its generation"
    return (
        f"{what} was done before{name}, and is not repeated: the job continues from {state}. To repeat it, change "
        "restore.nonce (on the command line add --restore-again, or change --restore-nonce)."
    )


def left_savepoint(restore: RestoreConfig, *, restored_from: str | None) -> str:
    """Return the message that the savepoint of a stop is not restored, since the job went on after it.

    Args:
        restore: The requested restore.
        restored_from: The snapshot from which the job continues instead.
    """
    state = restored_from or "the beginning of its generation"
    return (
        f"The savepoint {restore.snapshot} is complete, but its driver went on after the stop and has committed more: the "
        f"job continues from its newest state, {state} and what was committed after it."
    )


def carried_out(records: Iterable[GenerationRecord]) -> tuple[str, ...]:
    """Return the keys of everything that was carried out in a root, the oldest first, as far as its records tell."""
    return tuple(dict.fromkeys(key for record in records for key in record.carried_out))


def asked_restore(restore: RestoreConfig, done: Iterable[str], *, unknown: bool) -> str:
    """Return what a start with the requested restore would do to the state, for somebody who decides whether it may.

    Args:
        restore: The requested restore.
        done: Keys of everything that was carried out in the root.
        unknown: Whether a record that may name it cannot be read.
    """
    what = "empty state" if restore.starts_empty else f"a restore of {restore.snapshot}"
    if restore.is_done(done):
        return f"It also asks for {what}, which was carried out there before and is not repeated."
    if unknown:
        return (
            f"It also asks for {what}, and a record of what was carried out there cannot be read: the start is refused."
        )
    effect = "begins with empty state" if restore.starts_empty else "goes back to that snapshot"
    return (
        f"It also asks for {what}, which was not carried out there: a start {effect}, and leaves the newer state behind. "
        "Remove restore.source to continue from the newest state."
    )


@dataclass(frozen=True, slots=True)
class CandidateName:
    """Identifies one candidate; see `order_candidates`.

    Attributes:
        checkpoint_id: Id of a checkpoint; None means the beginning of the generation, or `savepoint`.
        generation: Generation of the checkpoint or of the beginning.
        savepoint: URI of the savepoint from which the oldest ancestor was made.
    """

    checkpoint_id: int | None
    generation: int
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One snapshot to start from.

    Attributes:
        label: Name in messages: `checkpoint 41`, a savepoint's URI, None for the beginning of an empty generation.
        queries: Its queries.
        location: Where its files are.
        generation: Parent of a generation made from it; None for savepoints.
        reference: `checkpoint:<id>` or a savepoint's URI; None for the beginning of an empty generation.
        manifest: None for a generation's beginning.
        folder: The snapshot's own folder, if it was requested by URI.
        descent: Where it comes from.
        master_states: State of the job's master hooks.
    """

    label: str | None
    queries: tuple[QueryEntry, ...]
    location: transfer.SnapshotLocation
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
    """How a start obtains its checkpoint roots."""

    EMPTY = "empty"
    """A new generation without files."""
    CONTINUE = "continue"
    """The generation in use, as it is."""
    COPY = "copy"
    """A new generation, filled with copies of the base's files."""


@dataclass(frozen=True, slots=True)
class RestoredState:
    """The state that a driver goes on from: what every stage of a start has, from the plan to the running queries.

    Attributes:
        mode: How the start obtains its checkpoint roots.
        generation: The generation to run in; for EMPTY and COPY a proposal until the state is ready.
        queries: The restored queries; with paths inside `generation` once the state is ready.
        restored_from: `checkpoint 41`, a savepoint's URI, or None for empty state.
        restored: Manifest of the restored snapshot; None for empty state and for the beginning of a generation.
        fallback: Why older state than the newest is used; None if the newest is used.
        next_snapshot_id: The number of the next snapshot.
        checkpoint_ids: The job's completed checkpoints, ascending; once settled with the salvaged one.
        untried_ids: Those of them that do not count among the retained ones, since a query's state had not been loaded.
        carried_out: Keys of the restores that are carried out with this start or were before, the oldest first.
        restore_skipped: Why the requested restore is not done: it was done before, or it is the savepoint of a stop after
            which the job went on. None otherwise.
        master_states: The state that the job's master hooks restore.
        kept_aside: State that only a later version of the job had. This start, of an earlier one, leaves it in the snapshot.
    """

    mode: StartMode
    generation: int
    queries: tuple[QueryEntry, ...] = ()
    restored_from: str | None = None
    restored: Manifest | None = None
    fallback: str | None = None
    next_snapshot_id: int = 1
    checkpoint_ids: tuple[int, ...] = ()
    untried_ids: tuple[int, ...] = ()
    carried_out: tuple[str, ...] = ()
    restore_skipped: str | None = None
    master_states: tuple[MasterStateEntry, ...] = ()
    kept_aside: tuple[lost_state.LostState, ...] = ()

    @property
    def start_batches(self) -> Mapping[str, int]:
        """Last committed batch by query uid; a query that is not included starts empty."""
        return {query.uid: query.batch_id for query in self.queries}


@dataclass(frozen=True, slots=True)
class StartPlan(RestoredState):
    """What a start is going to do; the job is built for it and compared with it, before its state is touched.

    Attributes:
        source: The candidate whose files are copied.
        record: The record of the generation in use, if the start continues in it.
        note_restore: The new content of that record, if this start changes it: a restore without a copy, or the
            declaration of queries without state.
        head: The generation in use as a candidate to copy, if the start would continue in it.
        claim: The snapshot that the job claims with this start.
        changes: The changes made while copying into a new generation, a sentence each.
        why_copied: Why the requested snapshot is copied, as a part of a sentence; None if it is not.
        descent: Where the state of the generation in use comes from, if the start continues in it or copies its head.
    """

    source: Candidate | None = None
    record: GenerationRecord | None = None
    note_restore: GenerationRecord | None = None
    head: Candidate | None = None
    claim: Candidate | None = None
    changes: tuple[str, ...] = ()
    why_copied: str | None = None
    descent: lineage_records.Descent | None = None

    def partitions_of(self, query_uid: str) -> int:
        """Return how many partitions the restored state of a query has; 0 if it has none."""
        return max((plans.partitions_of(query) for query in self.queries if query.uid == query_uid), default=0)

    def key_groups_of(self, query_uid: str) -> dict[str, int]:
        """Return how many key groups the restored operators of a query have, by uid.

        A job that declares no number keeps this one. The queries of a canonical savepoint have none here, since any number
        may be chosen; its manifest has the previous number.
        """
        source = self.source.manifest if self.source is not None else None
        restored = source.queries if source is not None and skeleton.is_canonical(source) else self.queries
        key_groups = plans.key_groups(query for query in restored if query.uid == query_uid)
        return {uid: groups or _DEFAULT_KEY_GROUPS for uid, groups in key_groups.items()}


@dataclass(frozen=True, slots=True)
class RecoveryPlan(StartPlan):
    """A plan from reading alone, with what dead drivers left; a driver that holds the root settles that first.

    Attributes:
        salvage: All queries of the generation in use, if they committed batches that are in no checkpoint.
        unfinished: Generations that a dead driver has not completed.
        obsolete_notes: Keys of damage notes that no longer affect a start.
        scratch: Names of the scratch folders.
    """

    salvage: tuple[QueryEntry, ...] = ()
    unfinished: tuple[int, ...] = ()
    obsolete_notes: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SettledPlan(StartPlan):
    """A plan of a driver that holds the root, with nothing left of dead drivers; only such a plan is carried out.

    Attributes:
        reserved: The generation that this driver has reserved and filled ahead as a standby, if it is still unfinished.
    """

    reserved: int | None = None

    @classmethod
    def from_plan(cls, plan: StartPlan, *, reserved: int | None = None) -> SettledPlan:
        """Return a plan whose leftovers are settled."""
        return cls(**_values(plan, StartPlan), reserved=reserved)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyState(RestoredState):
    """The state in the generation that is in use now: Spark can be started.

    Attributes:
        record: The record of the generation.
        descent: Where its state comes from.
    """

    record: GenerationRecord
    descent: lineage_records.Descent

    @classmethod
    def from_plan(cls, plan: SettledPlan, *, record: GenerationRecord, descent: lineage_records.Descent) -> ReadyState:
        """Return the state of a plan that continues in the generation of a record."""
        return cls(**_values(plan, RestoredState), record=record, descent=descent)


_Plan = TypeVar("_Plan", bound=StartPlan)


def _values(plan: RestoredState, kind: type[RestoredState]) -> dict[str, Any]:
    """Return the fields that a kind of plan has, with their values."""
    return {field.name: getattr(plan, field.name) for field in fields(kind)}


@dataclass(frozen=True, slots=True)
class Author:
    """The driver that carries out a plan; written into manifests of salvaged checkpoints and records of generations."""

    namespace: str
    job: str
    epoch: int
    now: datetime
    revision: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    owner_id: str = "local"
    lineages: lineage_records.Lineages = field(default_factory=lineage_records.Lineages)
    claim_id: str = ""
    """The id of its claim in the record of its epoch."""
    carried: copies.Carried | None = None
    """What it has copied ahead as a standby, into a generation that it has reserved."""


def takes_what_was_carried(plan: SettledPlan, author: Author) -> bool:
    """Tell whether a start goes on in the generation that its author has filled ahead.

    Only a start that copies the generation in use because the job has changed does. One that goes back behind damage, or to
    a snapshot that was asked for, copies everything: it has reason to doubt what was copied before.

    Args:
        plan: The plan.
        author: The driver that starts.
    """
    if author.carried is None or author.carried.generation != plan.reserved or plan.source is None:
        return False
    is_head = not plan.source.location.root and plan.source.generation is not None
    if copies.is_of_another_future(author.carried.files, plan.queries):
        return False
    return plan.mode is StartMode.COPY and plan.fallback is None and plan.why_copied is None and is_head


def order_candidates(history: generations.Generations, checkpoints: Mapping[int, int]) -> tuple[CandidateName, ...]:
    """Order the candidates of a recovery along the ancestors of the generation in use, newest first.

    Checkpoints that an earlier restore made obsolete are not among these ancestors and are never returned.

    Args:
        history: The generations.
        checkpoints: Generation of each completed checkpoint, by its id.
    """
    line: list[CandidateName] = []
    record, highest = history.current, max(checkpoints, default=0)
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
        number, record = record.parent_generation, history.record(record.parent_generation)
        if record is None:  # Its record has vanished; its checkpoints count.
            own = [checkpoint for checkpoint, where in checkpoints.items() if where == number and checkpoint <= highest]
            line += [CandidateName(checkpoint, number) for checkpoint in sorted(own, reverse=True)]
    return tuple(line)


def move_to_new_generation(plan: _Plan, changes: tuple[str, ...]) -> _Plan:
    """Return a plan that copies the generation instead of continuing in it, so that the copy can be changed.

    Args:
        plan: Any plan; a plan that copies or starts empty keeps its mode.
        changes: The changes, a sentence each.
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


def declare_queries(plan: _Plan, planned: Iterable[plans.PlannedQuery]) -> _Plan:
    """Add the declarations of queries without state to the record of the generation in use.

    If this driver dies before the next checkpoint, only that record describes what they have committed: the number of key
    groups of an operator is not in Spark's files.

    Args:
        plan: Any plan; a plan that makes a new generation describes every query there.
        planned: Every query of the job.
    """
    if plan.mode is not StartMode.CONTINUE or plan.record is None:
        return plan
    stated = {query.uid for query in plan.queries if query.batch_id >= 0}
    declared = {
        query.uid: plans.declared(query, layout.query_root(plan.generation, query.uid))
        for query in planned
        if query.uid not in stated
    }
    record = plan.note_restore or plan.record
    queries = tuple(({query.uid: query for query in record.queries} | declared).values())
    if queries == record.queries:
        return plan
    return replace(plan, note_restore=record.model_copy(update={"queries": queries}))


def with_other_sources(plan: StartPlan, planned: Iterable[plans.PlannedQuery]) -> tuple[QueryEntry, ...]:
    """Return the queries that have committed nothing, and have other sources now than at the last start.

    Args:
        plan: Any plan; one that makes a new generation continues no such query.
        planned: Every query of the job.

    Returns:
        What the generation in use declares of them.
    """
    if plan.mode is not StartMode.CONTINUE or plan.record is None:
        return ()
    stated = {query.uid for query in plan.queries if query.batch_id >= 0}
    recorded = {query.uid: query for query in plan.record.queries if query.uid not in stated and query.sources}
    return tuple(
        recorded[query.uid]
        for query in planned
        if query.uid in recorded and recorded[query.uid].sources != query.source_entries
    )


def require_no_lost_state(
    queries: Collection[QueryEntry], label: str, *, query_uids: Collection[str], drop_state: Collection[str] = ()
) -> None:
    """Refuse a start that would silently drop the state of a query (Flink A.167).

    The uids are known before the queries are built, so this check comes first; `evolution` compares operators and sources.

    Args:
        queries: The queries to restore.
        label: Name of the snapshot in the error.
        query_uids: Queries of the job.
        drop_state: Uids of state that may be dropped.

    Raises:
        SpecRejectedError: `NonRestoredState`: names every query that the job lacks, and what to do.
    """
    lost = lost_queries(queries, query_uids=query_uids)
    lost_state.require_permission(
        lost, drop_state, holds=f"{label} holds state of", remedy="Give the job back those uids"
    )


def lost_queries(queries: Collection[QueryEntry], *, query_uids: Collection[str]) -> tuple[lost_state.LostState, ...]:
    """Return the queries with state that the job does not have.

    A query that has not committed anything has no state to lose.
    """
    return tuple(
        lost_state.LostState(query.uid, f"query {query.uid!r}")
        for query in queries
        if query.uid not in query_uids and query.batch_id >= 0
    )
