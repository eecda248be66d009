"""Faults that are planted in the product, one at a time: each is a way in which such a protocol goes wrong.

A plant replaces one decision of the product, of storage or of the engine, and names an invariant that has to break, also
when no other one is looked at. A simulation that does not find it would prove nothing by its silence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from faultrig import engine, faults, ledger, truth
from simulation import moves, outside, runs
from simulation.invariants import NAMES
from statefulspark import errors
from statefulspark.checkpoint import catalog, closure, content, epochs
from statefulspark.contract import layout
from statefulspark.contract.manifest import Position, ReservationRecord, SnapshotKind
from statefulspark.contract.rights import SinkRight
from statefulspark.driver.output import job_sinks, sink_committer, sink_rights
from statefulspark.driver.snapshots import snapshot_writer
from statefulspark.recovery import ahead, candidates, generations, head
from statefulspark.retention import pruning, rules
from statefulspark.sinks import marker, marker_errors, standing
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.files import publishing
from statefulspark.sinks.files.commits import PartFile, PreparedFiles
from statefulspark.storage.port import ObjectInfo, ObjectStore

Planting = Callable[[], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Plant:
    """A planted fault.

    Attributes:
        plant: Puts it in place for as long as it is entered.
        breaks: The invariant that breaks.
        focus: Moves that it takes, which happen more often then.
        accident: The accident that it takes, of an invariant about the outside.
    """

    plant: Planting
    breaks: str
    focus: tuple[moves.Kind, ...] = ()
    accident: str = ""

    def __post_init__(self) -> None:
        assert self.breaks in NAMES, self.breaks

    def is_found(self, seed: int) -> bool:
        """Tell whether the run of a seed finds it, once it is planted."""
        if self.accident:
            script = outside.script_of(seed, self.accident)
            return runs.run_outside(seed, script, watched=[self.breaks]).broken is not None
        script = moves.moves_of(seed, runs.LENGTH, self.focus)
        return runs.run(seed, script, watched=[self.breaks]).broken is not None


def nobody_looks_at_the_fence() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(epochs, "require_current")


def the_engine_has_no_fence() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(engine.Fence, "check")


@contextlib.contextmanager
def nobody_is_fenced() -> Iterator[None]:
    with the_engine_has_no_fence(), nobody_looks_at_the_fence():
        yield


def storage_looks_before_it_writes() -> contextlib.AbstractContextManager[object]:
    """A condition that holds for writers one after the other, and not for two at once; no start finds that out."""

    def create(store: faults.RigStore, key: str, body: bytes) -> None:
        if store.info(key) is not None:
            raise errors.ObjectExistsError(key)
        store.write(key, body)

    return mock.patch.object(faults.RigStore, "create", create)


def a_log_entry_is_written_without_a_condition() -> contextlib.AbstractContextManager[object]:
    def create(query: engine.Query, key: str, body: bytes) -> None:
        query._patient.write(key, body)

    return mock.patch.object(engine.Query, "_create", create)


def a_claim_that_was_lost_counts_as_won() -> contextlib.AbstractContextManager[object]:
    def create(store: ObjectStore, record: object) -> bool:
        with contextlib.suppress(errors.ObjectExistsError):
            store.create(layout.epoch(record.epoch), record.to_json(indent=1).encode())  # type: ignore[attr-defined]
        return True

    return mock.patch.object(epochs, "_create", create)


def a_number_that_is_reserved_is_used_again() -> contextlib.AbstractContextManager[object]:
    def reserve(store: ObjectStore, *, above: int, holder: ReservationRecord) -> int:
        with contextlib.suppress(errors.ObjectExistsError):
            store.create(layout.generation_reservation(above + 1), holder.to_json().encode())
        return above + 1

    return mock.patch.object(generations, "reserve", reserve)


def a_standby_fills_a_number_that_it_has_not_reserved() -> contextlib.AbstractContextManager[object]:
    def held(copier: ahead.AheadCopier, cargo: ahead.Cargo, now: object) -> int:
        copier._begin(cargo.generation + 1)
        return cargo.generation + 1

    return mock.patch.object(ahead.AheadCopier, "_held", held)


def the_number_of_a_checkpoint_is_used_again() -> contextlib.AbstractContextManager[object]:
    honest = candidates.read_storage

    def read_storage(*args: object, **kwargs: object) -> candidates.StorageView:
        view = honest(*args, **kwargs)  # type: ignore[arg-type]
        taken = {ref.id for ref in view.refs if ref.kind is SnapshotKind.CHECKPOINT}
        view.next_snapshot_id = next(number for number in range(1, 10**6) if number not in taken)
        return view

    return mock.patch.object(candidates, "read_storage", read_storage)


def pruning_forgets_what_follows_a_snapshot() -> contextlib.AbstractContextManager[object]:
    honest = rules._Rules.reason_to_keep

    def reason_to_keep(own: rules._Rules, info: ObjectInfo) -> str | None:
        return None if info.key.endswith(".changelog") else honest(own, info)

    return mock.patch.object(rules._Rules, "reason_to_keep", reason_to_keep)


def pruning_knows_the_newest_checkpoint_only() -> contextlib.AbstractContextManager[object]:
    honest = pruning.take_inventory

    def take_inventory(store: ObjectStore) -> rules.Inventory:
        found = honest(store)
        newest = sorted(found.checkpoints, key=lambda manifest: manifest.id)[-1:]
        return replace(found, checkpoints=tuple(newest))

    return mock.patch.object(pruning, "take_inventory", take_inventory)


def retention_drops_the_newest_checkpoint() -> contextlib.AbstractContextManager[object]:
    honest = snapshot_writer.SnapshotWriter.drop

    def drop(writer: snapshot_writer.SnapshotWriter, checkpoint_ids: tuple[int, ...]) -> None:
        honest(writer, [number + 2 for number in checkpoint_ids])

    return mock.patch.object(snapshot_writer.SnapshotWriter, "drop", drop)


def a_checkpoint_leaves_changelogs_out() -> contextlib.AbstractContextManager[object]:
    honest = closure.ClosureBuilder._state_keys

    def state_keys(builder: closure.ClosureBuilder, *args: object) -> list[str]:
        return [key for key in honest(builder, *args) if not key.endswith(".changelog")]  # type: ignore[arg-type]

    return mock.patch.object(closure.ClosureBuilder, "_state_keys", state_keys)


def a_failed_checkpoint_is_deleted_by_its_number() -> contextlib.AbstractContextManager[object]:
    honest = snapshot_writer.SnapshotWriter.discard

    def discard(writer: snapshot_writer.SnapshotWriter, order: snapshot_writer.SnapshotOrder) -> None:
        if order.kind is SnapshotKind.CHECKPOINT:
            writer._store.delete_many([layout.checkpoint_manifest(order.snapshot_id)])
        honest(writer, order)

    return mock.patch.object(snapshot_writer.SnapshotWriter, "discard", discard)


def a_manifest_is_written_before_its_files() -> contextlib.AbstractContextManager[object]:
    honest = catalog.write_manifest

    def write_manifest(store: ObjectStore, folder: str, manifest: object) -> None:
        missing = [f"{query.path}/{query.files[0].path}" for query in manifest.queries if query.files]  # type: ignore[attr-defined]
        where = f"{folder}/" if manifest.kind is SnapshotKind.SAVEPOINT else ""  # type: ignore[attr-defined]
        bodies = {key: store.read(f"{where}{key}") for key in missing}
        if manifest.kind is SnapshotKind.SAVEPOINT:  # type: ignore[attr-defined]
            store.delete_many([f"{where}{key}" for key in missing])
        honest(store, folder, manifest)  # type: ignore[arg-type]
        for key, body in bodies.items():
            store.write(f"{where}{key}", body)

    return mock.patch.object(catalog, "write_manifest", write_manifest)


def a_sink_forgets_what_it_has_shown() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(marker.Marker, "covers", return_value=False)


def a_sink_refuses_what_its_state_could_send_again() -> contextlib.AbstractContextManager[object]:
    honest = marker.open_marker

    def open_marker(stored: marker.Marker | None, context: SinkContext, *args: str, **options: bool) -> marker.Marker:
        if stored is not None and stored.newest is not None and stored.newest.batch_id < context.batch_id:
            raise errors.SpecRejectedError("SinkBehind", "It lacks batches that are prepared, and could have them.")
        return honest(stored, context, *args, **options)

    return mock.patch.object(marker, "open_marker", open_marker)


def a_sink_that_lacks_batches_counts_as_complete() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(standing, "lacks", return_value=False)


def a_sink_that_is_ahead_counts_as_equal() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(standing.SinkLineage, "contains", return_value=True)


def an_older_opener_of_a_sink_is_not_looked_up() -> contextlib.AbstractContextManager[object]:
    honest = standing.opener

    def opener(stored: marker.Marker, context: SinkContext) -> standing.Standing:
        is_older = stored.lineage == context.descent.lineage and stored.epoch < context.committing_epoch
        return standing.Standing.EQUAL if is_older else honest(stored, context)

    return mock.patch.object(standing, "opener", opener)


def the_claim_of_who_opened_a_sink_is_not_compared() -> contextlib.AbstractContextManager[object]:
    honest = standing.opener

    def opener(stored: marker.Marker, context: SinkContext) -> standing.Standing:
        compared = honest(stored, context)
        is_replaced = stored.epoch > context.committing_epoch
        unseen = standing.Standing.REPLACED if is_replaced else standing.Standing.EQUAL
        return unseen if compared is standing.Standing.OTHER_COPY else compared

    return mock.patch.object(standing, "opener", opener)


def a_sink_that_is_named_stays_where_it_is() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(marker, "_going_on", lambda stored, context: stored)


def a_sink_that_is_taken_back_counts_as_having_all_that_was_prepared() -> contextlib.AbstractContextManager[object]:
    honest = marker._begun_after
    return mock.patch.object(marker, "_begun_after", lambda position, context: honest(context.position, context))


def a_sink_that_is_named_is_not_sent_what_was_kept_for_it() -> contextlib.AbstractContextManager[object]:
    honest = marker.Marker.opened_by

    def opened_by(stored: marker.Marker, context: SinkContext) -> marker.Marker:
        after = stored.counting(context.position) if context.descent.rights else stored
        return honest(after, context)

    return mock.patch.object(marker.Marker, "opened_by", opened_by)


@contextlib.contextmanager
def a_folder_that_is_named_leaves_out_files_that_it_has() -> Iterator[None]:
    honest = publishing._files_there

    def files_there(store: ObjectStore, prepared: PreparedFiles, context: SinkContext) -> tuple[PartFile, ...]:
        return () if context.descent.rights else honest(store, prepared, context)

    # A commit that lacks files which are there is otherwise mended by the next start.
    settled = mock.patch.object(publishing, "_has_left_files_out", lambda present, commit, store: not present.files)
    with mock.patch.object(publishing, "_files_there", files_there), settled:
        yield


def a_right_counts_at_each_start() -> contextlib.AbstractContextManager[object]:
    honest = sink_rights.SinkRights.read
    return mock.patch.object(sink_rights.SinkRights, "read", lambda restore, carried_out: honest(restore, ()))


def a_sink_without_its_marker_counts_as_new() -> contextlib.AbstractContextManager[object]:
    honest = standing.compare

    def compare(stored: marker.Marker | None, context: SinkContext) -> standing.Standing:
        return standing.Standing.NEW if stored is None else honest(stored, context)

    return mock.patch.object(standing, "compare", compare)


def a_sink_of_other_state_counts_as_its_own() -> contextlib.AbstractContextManager[object]:
    honest = standing.compare

    def compare(stored: marker.Marker | None, context: SinkContext) -> standing.Standing:
        compared = honest(stored, context)
        return standing.Standing.EQUAL if compared is standing.Standing.FOREIGN else compared

    return mock.patch.object(standing, "compare", compare)


def a_driver_that_ran_names_the_batch_that_it_knows() -> contextlib.AbstractContextManager[object]:
    honest = marker_errors._by_right

    def by_right(
        context: SinkContext, where: str, after: Position | None, needed: Collection[SinkRight], **words: Any
    ) -> str:
        return honest(context, where, after, needed, **words | {"is_running": False})

    return mock.patch.object(marker_errors, "_by_right", by_right)


def a_root_that_was_moved_has_no_ancestors() -> contextlib.AbstractContextManager[object]:
    honest = job_sinks.JobSink.descent
    alone = property(lambda sink: replace(honest.__get__(sink), cuts=()))
    return mock.patch.object(job_sinks.JobSink, "descent", alone)


@contextlib.contextmanager
def a_client_deletes_what_a_conflict_has_committed() -> Iterator[None]:
    """As pyiceberg does with the manifests of a snapshot, if it is told of a conflict that was none."""
    appended: list[tuple[ledger.Ledger, list[truth.Row]]] = []
    append, transact = ledger.LedgerSink._append, ledger.transact

    def noting(sink: ledger.LedgerSink, rows: list[truth.Row], context: SinkContext) -> None:
        append(sink, rows, context)
        appended[:] = [(sink.ledger, rows)]

    def cleaning_up(name: str, act: Callable[[], None]) -> None:
        try:
            transact(name, act)
        except errors.TransientError as error:
            for target, rows in appended if error.reason == faults.RACED else ():
                target.rows[:] = [row for row in target.rows if row not in rows]
            raise

    with mock.patch.object(ledger.LedgerSink, "_append", noting), mock.patch.object(ledger, "transact", cleaning_up):
        yield


def every_etag_counts_as_an_md5() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(content, "etags_are_md5", return_value=True)


def a_sink_shows_batches_that_no_checkpoint_covers() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(job_sinks.JobSink, "shows_batches", new=True)


def a_start_overlooks_committed_batches() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(head, "inspect", return_value=head.Head((), is_newer=True, problem="not looked at"))


def a_start_takes_the_oldest_checkpoint() -> contextlib.AbstractContextManager[object]:
    honest = candidates.StorageView.candidates

    def reverse(view: candidates.StorageView) -> Iterator[object]:
        return iter(tuple(honest(view))[::-1])

    return mock.patch.object(candidates.StorageView, "candidates", reverse)


def half_made_generations_stay_open() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(generations, "abandon")


def commits_are_forgotten() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(sink_committer.SinkCommitter, "uncommitted", return_value=())


def an_answer_is_not_expected() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(catalog, "exists_already", side_effect=ValueError("nobody has thought of that"))


PLANTS: Mapping[str, Plant] = {
    "the engine has no fence": Plant(the_engine_has_no_fence, "one_writer_per_generation"),
    "a log entry is written without a condition": Plant(
        a_log_entry_is_written_without_a_condition, "one_writer_per_generation"
    ),
    "a number that is reserved is used again": Plant(
        a_number_that_is_reserved_is_used_again,
        "a_generation_is_filled_by_who_reserved_it",
        (moves.Kind.STANDBY, moves.Kind.ACTIVATE, moves.Kind.CHANGE),
    ),
    "a standby fills a number that it has not reserved": Plant(
        a_standby_fills_a_number_that_it_has_not_reserved, "a_generation_is_filled_by_who_reserved_it"
    ),
    "nobody looks at the fence": Plant(nobody_looks_at_the_fence, "a_write_follows_a_look_at_the_fence"),
    "pruning forgets what follows a snapshot": Plant(
        pruning_forgets_what_follows_a_snapshot, "no_retained_snapshot_loses_a_file"
    ),
    "pruning knows the newest checkpoint only": Plant(
        pruning_knows_the_newest_checkpoint_only, "no_retained_snapshot_loses_a_file"
    ),
    "a manifest is written before its files": Plant(
        a_manifest_is_written_before_its_files, "no_retained_snapshot_loses_a_file"
    ),
    "storage looks before it writes": Plant(storage_looks_before_it_writes, "numbers_never_go_back"),
    "the number of a checkpoint is used again": Plant(
        the_number_of_a_checkpoint_is_used_again, "numbers_never_go_back"
    ),
    "half-made generations stay open": Plant(
        half_made_generations_stay_open, "numbers_never_go_back", (moves.Kind.FAULT, moves.Kind.CHANGE)
    ),
    "retention drops the newest checkpoint": Plant(
        retention_drops_the_newest_checkpoint, "the_newest_checkpoints_are_kept"
    ),
    "a failed checkpoint is deleted by its number": Plant(
        a_failed_checkpoint_is_deleted_by_its_number,
        "nobody_deletes_what_a_successor_made",
        (moves.Kind.FAULT, moves.Kind.CHECKPOINT),
    ),
    "a sink forgets what it has shown": Plant(a_sink_forgets_what_it_has_shown, "output_of_a_batch_is_visible_once"),
    "a sink shows batches that no checkpoint covers": Plant(
        a_sink_shows_batches_that_no_checkpoint_covers, "output_is_visible_only_with_its_state"
    ),
    "a start overlooks committed batches": Plant(
        a_start_overlooks_committed_batches, "a_start_goes_on_from_the_newest_state"
    ),
    "a start takes the oldest checkpoint": Plant(
        a_start_takes_the_oldest_checkpoint, "a_start_goes_on_from_the_newest_state"
    ),
    "a claim that was lost counts as won": Plant(
        a_claim_that_was_lost_counts_as_won, "an_epoch_has_one_holder", (moves.Kind.RIVAL,)
    ),
    "the engine has no fence, and nobody looks": Plant(nobody_is_fenced, "who_was_replaced_has_ended"),
    "a checkpoint leaves changelogs out": Plant(
        a_checkpoint_leaves_changelogs_out, "the_job_goes_on", (moves.Kind.AGE,)
    ),
    "a sink that was put back with its state is not sent what it lacks": Plant(
        commits_are_forgotten, "no_row_is_lost_or_repeated_without_a_word", accident="both_restored_to_same_moment"
    ),
    "a commit that comes twice does not find its own marker": Plant(
        a_sink_forgets_what_it_has_shown,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="request_twice",
    ),
    "a sink that lacks batches counts as complete": Plant(
        a_sink_that_lacks_batches_counts_as_complete,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="sink_restored_to_backup",
    ),
    "a sink that is ahead counts as equal": Plant(
        a_sink_that_is_ahead_counts_as_equal,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="store_put_back",
    ),
    "a driver of another copy that has opened a sink under an older epoch is not looked up": Plant(
        an_older_opener_of_a_sink_is_not_looked_up,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="sink_failover_between_two_sites",
    ),
    "a sink that is named stays where it is": Plant(
        a_sink_that_is_named_stays_where_it_is,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="state_went_back",
    ),
    "a sink that is taken back counts as having all that was prepared": Plant(
        a_sink_that_is_taken_back_counts_as_having_all_that_was_prepared,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="state_went_back",
    ),
    "a sink that is named is not sent what was kept for it": Plant(
        a_sink_that_is_named_is_not_sent_what_was_kept_for_it,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="sink_went_back",
    ),
    "a folder that is named leaves out files that it has": Plant(
        a_folder_that_is_named_leaves_out_files_that_it_has,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="sink_went_back",
    ),
    "a right counts at each start": Plant(
        a_right_counts_at_each_start,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="take_over_left_in_two_manifests",
    ),
    "the claim of who opened a sink is not compared": Plant(
        the_claim_of_who_opened_a_sink_is_not_compared,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="both_sites_ran",
    ),
    "a sink without its marker counts as new": Plant(
        a_sink_without_its_marker_counts_as_new,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="sink_marker_lost",
    ),
    "a sink of other state counts as its own": Plant(
        a_sink_of_other_state_counts_as_its_own,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="state_deleted_output_kept",
    ),
    "a driver that ran names the batch that it knows": Plant(
        a_driver_that_ran_names_the_batch_that_it_knows,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="sink_marker_lost",
    ),
    "a root that was moved has no ancestors": Plant(
        a_root_that_was_moved_has_no_ancestors,
        "the_steps_of_a_page_end_with_a_running_job",
        accident="whole_job_moved",
    ),
    "a client deletes what a conflict has committed": Plant(
        a_client_deletes_what_a_conflict_has_committed,
        "no_row_is_lost_or_repeated_without_a_word",
        accident="commit_answered_as_conflict",
    ),
    "every etag counts as an MD5": Plant(
        every_etag_counts_as_an_md5,
        "the_steps_of_a_page_end_with_a_running_job",
        accident="bucket_encrypted_anew",
    ),
    "a sink refuses what its state could send again": Plant(
        a_sink_refuses_what_its_state_could_send_again,
        "the_steps_of_a_page_end_with_a_running_job",
        accident="both_restored_to_same_moment",
    ),
    "commits are forgotten": Plant(commits_are_forgotten, "state_and_output_are_the_truth"),
    "an answer is not expected": Plant(
        an_answer_is_not_expected, "nobody_crashes", (moves.Kind.FAULT, moves.Kind.CHECKPOINT)
    ),
}
