"""A driver that was frozen in a delete or a write wakes when its successor has acted: nothing of the successor is harmed.

The rows of the table in docs/adr/0016-fencing-covers-deletes.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from restores import a_restore
from sinkdrivers import QUERY, Driver, expected, visible
from snapshots import Clock, Job
from snapshotwriters import a_writer, an_order
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs, savepoint, verify
from statefulspark.contract import config, layout
from statefulspark.contract.config import OwnershipMode
from statefulspark.contract.manifest import EpochRecord, OwnerRecord, SnapshotKind, Trigger
from statefulspark.driver.snapshots.snapshot_writer import SnapshotWriter
from statefulspark.driver.status import Identity
from statefulspark.recovery import claims, generations
from statefulspark.retention import pruning, rules
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores
from statefulspark.testing.holding import HoldingStore

BACKUPS = "memory://bucket/backups"
POLICY = rules.PrunePolicy(retained=1, grace=timedelta(seconds=1))


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", Clock())


def the_writer(driver: Driver, location: str | None = None) -> SnapshotWriter:
    """Return what writes a driver's snapshots."""
    job = driver.job
    identity = Identity(
        "flights",
        "default",
        job.epoch,
        driver.plan.generation,
        None,
        driver.clock.now,
        None,
        None,
        driver.plan.descent,
        claim=job.claim_id,
    )
    return a_writer(
        job,
        driver.query,
        identity=identity,
        settings=config.CheckpointConfig(retention=config.RetentionConfig(count=1), prune_delay=timedelta(seconds=1)),
        savepoint_location=location,
        committer=driver.committer,
        announcer=driver.announcer,
    )


def bodies(store: ObjectStore, folder: str) -> dict[str, bytes]:
    return {info.key: store.read(info.key) for info in store.list(folder)}


@pytest.mark.parametrize("operation", ["info", "create"], ids=["before its look at the fence", "in its manifest PUT"])
def test_a_driver_that_lost_a_number_does_not_delete_its_successors_checkpoint(
    bucket: stores.MemoryStore, operation: str
) -> None:
    held = HoldingStore(bucket, operation, "checkpoints/00000001" if operation == "create" else "epochs/00000002")
    old = Driver(held, Clock())
    old.batch(2)
    writer, order = the_writer(old), an_order(1)
    zombie = old.job.bucket.freeze(lambda: writer.complete(order, {QUERY: 1}))  # type: ignore[attr-defined]
    new = Driver(bucket, Clock())
    before = bodies(bucket, "default/flights/checkpoints")

    error = zombie.wake()
    writer.discard(order)

    assert new.plan.restored_from == "checkpoint 1"
    assert isinstance(error, errors.PreconditionFailedError)
    assert bodies(bucket, "default/flights/checkpoints") == before
    assert verify.verify(new.job.store, catalog.read_manifest(new.job.store, layout.checkpoint(1))).ok


def test_a_checkpoint_that_was_given_up_too_late_stays_for_the_successor_that_starts_from_it(
    bucket: stores.MemoryStore,
) -> None:
    """Its answer was lost, so its driver gives it up; it is complete all the same."""
    old = Driver(bucket, Clock())
    old.batch(2)
    writer, order = the_writer(old), an_order(1)
    writer.complete(order, {QUERY: 1})
    new = Driver(bucket, Clock())

    writer.discard(order)

    assert new.plan.restored_from == "checkpoint 1"
    assert Driver(bucket, Clock()).plan.fallback is None


@pytest.mark.parametrize(
    ("operation", "key_part"),
    [
        ("create", "_writer.json"),
        ("copy", "/files/"),
        ("create", "_metadata.json"),
        ("create", "savepoints/00000001.json"),
    ],
    ids=["before its first file", "in its copies", "in its manifest PUT", "before it keeps the number"],
)
def test_a_savepoint_that_a_successor_made_under_the_same_number_survives(
    bucket: stores.MemoryStore, operation: str, key_part: str
) -> None:
    held = HoldingStore(bucket, operation, key_part)
    old = Driver(held, Clock())
    old.batch(2)
    writer, order = the_writer(old, BACKUPS), an_order(1, SnapshotKind.SAVEPOINT)
    old.job.open_store = lambda uri: held.child(uri.removeprefix("memory://bucket").strip("/"))  # type: ignore[method-assign]
    writer = the_writer(old, BACKUPS)
    zombie = held.freeze(lambda: writer.complete(order, {QUERY: 1}))
    new = Driver(bucket, Clock())
    new.job.open_store = lambda uri: bucket.child(uri.removeprefix("memory://bucket").strip("/"))  # type: ignore[method-assign]
    made = [_savepoint_or_error(new, number) for number in (1, 2)]
    complete = {one: bodies(bucket, one.removeprefix("memory://bucket/")) for one in made if isinstance(one, str)}

    zombie.wake()
    writer.discard(order)

    assert complete, made
    for uri, files in complete.items():
        folder = uri.removeprefix("memory://bucket/")
        assert bodies(bucket, folder) == files
        assert verify.verify(bucket, catalog.read_manifest(bucket, folder), root=folder).ok


