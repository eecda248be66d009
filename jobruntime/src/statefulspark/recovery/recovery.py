"""Recovery: find out where a driver starts.

`plan_recovery` only reads, so that anybody may ask what a restart would do; it works on one look at storage, so that each
listing and each document is read once. `find_start` also settles what a dead driver left behind. What the plan says is
carried out by `restore`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from statefulspark import errors
from statefulspark.canonical import skeleton
from statefulspark.checkpoint import epochs, lineage_records, plans, read_cache, transfer
from statefulspark.contract import layout
from statefulspark.contract.config import ClaimMode, RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, MasterStateEntry, QueryEntry, SnapshotFormat, SnapshotKind
from statefulspark.recovery import candidates, damage, head, uids
from statefulspark.recovery.plan import (
    Author,
    Candidate,
    Intent,
    StartMode,
    StartPlan,
    decide,
    in_new_generation,
    skipped_restore,
)
from statefulspark.recovery.restore import settle
from statefulspark.storage.port import ObjectStore

_LOOKS = 3


def plan_recovery(
    store: ObjectStore,
    *,
    restore: RestoreConfig,
    query_uids: Collection[str] | None = None,
    open_store: transfer.StoreOpener | None = None,
    lineages: lineage_records.Lineages | None = None,
    cache: read_cache.ReadCache | None = None,
) -> StartPlan:
    """Find out where a driver would start now; nothing is written.

    Cost: 6 listings, a GET per retained checkpoint and generation, and what `head.inspect` or `verify.verify` cost; no
    object is read twice, and no folder listed twice.

    Args:
        store: The job's root.
        restore: What was asked for.
        query_uids: Queries of the job; None leaves them unchecked.
        open_store: Opens the place of a savepoint outside the job's root.
        lineages: What the root has been, where that is known already.
        cache: What has been read of the root already.

    Returns:
        The plan, to be handed to `restore.carry_out`.

    Raises:
        SpecRejectedError: `SnapshotNotFound`, `NonRestoredState`.
        SnapshotCorruptError: `SnapshotBroken`: what was asked for does not verify. `NoCheckpointVerifies`: state exists
            and none of it does.
        StateUnknownError: `StateWithoutCheckpoint`, `StateMissing`, or storage cannot tell.
        FormatVersionError: A later release has worked here, and what it wrote cannot be read.
        TransientError: Storage cannot be asked now.
    """
    view = candidates.survey(store, open_store, lineages=lineages, cache=cache)
    _require_known_generation(view)
    intent = decide(view.situation(restore))
    plan = _without_lost_state(_with_what_was_left(_proposal(intent, view, restore), view), view, restore, query_uids)
    if restore.once_key is not None and intent is Intent.RECOVER:
        plan = replace(plan, restore_skipped=skipped_restore(restore, restored_from=plan.restored_from))
    if plan.mode is not StartMode.CONTINUE:
        return _with_shells(plan)
    origin = lineage_records.of_generation(view.current, view.lineages)
    plan = replace(plan, head=_head_of(plan, view), descent=origin, record=view.current)
    # What follows from a damaged record cannot be known, and a root at a new place is a lineage of its own: neither goes
    # on in the generation that is there.
    is_left = view.current.generation in view.known.unreadable or view.is_elsewhere
    return in_new_generation(plan, ()) if is_left else plan


def find_start(
    store: ObjectStore,
    author: Author,
    *,
    restore: RestoreConfig,
    query_uids: Collection[str] | None = None,
    open_store: transfer.StoreOpener | None = None,
    cache: read_cache.ReadCache | None = None,
) -> StartPlan:
    """Plan, and settle what was left behind; again if a driver that is not dead yet got in between.

    See `plan_recovery` and `restore.settle`. Two looks are enough against one such driver: it cannot commit after its
    first look at the newer epoch. Each of them reads everything anew.

    Args:
        store: The job's root.
        author: Who starts.
        restore: See `plan_recovery`.
        query_uids: See `plan_recovery`.
        open_store: See `plan_recovery`.
        cache: What has been read of the root since it was claimed.
    """
    for _ in range(_LOOKS):
        plan = plan_recovery(
            store,
            restore=restore,
            query_uids=query_uids,
            open_store=open_store,
            lineages=author.lineages,
            cache=cache,
        )
        try:
            return settle(store, plan, author)
        except errors.FencedError:
            raise
        except errors.PreconditionFailedError as error:
            overtaken = error
            cache = None
        epochs.require_current(store, author.epoch)  # It was the successor, perhaps.
    raise overtaken


def _with_what_was_left(plan: StartPlan, view: candidates.View) -> StartPlan:
    """Say which numbers are taken, and what dead drivers left that is of no use."""
    current = view.known.current.generation if view.known.current else 0
    return replace(
        plan,
        next_snapshot_id=view.next_snapshot_id,
        checkpoint_ids=tuple(sorted({ref.id for ref in view.refs if ref.kind is SnapshotKind.CHECKPOINT})),
        unfinished=view.known.unfinished,
        obsolete_notes=damage.obsolete(view.damage, in_use=current, checkpoints=view.checkpoints.values()),
        scratch=view.cache.list_names(layout.SCRATCH),
    )


def _with_shells(plan: StartPlan) -> StartPlan:
    """Return the plan with the shells of a canonical savepoint in place of its queries; any other plan as it is."""
    if plan.source is None or not skeleton.is_canonical(plan.source.manifest):
        return plan
    return replace(plan, queries=tuple(skeleton.shell(query) for query in plan.queries))


def _proposal(intent: Intent, view: candidates.View, wish: RestoreConfig) -> StartPlan:
    fresh_generation = view.known.highest + 1
    if intent is Intent.EMPTY:
        return StartPlan(StartMode.EMPTY, fresh_generation, restore_id=wish.once_key)
    if intent is Intent.RESTORE:
        asked = view.resolve(wish.snapshot or "")
        claim = asked if wish.claim_mode is ClaimMode.CLAIM and asked.folder is not None else None
        if _is_in_place(view, asked):
            return _in_place(view, asked, wish.once_key, claim)
        return replace(_copy_of(asked, fresh_generation, restore_id=wish.once_key), claim=claim)
    return _recover(view, fresh_generation)


def _require_known_generation(view: candidates.View) -> None:
    """Refuse a root whose generation in use has a record of a later release: it says what was restored, and when."""
    number = view.known.current.generation if view.known.current else 0
    if number in view.known.newer:
        raise errors.FormatVersionError("FormatVersionUnknown", view.known.newer[number])


def _is_in_place(view: candidates.View, asked: Candidate) -> bool:
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
    return head.is_still_at(view.cache, current.generation, manifest.queries)


def _in_place(view: candidates.View, asked: Candidate, restore_id: str | None, claim: Candidate | None) -> StartPlan:
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


def _recover(view: candidates.View, fresh_generation: int) -> StartPlan:
    """Go on from the newest state: the head if it is sound, else the newest candidate that verifies, by copy."""
    view.require_known()
    current = view.current
    latest = view.latest()
    found = head.inspect(view.cache, current.generation, latest.queries, view.damage)
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


def _declared(view: candidates.View, latest: Candidate) -> tuple[QueryEntry, ...]:
    """Return what is known of queries: from the latest checkpoint, or of those without state in it from the generation."""
    stated = {query.uid for query in latest.queries if query.batch_id >= 0}
    return (*latest.queries, *(query for query in view.current.queries if query.uid not in stated))


def _copy_of(candidate: Candidate, generation: int, *, restore_id: str | None) -> StartPlan:
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


def _states_of_head(latest: Candidate, current: GenerationRecord) -> tuple[MasterStateEntry, ...]:
    """Return what hooks are restored with where the generation in use is continued.

    A savepoint that was restored in place is newer than the latest checkpoint until the next one completes.
    """
    covered = latest.manifest.id if latest.manifest else 0
    return current.master_states if (current.restored_in_place or 0) > covered else latest.master_states


def _without_lost_state(
    plan: StartPlan, view: candidates.View, wish: RestoreConfig, query_uids: Collection[str] | None
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


def _head_of(plan: StartPlan, view: candidates.View) -> Candidate:
    """Return the head of the generation in use as a base, under the number of the checkpoint that covers it."""
    latest = view.latest()
    number = f"{layout.CHECKPOINT_REFERENCE}{plan.next_snapshot_id}"
    return replace(
        latest,
        queries=plan.queries,
        reference=number if plan.salvage else latest.reference,
        generation=plan.generation if plan.salvage or latest.manifest else latest.generation,
        descent=lineage_records.of_generation(view.current, view.lineages),
    )
