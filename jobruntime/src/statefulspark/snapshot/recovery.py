"""Recovery: find out where a driver starts, then prepare it.

`plan_recovery` only reads, so that anybody may ask what a restart would do; `carry_out` completes what was left behind
and makes the new generation if one is needed. Between the two another driver may act: every write is conditional, and
`carry_out` then raises PreconditionFailedError, upon which the caller plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, Manifest, QueryEntry, SnapshotKind, Trigger
from statefulspark.snapshot import (
    base,
    catalog,
    decision,
    generations,
    head,
    plans,
    restore,
    rewrite,
    transfer,
    uids,
)
from statefulspark.storage.port import ObjectStore


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
        salvage: All queries of the generation in use, if they committed batches that no checkpoint covers; `carry_out`
            completes them as a checkpoint.
        restore_id: The latest restore that was asked for, done with this start or before.
        source: Where the base's files are.
        note_restore: The record of the generation in use with this restore noted, if it is done without a copy.
        head: The generation in use as something to copy from, if the start would continue in it.
        changes: What is changed on the way into a new generation, in sentences.
    """

    mode: StartMode
    generation: int
    queries: tuple[QueryEntry, ...] = ()
    restored_from: str | None = None
    restored: Manifest | None = None
    fallback: str | None = None
    next_snapshot_id: int = 1
    salvage: tuple[QueryEntry, ...] = ()
    restore_id: str | None = None
    source: base.Base | None = None
    note_restore: GenerationRecord | None = None
    head: base.Base | None = None
    changes: tuple[str, ...] = ()

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


def plan_recovery(
    store: ObjectStore,
    *,
    restore: RestoreConfig,
    query_uids: Collection[str] | None = None,
    open_store: transfer.StoreOpener | None = None,
) -> StartPlan:
    """Find out where a driver would start now; nothing is written.

    Cost: 5 listings, a GET per retained checkpoint and generation, and what `head.inspect` or `verify.verify` cost.

    Args:
        store: The job's root.
        restore: What was asked for.
        query_uids: Queries of the job; None leaves them unchecked.
        open_store: Opens the place of a savepoint outside the job's root.

    Returns:
        The plan, to be handed to `carry_out`.

    Raises:
        SpecRejectedError: `SnapshotNotFound`, `NonRestoredState`.
        SnapshotCorruptError: `SnapshotBroken`: what was asked for does not verify. `NoCheckpointVerifies`: state exists
            and none of it does.
        StateUnknownError: `StateWithoutCheckpoint`, or storage cannot tell.
        TransientError: Storage cannot be asked now.
    """
    view = base.look(store, open_store)
    intent = decision.decide(view.situation(restore))
    proposal = replace(_proposal(intent, view, restore), next_snapshot_id=view.next_snapshot_id)
    plan = _without_lost_state(proposal, view, restore, query_uids)
    return replace(plan, head=_head_of(plan, view)) if plan.mode is StartMode.CONTINUE else plan


Finisher = Callable[[int, tuple[QueryEntry, ...]], tuple[QueryEntry, ...]]
"""Completes the queries of a generation that is filled and not in use yet; returns them as they are then."""


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