def _savepoint_or_error(driver: Driver, number: int) -> str | errors.StatefulSparkError:
    order = an_order(number, SnapshotKind.SAVEPOINT)
    try:
        return the_writer(driver, BACKUPS).complete(order, {QUERY: driver.query.batch}).location
    except errors.StatefulSparkError as error:
        return error


def test_a_savepoint_whose_manifest_may_have_been_written_keeps_its_files(bucket: stores.MemoryStore) -> None:
    """The PUT may still arrive; the savepoint would name files that are gone."""
    lost = stores.FaultyStore(bucket, stores.Plan())
    old = Driver(lost, Clock())
    old.batch(2)
    writer, order = the_writer(old), an_order(1, SnapshotKind.SAVEPOINT)
    writer.complete(order, {QUERY: 1})
    manifest = catalog.read_manifest(old.job.store, "savepoints/00000001")
    old.job.store.delete_many(["savepoints/00000001/_metadata.json"])  # It is still under way.

    writer.discard(order)

    assert verify.verify(old.job.store, manifest, root="savepoints/00000001").ok


def test_a_savepoint_that_was_given_up_is_cleaned_up_and_nobody_else_gets_its_folder(
    bucket: stores.MemoryStore,
) -> None:
    """A network delivers the deletions once more, while a successor's savepoint is made or when it is complete."""
    deleted: list[str] = []
    network = NotingStore(bucket, deleted)
    old = Driver(network, Clock())
    old.batch(2)
    writer, order = the_writer(old), an_order(1, SnapshotKind.SAVEPOINT)
    writer.precopy(order, {QUERY: 1})
    assert len(old.job.store.list("savepoints")) > 5

    writer.discard(order)
    left = [info.key for info in old.job.store.list("savepoints")]
    new = Driver(bucket, Clock())
    with pytest.raises(errors.PreconditionFailedError, match="SavepointExists"):
        the_writer(new).complete(an_order(1, SnapshotKind.SAVEPOINT), {QUERY: new.query.batch})
    made = the_writer(new).complete(an_order(2, SnapshotKind.SAVEPOINT), {QUERY: new.query.batch})
    bucket.delete_many(deleted)

    assert left == ["savepoints/00000001/_writer.json"]
    folder = made.location.removeprefix("memory://bucket/")
    assert verify.verify(bucket, catalog.read_manifest(bucket, folder), root=folder).ok


class NotingStore(stores.FaultyStore):
    """A store that notes what is deleted, by its key in the bucket."""

    def __init__(self, wrapped: stores.MemoryStore, deleted: list[str]) -> None:
        super().__init__(wrapped)
        self._memory, self._deleted = wrapped, deleted

    def delete_many(self, keys: Sequence[str]) -> None:
        self._deleted += [f"{self._memory._prefix}/{key}".strip("/") for key in keys]
        super().delete_many(keys)

    def child(self, prefix: str) -> NotingStore:
        return NotingStore(self._memory.child(prefix), self._deleted)


def test_a_driver_that_was_replaced_drops_no_checkpoint(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket, Clock())
    driver.batch()
    driver.checkpoint()
    writer = the_writer(driver)
    Driver(bucket, Clock())

    with pytest.raises(errors.FencedError):
        writer.drop([1])
    assert len(catalog.list_snapshots(driver.job.store)) == 1


@pytest.mark.parametrize(
    ("operation", "key_part"),
    [("info", "epochs/00000002"), ("create", "prune/marks.json"), ("replace", "prune/marks.json")],
    ids=["before its look at the fence", "in its first marks", "in its marks"],
)
def test_a_driver_that_wakes_while_it_prunes_deletes_no_file(
    bucket: stores.MemoryStore, operation: str, key_part: str
) -> None:
    held = HoldingStore(bucket, operation, key_part)
    old = Driver(held, Clock())
    marked = operation == "replace"
    for _ in range(4):
        old.batch()
        old.checkpoint()
        if marked:
            pruning.run(bucket.child("default/flights"), POLICY, old.clock.forward(5))
    zombie = held.freeze(lambda: pruning.run(old.job.store, POLICY, old.clock.forward(5), epoch=1))
    new = Driver(bucket, old.clock)
    new.batch(2)
    new.checkpoint()
    pruning.run(new.job.store, POLICY, old.clock.forward(5), epoch=2)
    before = bodies(bucket, "default/flights")

    error = zombie.wake()

    assert isinstance(error, errors.PreconditionFailedError)
    files = bodies(bucket, "default/flights")
    assert {key: files.get(key) for key in before if "/generations/" in key or "/prune/" in key} == {
        key: body for key, body in before.items() if "/generations/" in key or "/prune/" in key
    }
    assert visible(bucket) == expected((1, 6))


