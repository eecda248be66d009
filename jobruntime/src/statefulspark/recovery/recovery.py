"""Recovery: finds out where a driver starts.

`plan_recovery` only reads, so that every tool can show what a restart would do; it uses a read cache, so that each listing
and each document is read once. `find_start` also settles what a dead driver left behind. `restore` carries out the plan.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from statefulspark import errors
from statefulspark.canonical import skeleton
from statefulspark.checkpoint import epochs, lineage_records, plans, progress, read_cache, transfer
from statefulspark.contract import layout
from statefulspark.contract.config import ClaimMode, RestoreConfig
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.recovery import candidates, damage, gaps, head, in_place
from statefulspark.recovery.plan import (
    Author,
    Candidate,
    Intent,
    RecoveryPlan,
    SettledPlan,
    StartMode,
    decide,
    left_savepoint,
    lost_queries,
    move_to_new_generation,
    require_no_lost_state,
    skipped_restore,
)
from statefulspark.recovery.restore import settle
from statefulspark.storage.port import ObjectStore

_MAX_ATTEMPTS = 3


def plan_recovery(
    store: ObjectStore,
    *,
    restore: RestoreConfig,
    query_uids: Collection[str] | None = None,
    open_store: transfer.StoreOpener | None = None,
    lineages: lineage_records.Lineages | None = None,
    cache: read_cache.ReadCache | None = None,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> RecoveryPlan:
    """Find out where a driver would start now; nothing is written.

    Cost: 7 listings, a GET per retained checkpoint, generation, and epoch since the oldest of them, and what `head.inspect`
    or `verify.verify` cost; no object is read twice, and no folder listed twice.

    Args:
        store: The job's root.
        restore: The requested restore.
        query_uids: Queries of the job; None skips the check for lost state.
        open_store: Opens the location of a savepoint outside the job's root.
        lineages: The lineages of the root, if they were read already.
        cache: Earlier reads of the root.
        begin_step: Begins each step that may take long.

    Returns:
        The plan, for `restore.settle`.

    Raises:
        SpecRejectedError: `SnapshotNotFound`, `NonRestoredState`.
        SnapshotCorruptError: `SnapshotBroken`: the requested snapshot does not verify. `NoCheckpointVerifies`: state
            exists and none of it verifies.
        StateUnknownError: `StateWithoutCheckpoint`, `StateMissing`, or storage gives no certain answer.
        FormatVersionError: A later release has written documents that this release cannot read.
        TransientError: Storage cannot be reached now.
    """
    view = candidates.read_storage(store, open_store, lineages=lineages, cache=cache, begin_step=begin_step)
    number = view.generations.current.generation if view.generations.current else 0
    if number in view.generations.newer:  # A later release wrote its record, which names the restores.
        raise errors.FormatVersionError("FormatVersionUnknown", view.generations.newer[number])
    intent = decide(view.situation(restore))
    fresh_generation = view.generations.highest + 1
    if intent is Intent.EMPTY:
        plan = RecoveryPlan(StartMode.EMPTY, fresh_generation, carried_out=_carried_out_after(view, restore))
    elif intent is Intent.RESTORE:
        plan = _restore(view, restore, fresh_generation)
    else:
        plan = _recover(view, fresh_generation)
    plan = _add_leftovers(plan, view)
    if plan.mode is StartMode.CONTINUE:
        plan = replace(plan, descent=lineage_records.generation_descent(view.current, view.lineages))
    plan = _without_lost_state(plan, view, restore, query_uids)
    if restore.once_key is not None and intent is Intent.RECOVER:
        plan = replace(plan, restore_skipped=skipped_restore(restore, restored_from=plan.restored_from))
    if plan.mode is not StartMode.CONTINUE:
        if plan.source is None or not skeleton.is_canonical(plan.source.manifest):
            return plan
        return replace(plan, queries=tuple(skeleton.without_canonical_files(query) for query in plan.queries))
    plan = replace(plan, head=_head_of(plan, view), record=view.current)
    loss = gaps.find(view.cache, plan.generation, plan.queries) or view.mixture
    if loss is not None:
        plan = replace(plan, fallback=f"{plan.fallback or ''} {loss}".strip())
    # A damaged record hides how its generation was made, and a root at a new location is a new lineage: neither may
    # continue in the present generation. Nor can Spark behind a gap in its logs, nor a driver among epochs of two lives.
    # And nobody goes on below a generation of another life, which counts as the newest for whoever reads the numbers alone.
    must_copy = view.current.generation in view.generations.unreadable or view.is_moved_or_copied or loss is not None
    if view.elsewhere:
        return replace(move_to_new_generation(plan, ()), generation=fresh_generation)
    return move_to_new_generation(plan, ()) if must_copy else plan


def find_start(
    store: ObjectStore,
    author: Author,
    *,
    restore: RestoreConfig,
    query_uids: Collection[str] | None = None,
    open_store: transfer.StoreOpener | None = None,
    cache: read_cache.ReadCache | None = None,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> SettledPlan:
    """Plan, and settle what a dead driver left; repeat if an old driver that still runs interferes.

    See `plan_recovery` and `restore.settle`. Two attempts are sufficient against one such driver: it cannot commit after it
    has seen the newer epoch. Each attempt reads everything again.

    Args:
        store: The job's root.
        author: The driver that starts.
        restore: See `plan_recovery`.
        query_uids: See `plan_recovery`.
        open_store: See `plan_recovery`.
        cache: Reads of the root since the epoch was claimed.
        begin_step: See `plan_recovery`.
    """
    for _ in range(_MAX_ATTEMPTS):
        plan = plan_recovery(
            store,
            restore=restore,
            query_uids=query_uids,
            open_store=open_store,
            lineages=author.lineages,
            cache=cache,
            begin_step=begin_step,
        )
        try:
            return settle(store, plan, author)
        except errors.FencedError:
            raise
        except errors.PreconditionFailedError as error:
            overtaken = error
            cache = None
        epochs.require_current(store, author.epoch)  # The other driver may be the successor.
    raise overtaken


def _add_leftovers(plan: RecoveryPlan, view: candidates.StorageView) -> RecoveryPlan:
    """Add the snapshot numbers in use, and the unusable files that dead drivers left."""
    current = view.generations.current.generation if view.generations.current else 0
    return replace(
        plan,
        next_snapshot_id=view.next_snapshot_id,
        checkpoint_ids=tuple(sorted({ref.id for ref in view.refs if ref.kind is SnapshotKind.CHECKPOINT})),
        untried_ids=tuple(sorted(number for number, manifest in view.checkpoints.items() if manifest.untried)),
        unfinished=view.generations.unfinished,
        obsolete_notes=damage.obsolete(view.damage, in_use=current, checkpoints=view.checkpoints.values()),
        scratch=view.cache.list_names(layout.SCRATCH),
    )


def _carried_out_after(view: candidates.StorageView, restore: RestoreConfig) -> tuple[str, ...]:
    """Return the keys of the restores that are carried out after this start."""
    key = restore.once_key
    return view.carried_out if key is None else (*view.carried_out, key)


def _restore(view: candidates.StorageView, restore: RestoreConfig, fresh_generation: int) -> RecoveryPlan:
    """Restore the requested snapshot: in place if the generation in use is at it, else from a copy of its files.

    The savepoint of a stop is left behind if the job has gone on after it, and the restore counts as carried out. The
    savepoint is verified in each case: in place none of its files is needed, but it is what a rollback would be made from.
    """
    snapshot = view.resolve(restore.snapshot or "")
    claim = snapshot if restore.claim_mode is ClaimMode.CLAIM and snapshot.folder is not None else None
    carried_out = _carried_out_after(view, restore)
    why_copied = _why_copied(view, snapshot)
    if why_copied is None:
        number = view.current.generation
        note = view.current.model_copy(
            update={
                "carried_out": carried_out,
                "claimed": claim.reference if claim else view.current.claimed,
                "master_states": snapshot.master_states,
                "restored_in_place": snapshot.manifest.id if snapshot.manifest else None,
            }
        )
        return RecoveryPlan(
            StartMode.CONTINUE,
            number,
            queries=tuple(
                query.model_copy(update={"path": layout.query_root(number, query.uid)}) for query in snapshot.queries
            ),
            restored_from=snapshot.label,
            restored=snapshot.manifest,
            carried_out=carried_out,
            note_restore=note,
            claim=claim,
            master_states=snapshot.master_states,
        )
    if restore.after_stop and _has_gone_on(view, snapshot):
        plan = replace(_recover(view, fresh_generation), carried_out=carried_out)
        note = view.current.model_copy(update={"carried_out": carried_out})
        return replace(
            plan,
            note_restore=note if plan.mode is StartMode.CONTINUE else None,
            restore_skipped=left_savepoint(restore, restored_from=plan.restored_from),
        )
    copy = _copy_of(snapshot, fresh_generation, carried_out=carried_out)
    return replace(copy, claim=claim, why_copied=why_copied)


def _why_copied(view: candidates.StorageView, snapshot: Candidate) -> str | None:
    """Return why a snapshot is copied; None if the generation in use is still at it, as usually after a stop."""
    manifest, current = snapshot.manifest, view.generations.current
    if current is None or manifest is None:
        return "the root has no generation in use"
    why = in_place.why_other_state(manifest, _generation_in_use(view))
    if why is not None:
        return why
    own = [
        query.model_copy(update={"path": layout.query_root(current.generation, query.uid)})
        for query in snapshot.queries
    ]
    if view.damage.failures(own):
        return "Spark could not load this state in the generation in use"
    return head.why_left_savepoint(view.cache, current.generation, manifest.queries, begin_step=view.begin_step)


def _has_gone_on(view: candidates.StorageView, snapshot: Candidate) -> bool:
    """Tell whether the job has everything of a savepoint that it was to stop with, and more, in the generation in use.

    A generation that was made later counts, too: a driver has begun after the stop was asked for.
    """
    manifest, current = snapshot.manifest, view.generations.current
    if current is None or manifest is None or not in_place.is_of_this_root(manifest, _generation_in_use(view)):
        return False
    if manifest.generation != current.generation:
        return manifest.generation < current.generation
    return head.has_gone_on(view.cache, current.generation, manifest.queries)


def _generation_in_use(view: candidates.StorageView) -> in_place.InUse:
    return in_place.InUse(view.current, view.store.uri)


def _recover(view: candidates.StorageView, fresh_generation: int) -> RecoveryPlan:
    """Continue from the newest state: the head if it is undamaged, else a copy of the newest candidate that verifies."""
    view.require_readable_checkpoints()
    current = view.current
    latest = view.latest()
    newest = head.inspect(
        view.cache,
        current.generation,
        latest.queries,
        view.damage,
        since_epoch=current.epoch,
        proven_packs=view.proven_packs(latest),
        begin_step=view.begin_step,
    )
    goes_on = newest.problem is None and (newest.is_newer or view.problem_of(latest) is None)
    problems = [*view.left_out_problems(newest.queries if goes_on else ()), *view.generations.unreadable.values()]
    if goes_on:
        # Queries without state in the latest checkpoint are described by the generation.
        stated = {query.uid for query in latest.queries if query.batch_id >= 0}
        unstated = (query for query in current.queries if query.uid not in stated)
        queries = plans.inherit(newest.queries, (*latest.queries, *unstated))
        # A savepoint that was restored in place is newer than the latest checkpoint until the next one completes.
        goes_first = (current.restored_in_place or 0) > (latest.manifest.id if latest.manifest else 0)
        return RecoveryPlan(
            StartMode.CONTINUE,
            current.generation,
            queries=queries,
            restored_from=latest.label,
            restored=latest.manifest,
            salvage=queries if newest.is_newer else (),
            carried_out=view.carried_out,
            fallback=" ".join(problems) or None,
            master_states=current.master_states if goes_first else latest.master_states,
        )
    if newest.problem is not None:
        problems.append(f"Committed batches after {latest.label or 'the start'} cannot be used: {newest.problem}")
    for candidate in view.candidates():
        problem = view.problem_of(candidate)
        if problem is None and candidate.holds_state:
            fallback = " ".join([*problems, f"Started from {candidate.label} instead."])
            plan = _copy_of(candidate, fresh_generation, carried_out=view.carried_out)
            return replace(plan, fallback=fallback)
        if problem is not None:
            problems.append(f"{candidate.label} does not verify: {problem}")
    if view.unusable_sources and view.damage.problem_of_copies not in " ".join(problems):
        problems.append(f"Left out: {', '.join(sorted(view.unusable_sources))}. {view.damage.problem_of_copies}")
    raise errors.SnapshotCorruptError(
        "NoCheckpointVerifies",
        f"{view.store.uri} holds state and none of it verifies, so nothing was started. {' '.join(problems)} Restore a "
        "savepoint by name, or request a fresh start.",
    )


def _copy_of(candidate: Candidate, generation: int, *, carried_out: tuple[str, ...]) -> RecoveryPlan:
    return RecoveryPlan(
        StartMode.COPY,
        generation,
        queries=candidate.queries,
        restored_from=candidate.label,
        restored=candidate.manifest,
        carried_out=carried_out,
        source=candidate,
        master_states=candidate.master_states,
    )


def _without_lost_state(
    plan: RecoveryPlan, view: candidates.StorageView, restore: RestoreConfig, query_uids: Collection[str] | None
) -> RecoveryPlan:
    """Refuse to drop the state of queries that the job no longer has; where that is allowed, copy only the other queries."""
    if query_uids is None:
        return plan
    label = plan.restored_from or f"state in generation {plan.generation}"
    if restore.keep_aside and {*query_uids} <= {query.uid for query in plan.queries}:
        lost_here = lost_queries(plan.queries, query_uids=query_uids)
        plan = replace(plan, kept_aside=tuple(part for part in lost_here if part.uid not in restore.drop_state))
    else:
        require_no_lost_state(plan.queries, label, query_uids=query_uids, drop_state=restore.drop_state)
    retained = tuple(query for query in plan.queries if query.uid in query_uids)
    lost = any(query.batch_id >= 0 for query in plan.queries if query.uid not in query_uids)
    if plan.mode is StartMode.CONTINUE and lost:
        return replace(
            plan,
            mode=StartMode.COPY,
            generation=view.generations.highest + 1,
            queries=retained,
            source=_head_of(plan, view),
        )
    return replace(plan, queries=retained)


def _head_of(plan: RecoveryPlan, view: candidates.StorageView) -> Candidate:
    """Return the head of the generation in use as a candidate, with the number of the checkpoint that contains it."""
    latest = view.latest()
    number = f"{layout.CHECKPOINT_REFERENCE}{plan.next_snapshot_id}"
    return replace(
        latest,
        queries=plan.queries,
        reference=number if plan.salvage else latest.reference,
        generation=plan.generation if plan.salvage or latest.manifest else latest.generation,
        descent=lineage_records.generation_descent(view.current, view.lineages),
    )