def carry_out(
    store: ObjectStore,
    plan: StartPlan,
    author: Author,
    *,
    rewrites: Mapping[str, rewrite.Rewrite] | None = None,
    finish: Finisher | None = None,
    hadoop_root: str | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> StartPlan:
    """Complete what was left behind and make the new generation, so that Spark can be started.

    Cost: one PUT for a salvaged checkpoint, or for a restore in place; for a new generation two PUTs and what
    `restore.materialise` costs.

    Args:
        store: The job's root.
        plan: From `plan_recovery`, or what `in_new_generation` made of it.
        author: Who does it.
        rewrites: How queries change on the way into a new generation, by uid.
        finish: Called with a new generation's number and queries before its record is written.
        hadoop_root: See `restore.materialise`.
        open_store: See `restore.materialise`.
        on_progress: See `restore.materialise`.

    Returns:
        The plan as it came out: the generation's real number, paths inside it, the salvaged checkpoint as restored.

    Raises:
        PreconditionFailedError: `CheckpointExists` or `GenerationExists`: somebody else acted; plan again.
        SnapshotCorruptError: `CopyIncomplete`.
    """
    if plan.salvage:
        plan = _salvaged(store, plan, author)
    if plan.mode is StartMode.CONTINUE:
        if plan.note_restore is not None:
            generations.note_restore(store, plan.note_restore)
        return plan
    reservation = generations.reservation(author.epoch, now=author.now)
    number = generations.reserve(store, above=plan.generation - 1, holder=reservation)
    queries: tuple[QueryEntry, ...] = ()
    if plan.source is not None:
        queries = restore.materialise(
            store,
            plan.source.place,
            plan.queries,
            number,
            rewrites=rewrites,
            hadoop_root=hadoop_root,
            on_progress=on_progress,
        )
    if finish is not None:
        queries = finish(number, queries)
    generations.publish(
        store,
        GenerationRecord(
            generation=number,
            created_at=author.now,
            epoch=author.epoch,
            restored_from=plan.restored_from,
            source=plan.source.reference if plan.source else None,
            parent_generation=plan.source.generation if plan.source else None,
            restore_id=plan.restore_id,
            queries=queries,
            changes=plan.changes,
        ),
    )
    return replace(plan, generation=number, queries=queries)


def _proposal(intent: decision.Intent, view: base.View, wish: RestoreConfig) -> StartPlan:
    fresh_generation = view.known.highest + 1
    if intent is decision.Intent.EMPTY:
        return StartPlan(StartMode.EMPTY, fresh_generation, restore_id=wish.once_key)
    if intent is decision.Intent.RESTORE:
        asked = view.resolve(wish.snapshot or "")
        if _is_in_place(view, asked):
            return _in_place(view, asked, wish.once_key)
        return _copy_of(asked, fresh_generation, restore_id=wish.once_key)
    return _recover(view, fresh_generation)


def _is_in_place(view: base.View, asked: base.Base) -> bool:
    """Tell whether the generation in use is where the savepoint was taken: after a stop with savepoint, usually."""
    manifest, current = asked.manifest, view.known.current
    if manifest is None or current is None or manifest.kind is not SnapshotKind.SAVEPOINT:
        return False
    if (
        not view.store.uri.endswith(f"/{manifest.namespace}/{manifest.job}")
        or manifest.generation != current.generation
    ):
        return False
    return head.is_still_at(view.store, current.generation, manifest.queries)


def _in_place(view: base.View, asked: base.Base, restore_id: str | None) -> StartPlan:
    """Continue where the savepoint was taken instead of copying the same files back."""
    number = view.current.generation
    queries = tuple(query.model_copy(update={"path": layout.query_root(number, query.uid)}) for query in asked.queries)
    return StartPlan(
        StartMode.CONTINUE,
        number,
        queries=queries,
        restored_from=asked.label,
        restored=asked.manifest,
        restore_id=restore_id,
        note_restore=view.current.model_copy(update={"restore_id": restore_id}),
    )


def _recover(view: base.View, fresh_generation: int) -> StartPlan:
    """Go on from the newest state: the head if it is sound, else the newest candidate that verifies, by copy."""
    current = view.current
    latest = view.latest()
    found = head.inspect(view.store, current.generation, latest.queries)
    problems = [*view.unreadable]
    if found.problem is None and (found.is_newer or view.problem_of(latest) is None):
        queries = plans.inherit(found.queries, latest.queries)
        return StartPlan(
            StartMode.CONTINUE,
            current.generation,
            queries=queries,
            restored_from=latest.label,
            restored=latest.manifest,
            salvage=queries if found.is_newer else (),
            restore_id=current.restore_id,
            fallback=" ".join(problems) or None,
        )
    if found.problem is not None:
        problems.append(f"Committed batches after {latest.label or 'the start'} cannot be used: {found.problem}")
    for candidate in view.candidates():
        problem = view.problem_of(candidate)
        if problem is None and candidate.holds_state:
            told = " ".join([*problems, f"Started from {candidate.label} instead."])
            plan = _copy_of(candidate, fresh_generation, restore_id=current.restore_id)
            return replace(plan, fallback=told)
        if problem is not None:
            problems.append(f"{candidate.label} does not verify: {problem}")
    raise errors.SnapshotCorruptError(
        "NoCheckpointVerifies",
        f"{view.store.uri} holds state and none of it verifies, so nothing was started. {' '.join(problems)} Restore a "
        "savepoint by name, or ask for a fresh start.",
    )


def _copy_of(candidate: base.Base, generation: int, *, restore_id: str | None) -> StartPlan:
    return StartPlan(
        StartMode.COPY,
        generation,
        queries=candidate.queries,
        restored_from=candidate.label,
        restored=candidate.manifest,
        restore_id=restore_id,
        source=candidate,
    )


def _without_lost_state(
    plan: StartPlan, view: base.View, wish: RestoreConfig, query_uids: Collection[str] | None
) -> StartPlan:
    """Refuse to drop the state of queries that left the job; where that is allowed, leave it out by a copy."""
    if query_uids is None:
        return plan
    label = plan.restored_from or f"state in generation {plan.generation}"
    if not wish.allow_non_restored_state:
        uids.require_place(plan.queries, label, query_uids=query_uids)
    kept = tuple(query for query in plan.queries if query.uid in query_uids)
    lost = any(query.batch_id >= 0 for query in plan.queries if query.uid not in query_uids)
    if plan.mode is StartMode.CONTINUE and lost:
        return replace(
            plan, mode=StartMode.COPY, generation=view.known.highest + 1, queries=kept, source=_head_of(plan, view)
        )
    return replace(plan, queries=kept)


def _head_of(plan: StartPlan, view: base.View) -> base.Base:
    """Return the head of the generation in use as a base, under the number of the checkpoint that covers it."""
    latest = view.latest()
    number = f"{decision.CHECKPOINT_PREFIX}{plan.next_snapshot_id}"
    return replace(
        latest,
        queries=plan.queries,
        reference=number if plan.salvage else latest.reference,
        generation=plan.generation if plan.salvage or latest.manifest else latest.generation,
    )


def _salvaged(store: ObjectStore, plan: StartPlan, author: Author) -> StartPlan:
    manifest = Manifest(
        kind=SnapshotKind.CHECKPOINT,
        id=plan.next_snapshot_id,
        namespace=author.namespace,
        job=author.job,
        trigger=Trigger.RECOVERY,
        epoch=author.epoch,
        generation=plan.generation,
        triggered_at=author.now,
        completed_at=author.now,
        queries=plan.salvage,
        restored_from=plan.restored_from,
        revision=author.revision,
        versions=dict(author.versions),
    )
    catalog.write_checkpoint(store, manifest)
    return replace(
        plan,
        restored=manifest,
        restored_from=manifest.label,
        next_snapshot_id=manifest.id + 1,
        salvage=(),
    )