def test_files_that_a_sleeping_pruner_deletes_late_are_needed_by_nobody(bucket: stores.MemoryStore) -> None:
    """Also delivered twice: it had decided under the fence, and names are never used again."""
    held = HoldingStore(bucket, "delete", "/generations/")
    old = Driver(held, Clock())
    for _ in range(4):
        old.batch()
        old.query.upload_snapshots()
        old.checkpoint()
    pruning.run(old.job.store, POLICY, old.clock.forward(5), epoch=1)
    zombie = held.freeze(lambda: pruning.run(old.job.store, POLICY, old.clock.forward(5), epoch=1))
    new = Driver(bucket, old.clock)
    new.batch(2)
    manifest = new.checkpoint()

    zombie.wake()
    held.repeat()

    assert verify.verify(new.job.store, manifest, deep=True).ok
    assert Driver(bucket, old.clock).plan.fallback is None


def test_a_restore_noted_late_does_not_undo_what_the_successor_noted(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket, Clock())
    driver.batch(2)
    place = driver.job.savepoint(driver.query)
    held = HoldingStore(bucket, "replace", "generation.json")
    zombie = held.freeze(lambda: Driver(held, Clock(), a_restore(snapshot=place.uri, nonce="first")))
    Driver(bucket, Clock(), a_restore(snapshot=place.uri, nonce="second"))

    error = zombie.wake()

    assert isinstance(error, errors.PreconditionFailedError)
    current = generations.read_all(driver.job.store).current
    assert current is not None
    assert current.carried_out == ("second",)


def test_a_restore_is_noted_once_however_often_it_is_tried(bucket: stores.MemoryStore) -> None:
    job = Job()
    job.boot()
    record = generations.read_all(job.store).records[0]
    noted = record.model_copy(update={"carried_out": ("a",)})

    for _ in range(2):
        generations.note_restore(job.store, noted, over=record)
    with pytest.raises(errors.PreconditionFailedError, match="plan the start again"):
        generations.note_restore(job.store, record.model_copy(update={"carried_out": ("b",)}), over=record)

    assert generations.read_all(job.store).records == (noted,)


def test_state_taken_over_late_does_not_go_back_to_the_earlier_owner(bucket: stores.MemoryStore) -> None:
    store, held = bucket.child("root"), HoldingStore(bucket, "replace", "owner.json")
    owners = [OwnerRecord(namespace="n", job="j", owner_id=uid, created_at=Clock().now) for uid in ("a", "b", "c")]
    epochs.ensure_owner(store, owners[0])
    zombie = held.freeze(lambda: epochs.ensure_owner(held.child("root"), owners[1], ownership=OwnershipMode.TAKE_OVER))
    epochs.ensure_owner(store, owners[2], ownership=OwnershipMode.TAKE_OVER)

    error = zombie.wake()

    assert isinstance(error, errors.ObjectChangedError)
    assert OwnerRecord.parse(store.read(layout.OWNER), "here").owner_id == "c"


def test_a_number_kept_for_a_savepoint_elsewhere_is_not_given_to_another(bucket: stores.MemoryStore) -> None:
    store = bucket.child("root")
    request = savepoint.SavepointProperties(1, "n", "j", Trigger.MANUAL, 1, 1, Clock().now)
    for place in (savepoint.SavepointTarget(bucket, "one"), savepoint.SavepointTarget(bucket, "one")):
        savepoint.reserve(store, request, place)

    with pytest.raises(errors.PreconditionFailedError):
        savepoint.reserve(store, request, savepoint.SavepointTarget(bucket, "other"))
    assert b"one" in store.read(layout.savepoint_pointer(1))


