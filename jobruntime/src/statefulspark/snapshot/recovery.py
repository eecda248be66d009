"""Recovery: find out where a driver starts, then prepare it.

`plan_recovery` only reads, so that anybody may ask what a restart would do; `carry_out` completes what was left behind
and makes the new generation if one is needed. Between the two another driver may act: every write is conditional, and
`carry_out` then raises PreconditionFailedError, upon which the caller plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.config import ClaimMode, RestoreConfig
from statefulspark.contract.manifest import (
    GenerationRecord,
    Manifest,
    MasterStateEntry,
    QueryEntry,
    SnapshotFormat,
    SnapshotKind,
    Trigger,
)
from statefulspark.snapshot import (
    base,
    beginnings,
    catalog,
    claims,
    damage,
    decision,
    descent,
    epochs,
    generations,
    head,
    plans,
    progress,
    restore,
    rewrite,
    transfer,
    uids,
)
from statefulspark.snapshot.startplan import Author, StartMode, StartPlan, in_new_generation, noting_declared
from statefulspark.storage.port import ObjectStore

__all__ = [
    "Author",
    "StartMode",
    "StartPlan",
    "carry_out",
    "find_start",
    "in_new_generation",
    "noting_declared",
    "plan_recovery",
    "settle",
]


_LOOKS = 3


Finisher = Callable[[int, tuple[QueryEntry, ...]], tuple[QueryEntry, ...]]
"""Completes the queries of a generation that is filled and not in use yet; returns them as they are then."""


def plan_recovery(
    store: ObjectStore,
    *,
    restore: RestoreConfig,
    query_uids: Collection[str] | None = None,
    open_store: transfer.StoreOpener | None = None,
    lineages: descent.Lineages | None = None,
) -> StartPlan:
    """Find out where a driver would start now; nothing is written.

    Cost: 5 listings, a GET per retained checkpoint and generation, and what `head.inspect` or `verify.verify` cost.

    Args:
        store: The job's root.
        restore: What was asked for.
        query_uids: Queries of the job; None leaves them unchecked.
        open_store: Opens the place of a savepoint outside the job's root.
        lineages: What the root has been, where that is known already.

    Returns:
        The plan, to be handed to `carry_out`.

    Raises:
        SpecRejectedError: `SnapshotNotFound`, `NonRestoredState`.
        SnapshotCorruptError: `SnapshotBroken`: what was asked for does not verify. `NoCheckpointVerifies`: state exists
            and none of it does.
        StateUnknownError: `StateWithoutCheckpoint`, `StateMissing`, or storage cannot tell.
        FormatVersionError: A later release has worked here, and what it wrote cannot be read.
        TransientError: Storage cannot be asked now.
    """
    view = base.look(store, open_store, lineages)
    _require_known_generation(view)
    intent = decision.decide(view.situation(restore))
    found = view.known.current.generation if view.known.current else 0
    proposal = replace(
        _proposal(intent, view, restore),
        next_snapshot_id=view.next_snapshot_id,
        checkpoint_ids=tuple(sorted({ref.id for ref in view.refs if ref.kind is SnapshotKind.CHECKPOINT})),
        unfinished=view.known.unfinished,
        obsolete_notes=damage.obsolete(view.damage, in_use=found, checkpoints=view.checkpoints.values()),
    )
    plan = _without_lost_state(proposal, view, restore, query_uids)
    if restore.once_key is not None and intent is decision.Intent.RECOVER:
        told = decision.skipped_restore(restore, restored_from=plan.restored_from)
        plan = replace(plan, restore_skipped=told)
    if plan.mode is not StartMode.CONTINUE:
        return plan
    origin = descent.of_generation(view.current, view.lineages)
    plan = replace(plan, head=_head_of(plan, view), descent=origin, record=view.current)
    # What follows from a damaged record cannot be known, and a root at a new place is a lineage of its own: neither goes
    # on in the generation that is there.
    return in_new_generation(plan, ()) if found in view.known.unreadable or view.is_elsewhere else plan


def find_start(
    store: ObjectStore,
    author: Author,
    *,
    restore: RestoreConfig,
    query_uids: Collection[str] | None = None,
    open_store: transfer.StoreOpener | None = None,
) -> StartPlan:
    """Plan, and settle what was left behind; again if a driver that is not dead yet got in between.

    See `plan_recovery` and `settle`. Two looks are enough against one such driver: it cannot commit after its first look
    at the newer epoch.
    """
    for _ in range(_LOOKS):
        plan = plan_recovery(
            store, restore=restore, query_uids=query_uids, open_store=open_store, lineages=author.lineages
        )
        try:
            return settle(store, plan, author)
        except errors.FencedError:
            raise
        except errors.PreconditionFailedError as error:
            overtaken = error
        epochs.require_current(store, author.epoch)  # It was the successor, perhaps.
    raise overtaken


def settle(store: ObjectStore, plan: StartPlan, author: Author) -> StartPlan:
    """Complete what a dead driver committed, and close off what it left half made. Idempotent.

    Cost: a LIST; one PUT for a salvaged checkpoint; per half-made generation a PUT, a LIST and a DELETE.

    Raises:
        PreconditionFailedError: `CheckpointExists` or `GenerationExists`: somebody else acted; plan again.
    """
    generations.abandon(store, plan.unfinished, epoch=author.epoch, now=author.now)
    if plan.obsolete_notes:
        store.delete_many(plan.obsolete_notes)
    _clear_scratch(store, below=author.epoch)
    settled = replace(plan, unfinished=(), obsolete_notes=())
    return _salvaged(store, settled, author) if plan.salvage else settled


def carry_out(
    store: ObjectStore,
    plan: StartPlan,
    author: Author,
    *,
    rewrites: Mapping[str, rewrite.Rewrite] | None = None,
    finish: Finisher | None = None,
    hadoop_root: str | None = None,
    on_progress: progress.Report | None = None,
) -> StartPlan:
    """Complete what was left behind and make the new generation, so that Spark can be started.

    Cost: a PUT; one for a salvaged checkpoint; a HEAD, a GET and a PUT for a restore in place; for a new generation two more
    PUTs, a HEAD and what `restore.materialise` costs.

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
        FencedError: A newer driver has started; the new generation was not made.
        PreconditionFailedError: `CheckpointExists` or `GenerationExists`: somebody else acted; plan again.
        SnapshotCorruptError: `CopyIncomplete`.
    """
    plan = settle(store, plan, author)
    if plan.claim is not None and plan.claim.folder is not None:
        place = plan.claim.folder
        claims.claim(place.store, place.root, root=store.uri, owner_id=author.owner_id, now=author.now)
    if plan.mode is StartMode.CONTINUE:
        if plan.note_restore is not None:
            generations.note_restore(store, plan.note_restore, over=plan.record or plan.note_restore)
        beginnings.note(store, generation=plan.generation, epoch=author.epoch, now=author.now)
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
    origin = plan.source.descent if plan.source else None
    ancestors = origin.below(author.lineages.lineage, plan.source.queries) if origin and plan.source else ()
    # A successor closes off what was reserved when it looked. What is reserved later, this look gives up: by somebody who
    # was asleep meanwhile, and would else put an old cut in the place of all that its successor has done.
    epochs.require_current(store, author.epoch)
    generations.publish(
        store,
        GenerationRecord(
            generation=number,
            lineage=author.lineages.lineage,
            ancestors=ancestors,
            created_at=author.now,
            epoch=author.epoch,
            restored_from=plan.restored_from,
            source=plan.source.reference if plan.source else None,
            parent_generation=plan.source.generation if plan.source else None,
            restore_id=plan.restore_id,
            queries=queries,
            changes=plan.changes,
            claimed=plan.claim.reference if plan.claim else None,
            master_states=plan.master_states,
        ),
    )
    beginnings.note(store, generation=number, epoch=author.epoch, now=author.now)
    made = descent.Descent(author.lineages.lineage, number, store.uri, ancestors, author.lineages.unnamed)
    return replace(plan, generation=number, queries=queries, descent=made)


def _proposal(intent: decision.Intent, view: base.View, wish: RestoreConfig) -> StartPlan:
    fresh_generation = view.known.highest + 1
    if intent is decision.Intent.EMPTY:
        return StartPlan(StartMode.EMPTY, fresh_generation, restore_id=wish.once_key)
    if intent is decision.Intent.RESTORE:
        asked = view.resolve(wish.snapshot or "")
        claim = asked if wish.claim_mode is ClaimMode.CLAIM and asked.folder is not None else None
        if _is_in_place(view, asked):
            return _in_place(view, asked, wish.once_key, claim)
        return replace(_copy_of(asked, fresh_generation, restore_id=wish.once_key), claim=claim)
    return _recover(view, fresh_generation)


def _require_known_generation(view: base.View) -> None:
    """Refuse a root whose generation in use has a record of a later release: it says what was restored, and when."""
    number = view.known.current.generation if view.known.current else 0
    if number in view.known.newer:
        raise errors.FormatVersionError("FormatVersionUnknown", view.known.newer[number])


def _is_in_place(view: base.View, asked: base.Base) -> bool:
    """Tell whether the generation in use is where the savepoint was taken: after a stop with savepoint, usually."""
    manifest, current = asked.manifest, view.known.current
    if manifest is None or current is None or manifest.kind is not SnapshotKind.SAVEPOINT:
        return False
    if manifest.format is not SnapshotFormat.NATIVE:
        return False
    if (
        not view.store.uri.endswith(f"/{manifest.namespace}/{manifest.job}")
        or manifest.generation != current.generation
    ):
        return False
    return head.is_still_at(view.store, current.generation, manifest.queries)


def _in_place(view: base.View, asked: base.Base, restore_id: str | None, claim: base.Base | None) -> StartPlan:
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
        note_restore=view.current.model_copy(
            update={
                "restore_id": restore_id,
                "claimed": claim.reference if claim else None,
                "master_states": asked.master_states,
                "restored_in_place": asked.manifest.id if asked.manifest else None,
            }
        ),
        claim=claim,
        master_states=asked.master_states,
    )


def _recover(view: base.View, fresh_generation: int) -> StartPlan:
    """Go on from the newest state: the head if it is sound, else the newest candidate that verifies, by copy."""
    view.require_known()
    current = view.current
    latest = view.latest()
    found = head.inspect(view.store, current.generation, latest.queries, view.damage)
    problems = [*view.unreadable, *view.known.unreadable.values()]
    if found.problem is None and (found.is_newer or view.problem_of(latest) is None):
        queries = plans.inherit(found.queries, _declared(view, latest))
        return StartPlan(
            StartMode.CONTINUE,
            current.generation,
            queries=queries,
            restored_from=latest.label,
            restored=latest.manifest,
            salvage=queries if found.is_newer else (),
            restore_id=current.restore_id,
            fallback=" ".join(problems) or None,
            master_states=_states_of_head(latest, current),
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
    if view.unusable_sources and view.damage.problem_of_copies not in " ".join(problems):
        problems.append(f"Left out: {', '.join(sorted(view.unusable_sources))}. {view.damage.problem_of_copies}")
    raise errors.SnapshotCorruptError(
        "NoCheckpointVerifies",
        f"{view.store.uri} holds state and none of it verifies, so nothing was started. {' '.join(problems)} Restore a "
        "savepoint by name, or ask for a fresh start.",
    )


def _declared(view: base.View, latest: base.Base) -> tuple[QueryEntry, ...]:
    """Return what is known of queries: from the latest checkpoint, or of those without state in it from the generation."""
    stated = {query.uid for query in latest.queries if query.batch_id >= 0}
    return (*latest.queries, *(query for query in view.current.queries if query.uid not in stated))


def _copy_of(candidate: base.Base, generation: int, *, restore_id: str | None) -> StartPlan:
    return StartPlan(
        StartMode.COPY,
        generation,
        queries=candidate.queries,
        restored_from=candidate.label,
        restored=candidate.manifest,
        restore_id=restore_id,
        source=candidate,
        master_states=candidate.master_states,
    )


def _states_of_head(latest: base.Base, current: GenerationRecord) -> tuple[MasterStateEntry, ...]:
    """Return what hooks are restored with where the generation in use is continued.

    A savepoint that was restored in place is newer than the latest checkpoint until the next one completes.
    """
    covered = latest.manifest.id if latest.manifest else 0
    return current.master_states if (current.restored_in_place or 0) > covered else latest.master_states


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
        descent=descent.of_generation(view.current, view.lineages),
    )


def _clear_scratch(store: ObjectStore, *, below: int) -> None:
    """Delete what the starts of dead drivers left in their scratch folders."""
    for name in store.list_names(layout.SCRATCH):
        epoch = layout.parse_number(name.rstrip("/"))
        if epoch is not None and epoch < below:
            store.delete_many([info.key for info in store.list(f"{layout.SCRATCH}/{name.rstrip('/')}")])


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
        lineage=plan.descent.lineage if plan.descent else None,
        root=plan.descent.root if plan.descent else None,
        ancestors=plan.descent.ancestors if plan.descent else (),
        revision=author.revision,
        versions=dict(author.versions),
        # Nobody asked the hooks at this cut. What they said before is as true of it as of a cut that a checkpoint made:
        # those, too, may end batches after the hooks were asked.
        master_states=plan.master_states,
    )
    catalog.write_checkpoint(store, manifest)
    return replace(
        plan,
        restored=manifest,
        restored_from=manifest.label,
        next_snapshot_id=manifest.id + 1,
        checkpoint_ids=(*plan.checkpoint_ids, manifest.id),
        salvage=(),
    )
