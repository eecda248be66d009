"""Restoring: carries out the plan of a start, so that Spark can be started.

Batches that a dead driver committed become a checkpoint, its unfinished generations are abandoned, and the files of a
snapshot become the beginning of a new generation. Another driver may act after the plan was made: every write is
conditional and raises PreconditionFailedError in that case, and the caller plans again.

Files are copied on the server's side. Spark stores absolute paths only in `state/<op>/_metadata/v2/<batch>`; these files
are rewritten to the new root, and their checksum files, which no longer match, are not copied. Each query gets another id,
so that a sink takes none of its batches for one of another generation. For a job whose plan has changed, more of the small
files are rewritten; see `rewrite`. What a standby has copied ahead (`ahead`) is not copied again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from statefulspark import errors
from statefulspark.checkpoint import catalog, checksums, epochs, lineage_records, listing, progress, transfer
from statefulspark.contract import base
from statefulspark.contract import manifest as manifests
from statefulspark.contract.manifest import FileEntry, GenerationRecord, Manifest, QueryEntry, SnapshotKind, Trigger
from statefulspark.evolution import rewrite
from statefulspark.recovery import beginnings, claims, copies, generations, history, scratch
from statefulspark.recovery import plan as plan_rules
from statefulspark.recovery.plan import Author, ReadyState, RecoveryPlan, SettledPlan, StartMode
from statefulspark.storage.port import ObjectStore

_log = logging.getLogger(__name__)

Finisher = Callable[[int, tuple[QueryEntry, ...]], tuple[QueryEntry, ...]]
"""Completes the queries of a generation that is filled and not in use yet; returns the completed queries."""


def settle(store: ObjectStore, plan: RecoveryPlan, author: Author) -> SettledPlan:
    """Write a checkpoint of the batches that a dead driver committed, and abandon its unfinished generations. Idempotent.

    A generation that the author has reserved itself, as a standby, stays unfinished.

    Cost: one PUT for a salvaged checkpoint; per unfinished generation a PUT, a LIST and a DELETE; per scratch folder a LIST
    and a DELETE.

    Raises:
        PreconditionFailedError: `CheckpointExists` or `GenerationExists`: another driver acted; plan again.
    """
    own = author.carried.generation if author.carried else None
    lost = tuple(number for number in plan.unfinished if number != own)
    generations.abandon(store, lost, epoch=author.epoch, now=author.now)
    if plan.obsolete_notes:
        store.delete_many(plan.obsolete_notes)
    scratch.clear_of_starts(store, plan.scratch, below=author.epoch)
    scratch.clear_of_rehearsals(store, plan.scratch, now=author.now)
    settled = SettledPlan.from_plan(plan, reserved=own if own in plan.unfinished else None)
    return _salvaged(store, settled, plan.salvage, author) if plan.salvage else settled


def carry_out(
    store: ObjectStore,
    plan: SettledPlan,
    author: Author,
    *,
    rewrites: Mapping[str, rewrite.Rewrite] | None = None,
    finish: Finisher | None = None,
    hadoop_root: str | None = None,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> ReadyState:
    """Bring the generation of a plan into use, a new one if something moves, so that Spark can be started.

    Cost: a PUT; a HEAD, a GET and a PUT for a restore in place; for a new generation two more PUTs, a HEAD and what
    `materialise` costs.

    Args:
        store: The job's root.
        plan: From `recovery.find_start`, or from `move_to_new_generation`.
        author: The driver that does it.
        rewrites: How the files of queries change in a new generation, by uid.
        finish: Called with a new generation's number and queries before its record is written.
        hadoop_root: See `materialise`.
        begin_step: Begins the step that copies files, if there is one, and counts them.

    Returns:
        The state, with the actual number of the generation, and paths inside it.

    Raises:
        FencedError: A newer driver has started; the new generation was not made.
        PreconditionFailedError: `GenerationExists`: another driver acted; plan again.
        SnapshotCorruptError: `CopyIncomplete`.
    """
    if plan.claim is not None and plan.claim.folder is not None:
        folder = plan.claim.folder
        claims.claim(folder.store, folder.root, root=store.uri, owner_id=author.owner_id, now=author.now)
    if plan.mode is StartMode.CONTINUE:
        if plan.record is None or plan.descent is None:
            raise errors.InternalError(
                "Unexpected", f"Generation {plan.generation} has no record; the plan is incomplete."
            )
        if plan.note_restore is not None:
            generations.note_restore(store, plan.note_restore, over=plan.record)
        beginnings.note(store, generation=plan.generation, epoch=author.epoch, now=author.now)
        return ReadyState.from_plan(plan, record=plan.note_restore or plan.record, descent=plan.descent)
    filling = _Filling(store, plan, author, rewrites or {}, finish, hadoop_root, begin_step)
    carried = author.carried if plan_rules.takes_what_was_carried(plan, author) else None
    if carried is None:
        return filling.fill_new()
    try:
        return filling.fill(carried.generation, carried)
    except errors.PreconditionFailedError as error:
        if error.reason != "GenerationExists":
            raise
    # The driver before took this process for dead, and closed its generation off.
    return filling.fill_new()


@dataclass(frozen=True, slots=True)
class _Filling:
    """Fills a generation and brings it into use; the fields are arguments of `carry_out`."""

    store: ObjectStore
    plan: SettledPlan
    author: Author
    rewrites: Mapping[str, rewrite.Rewrite]
    finish: Finisher | None
    hadoop_root: str | None
    begin_step: progress.BeginStep

    def fill_new(self) -> ReadyState:
        """Fill a generation of which nothing is there."""
        reservation = generations.reservation(self.author.epoch, claim_id=self.author.claim_id, now=self.author.now)
        return self.fill(generations.reserve(self.store, above=self.plan.generation - 1, holder=reservation))

    def fill(self, number: int, carried: copies.Carried | None = None) -> ReadyState:
        """Fill a generation that is reserved for this driver, and write its record, with which it is in use."""
        queries: tuple[QueryEntry, ...] = ()
        if self.plan.source is not None:
            queries = materialise(
                self.store,
                self.plan.source.location,
                self.plan.queries,
                number,
                rewrites=self.rewrites,
                carried=carried,
                hadoop_root=self.hadoop_root,
                on_progress=self.begin_step(f"Restoring {self.plan.restored_from or 'the state'}"),
            )
        if self.finish is not None:
            queries = self.finish(number, queries)
        plan, author = self.plan, self.author
        origin = plan.source.descent if plan.source else None
        ancestors = origin.below(author.lineages.lineage, plan.source.queries) if origin and plan.source else ()
        # A successor abandons the generations that were reserved when it listed them. This check stops a paused driver that
        # reserved one later: it would otherwise replace all the work of its successor with an old snapshot.
        epochs.require_current(self.store, author.epoch)
        record = GenerationRecord(
            generation=number,
            lineage=author.lineages.lineage,
            ancestors=ancestors,
            created_at=author.now,
            epoch=author.epoch,
            restored_from=plan.restored_from,
            source=plan.source.reference if plan.source else None,
            parent_generation=plan.source.generation if plan.source else None,
            carried_out=plan.carried_out,
            queries=queries,
            changes=plan.changes,
            claimed=plan.claim.reference if plan.claim else None,
            master_states=plan.master_states,
            cut=origin.cut(plan.source.queries) if origin and plan.source else None,
            goes_back=history.goes_back(plan),
        )
        generations.publish(self.store, record)
        beginnings.note(self.store, generation=number, epoch=author.epoch, now=author.now)
        descent = lineage_records.Descent(author.lineages.lineage, number, self.store.uri, ancestors)
        return replace(ReadyState.from_plan(plan, record=record, descent=descent), generation=number, queries=queries)


def materialise(
    store: ObjectStore,
    source: transfer.SnapshotLocation,
    queries: Sequence[QueryEntry],
    generation: int,
    *,
    rewrites: Mapping[str, rewrite.Rewrite] | None = None,
    carried: copies.Carried | None = None,
    hadoop_root: str | None = None,
    on_progress: progress.Report | None = None,
) -> tuple[QueryEntry, ...]:
    """Copy queries of a snapshot into a reserved generation that is not in use.

    Cost: a server-side copy per file that was not carried ahead, a GET and a PUT per stateful operator, a LIST per query and
    1,000 files, and as many again if files were carried ahead.

    Args:
        store: The job's root.
        source: Location of the snapshot.
        queries: The queries to copy; those without a committed batch need no file.
        generation: Number of the generation.
        rewrites: How the files of a query change, by its uid; other queries are copied unchanged.
        carried: What was copied into the generation before.
        hadoop_root: URI of the job's root for Spark; derived from the store when omitted.
        on_progress: Called after every copied file.

    Returns:
        The queries in the generation.

    Raises:
        SnapshotCorruptError: `CopyIncomplete`: a file is missing after the copy, or has another size.
        ObjectNotFoundError: A file of the snapshot does not exist any more.
    """
    moved = copies.moves(queries, generation, rewrites=rewrites)
    needed = copies.list_copies(source, moved)
    missing = needed
    if carried:  # What was carried ahead counts if storage has it.
        listed = ((move.path, listing.below(store, move.path)) for move in moved)
        present = {f"{path}/{name}": info for path, infos in listed for name, info in infos.items()}
        missing = copies.missing(needed, carried.files, present)
        still_bytes = sum(copy.size_bytes for copy in missing)
        _log.info(
            "state that was carried ahead is taken",
            extra={"files": len(needed) - len(missing), "missing_files": len(missing), "missing_bytes": still_bytes},
        )
    on_files = progress.count_files([copy.size_bytes for copy in missing], on_progress) if on_progress else None
    transfer.copy(source.store, store, [(copy.source, copy.target) for copy in missing], on_progress=on_files)
    hadoop = hadoop_root or transfer.hadoop_uri(store.uri)
    return tuple(_finish(store, source, move, hadoop) for move in moved)


def _salvaged(store: ObjectStore, plan: SettledPlan, salvage: tuple[QueryEntry, ...], author: Author) -> SettledPlan:
    origin = plan.descent
    if origin is None:
        raise errors.InternalError("Unexpected", "Nothing tells in which generation the batches were committed.")
    manifest = Manifest(
        kind=SnapshotKind.CHECKPOINT,
        id=plan.next_snapshot_id,
        namespace=author.namespace,
        job=author.job,
        trigger=Trigger.RECOVERY,
        epoch=author.epoch,
        claim=author.claim_id,
        # The generation in which they were committed, which a plan that copies them does not go on in.
        generation=origin.generation,
        triggered_at=author.now,
        completed_at=author.now,
        queries=salvage,
        restored_from=plan.restored_from,
        lineage=origin.lineage,
        root=origin.root,
        ancestors=origin.ancestors,
        revision=author.revision,
        versions=dict(author.versions),
        # The hooks were not called for these batches. Their last state is as valid here as in any checkpoint: a checkpoint,
        # too, may contain batches that were committed after the hooks were called.
        master_states=plan.master_states,
        untried=tuple(sorted(manifests.restored_batches(salvage))),
    )
    catalog.write_checkpoint(store, manifest)
    return replace(
        plan,
        restored=manifest,
        restored_from=manifest.label,
        next_snapshot_id=manifest.id + 1,
        checkpoint_ids=(*plan.checkpoint_ids, manifest.id),
        untried_ids=(*plan.untried_ids, *((manifest.id,) if manifest.untried else ())),
    )


def _finish(store: ObjectStore, source: transfer.SnapshotLocation, move: copies.Move, hadoop: str) -> QueryEntry:
    """Write the files whose content changes; return the query in the new generation."""
    uid = move.path.rsplit("/", 1)[1]
    query = rewrite.entry_after(move.query, move.rewrite).model_copy(update={"uid": uid, "path": move.path})
    if not query.files:
        return query
    changing = rewrite.files_to_rewrite(move.query, move.rewrite)
    bodies = source.reader.read_many([source.key(move.query, old) for old, _ in changing]) if changing else {}
    expected = {new_path: file for file, new_path in rewrite.files_to_copy(move.query, move.rewrite)}
    for old, new in changing:
        key = source.key(move.query, old)
        source_uri, query_id = f"{source.store.uri}/{key}", str(uuid.uuid4())
        body = move.rewrite.body(old, bodies[key], source_uri, f"{hadoop}/{move.path}", query_id=query_id)
        store.write(f"{move.path}/{new}", body)
        crc32 = base.crc32_hex(body) if checksums.is_small(new, len(body)) else None
        expected[new] = FileEntry(path=new, size_bytes=len(body), crc32=crc32)
    listed = listing.below(store, move.path, expected)
    for name, file in expected.items():
        if name not in listed or listed[name].size_bytes != file.size_bytes:
            raise errors.SnapshotCorruptError(
                "CopyIncomplete",
                f"{store.uri}/{move.path}/{name} should have {file.size_bytes} bytes after the copy and "
                f"{f'has {listed[name].size_bytes}' if name in listed else 'does not exist'}; nothing was started. "
                "Verify the snapshot, then try again.",
            )
    files = tuple(checksums.file_entry(name, listed[name], crc32=expected[name].crc32) for name in sorted(expected))
    return query.model_copy(update={"files": files})