@pytest.mark.parametrize("since", ["another savepoint took its place", "another job claimed it"])
def test_a_claimed_savepoint_deleted_late_is_only_deleted_as_it_was(bucket: stores.MemoryStore, since: str) -> None:
    driver = Driver(bucket, Clock())
    driver.batch(2)
    driver.job.savepoint(driver.query, location=BACKUPS)
    folder = "backups/default.flights-00000001"
    claims.claim(bucket, folder, root="memory://bucket/one", owner_id="a", now=Clock().now)
    held = HoldingStore(bucket, "delete", "_metadata.json")
    zombie = held.freeze(lambda: claims.delete(held, folder, root="memory://bucket/one"))
    manifest = catalog.read_manifest(bucket, folder)
    newer = manifest.model_copy(update={"epoch": 9})
    bucket.write(f"{folder}/_metadata.json", newer.sealed())
    if since == "another job claimed it":
        bucket.delete_many([f"{folder}/_claim.json"])
        claims.claim(bucket, folder, root="memory://bucket/two", owner_id="b", now=Clock().now)
    before = bodies(bucket, folder)

    zombie.wake()
    claims.delete(bucket, folder, root="memory://bucket/nobody")

    assert bodies(bucket, folder) == before


@pytest.mark.parametrize("operation", ["create", "delete"], ids=["as it closes it off", "as it clears it"])
def test_a_start_that_clears_half_made_generations_late_finds_nothing_of_its_successors(operation: str) -> None:
    """Their numbers are taken for ever."""
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    query.run_batch()
    job.checkpoint(query)
    generations.reserve(job.store, above=1, holder=generations.reservation(1, claim_id="claim", now=job.clock.now))
    job.store.write("generations/00000002/delays/metadata", b"{}")
    held = HoldingStore(job.bucket, operation, "generations/00000002")
    zombie = held.freeze(lambda: job.on(held).boot())
    plan = job.boot(a_restore(snapshot="checkpoint:1"))

    zombie.wake()
    if operation == "delete":
        held.repeat()

    assert plan.generation > 2
    assert verify.verify_queries(job.store, plan.queries, deep=True).ok


def test_a_record_that_a_driver_writes_late_is_outvoted(bucket: stores.MemoryStore) -> None:
    """Records carry their epoch in their name; of two for one batch the newer driver's counts."""
    held = HoldingStore(bucket, "write", "prepared/")
    old = Driver(held, Clock())
    zombie = held.freeze(old.prepare)
    new = Driver(bucket, Clock())
    new.batch()
    manifest = new.checkpoint()

    zombie.wake()
    held.repeat()
    again = Driver(bucket, Clock())

    assert [entry.path for entry in manifest.queries[0].prepared] == ["prepared/out/00000000-00000002.json"]
    assert again.plan.fallback is None
    assert visible(bucket) == expected((1, 1))


def test_an_epoch_claimed_late_takes_nothing_away(bucket: stores.MemoryStore) -> None:
    held = HoldingStore(bucket, "create", "epochs/00000001")
    zombie = held.freeze(lambda: Job().on(held).boot())
    job = Job().on(bucket)
    job.boot()

    zombie.wake()

    assert epochs.newest(job.store) == 2
    assert replace(job).epoch == 1
    assert EpochRecord.parse(job.store.read(layout.epoch(1)), "here").epoch == 1


def test_the_number_of_a_savepoint_elsewhere_whose_driver_died_is_not_given_away_again(
    bucket: stores.MemoryStore,
) -> None:
    """Else its folder would be in the way of the next one."""
    dying = stores.FaultyStore(bucket, stores.Plan(crash_before=2, only=frozenset({"copy"})))
    old = Driver(dying, Clock())
    old.batch(2)
    with pytest.raises(stores.CrashPoint):
        the_writer(old, BACKUPS).complete(an_order(1, SnapshotKind.SAVEPOINT), {QUERY: 1})

    new = Driver(bucket, Clock())

    assert isinstance(_savepoint_or_error(new, new.plan.next_snapshot_id), str)


def test_a_savepoint_that_a_successor_is_still_copying_keeps_its_files(bucket: stores.MemoryStore) -> None:
    """The folder has no manifest yet, and is not the sleeper's."""
    held = HoldingStore(bucket, "create", "_writer.json")
    old = Driver(held, Clock())
    old.batch(2)
    sleeping, order = the_writer(old), an_order(1, SnapshotKind.SAVEPOINT)
    zombie = held.freeze(lambda: sleeping.precopy(order, {QUERY: 1}))
    new = Driver(bucket, Clock())
    awake, same = the_writer(new), an_order(1, SnapshotKind.SAVEPOINT)
    awake.precopy(same, {QUERY: 1})
    before = bodies(bucket, "default/flights/savepoints")

    error = zombie.wake()
    sleeping.discard(order)

    assert isinstance(error, errors.PreconditionFailedError)
    assert bodies(bucket, "default/flights/savepoints") == before
    assert awake.complete(same, {QUERY: 1}).location.endswith("savepoints/00000001")
