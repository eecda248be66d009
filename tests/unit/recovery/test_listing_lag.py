"""Listings that lag behind writes lead to no wrong decision: nothing is lost, repeated, overwritten or deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from restores import a_restore
from snapshots import Job, a_manifest
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, closure, epochs, verify
from statefulspark.contract import layout
from statefulspark.contract.manifest import FileEntry
from statefulspark.recovery.plan import StartMode
from statefulspark.retention import pruning, rules
from statefulspark.testing import lagging, stores

FOR_EVER = 10**9
POLICY = rules.PrunePolicy(retained=2, grace=timedelta(seconds=60))


@dataclass
class Lagging:
    """A job on a store whose listings lag, and its query."""

    job: Job
    query: FakeQuery
    bucket: lagging.LaggingStore


def a_lagging_job(lag: int = FOR_EVER, batches: int = 3) -> Lagging:
    real = Job()
    bucket = lagging.LaggingStore(real.bucket, lag)
    job = real.on(bucket)
    query = FakeQuery(job.store, job.boot().generation)
    for _ in range(batches):
        query.run_batch()
    return Lagging(job, query, bucket)


def test_a_batch_is_closed_over_although_no_file_of_it_is_listed() -> None:
    world = a_lagging_job()
    world.query.upload_snapshots()

    entry = closure.close_over(world.job.store, world.query.path, 2)

    world.bucket.catch_up()
    assert verify.verify_queries(world.job.store, [entry], deep=True).ok
    assert {"offsets/2", "commits/2"} < {file.path for file in entry.files}


def test_the_log_of_a_file_source_is_found_down_to_its_compact_file() -> None:
    world = a_lagging_job()
    for name in ("sources/0/2.compact", "sources/0/3", "sources/0/4"):
        world.job.store.write(f"{world.query.path}/{name}", b"v1\n{}")
    world.job.store.write(f"{world.query.path}/offsets/2", b'v1\n{}\n{"logOffset":4}')

    entry = closure.close_over(world.job.store, world.query.path, 2)

    paths = {file.path for file in entry.files}
    assert {"sources/0/2.compact", "sources/0/3", "sources/0/4"} < paths


def test_what_is_really_missing_is_still_missing() -> None:
    world = a_lagging_job()
    doomed = next(info.key for info in world.bucket.wrapped.list("") if "/3_" in info.key and info.key[-1] != "c")
    world.bucket.wrapped.delete_many([doomed])

    with pytest.raises(errors.SnapshotCorruptError, match="3_"):
        closure.close_over(world.job.store, world.query.path, 2)


def test_a_complete_snapshot_that_is_not_listed_verifies() -> None:
    world = a_lagging_job()

    manifest = world.job.checkpoint(world.query)

    assert verify.verify(world.job.store, manifest, deep=True).ok


@pytest.mark.parametrize("given_up", [1, 2, 7])
def test_a_number_that_was_given_up_does_not_hide_the_checkpoints_after_it(given_up: int) -> None:
    """The next checkpoint got that number, and the one after it failed since its own was taken."""
    world = a_lagging_job()
    world.job.checkpoint(world.query)
    world.query.run_batch()
    entry = closure.close_over(world.job.store, world.query.path, world.query.batch)
    taken = 2 + given_up
    catalog.write_checkpoint(world.job.store, a_manifest(taken, [entry], claim=world.job.claim_id))

    plan = world.job.boot()

    assert (plan.restored_from, plan.next_snapshot_id) == (f"checkpoint {taken}", taken + 1)
    assert plan.checkpoint_ids == (1, taken)


def test_a_savepoints_number_does_not_hide_the_checkpoints_after_it() -> None:
    world = a_lagging_job()
    world.job.checkpoint(world.query)
    world.bucket.catch_up()
    world.job.savepoint(world.query)
    entry = closure.close_over(world.job.store, world.query.path, world.query.batch)
    catalog.write_checkpoint(world.job.store, a_manifest(3, [entry], claim=world.job.claim_id))

    assert world.job.boot().next_snapshot_id == 4


def test_committed_batches_that_are_not_listed_are_salvaged() -> None:
    world = a_lagging_job()
    world.job.checkpoint(world.query)
    world.query.run_batch()

    plan = world.job.boot()

    assert (plan.mode, dict(plan.start_batches)) == (StartMode.CONTINUE, {"delays": 3})
    assert catalog.read_manifest(world.job.store, layout.checkpoint(2)).queries[0].batch_id == 3


def test_a_generation_that_is_not_listed_is_the_one_in_use() -> None:
    world = a_lagging_job()
    world.job.checkpoint(world.query)
    world.bucket.catch_up()
    world.query.run_batch()
    world.job.checkpoint(world.query)
    restored = world.job.boot(a_restore(snapshot="checkpoint:1"))

    again = world.job.boot()

    assert restored.generation == again.generation == 2
    assert dict(again.start_batches) == {"delays": 2}


def test_a_job_of_which_nothing_is_listed_never_starts_empty() -> None:
    world = a_lagging_job()

    plan = world.job.boot()

    assert (plan.mode, plan.generation) == (StartMode.CONTINUE, 1)


def test_epochs_that_are_not_listed_are_claimed_no_second_time_and_fence() -> None:
    world = a_lagging_job()
    first = world.job.epoch

    world.job.boot()

    assert world.job.epoch == first + 1
    with pytest.raises(errors.FencedError):
        epochs.require_current(world.job.store, first)


def test_a_savepoint_that_is_not_listed_is_never_overwritten() -> None:
    world = a_lagging_job()
    place = world.job.savepoint(world.query)
    before = world.bucket.wrapped.list("")
    world.query.run_batch()

    with pytest.raises(errors.PreconditionFailedError) as raised:
        world.job.savepoint(world.query)

    assert raised.value.reason == "SavepointExists"
    after = {info.key: info.etag for info in world.bucket.wrapped.list("")}
    assert {info.key: info.etag for info in before}.items() <= after.items()
    assert verify.verify(world.job.store, catalog.read_manifest(world.job.store, place.folder), root=place.folder).ok


@pytest.mark.parametrize("lag", [0, 7, 40, 200, FOR_EVER])
def test_a_life_with_lagging_listings_loses_nothing(lag: int) -> None:
    world = a_lagging_job(lag, batches=1)
    for round_number in range(12):
        _one_round(world, round_number)

    assert_everything_is_there(world)


@settings(max_examples=15)
@given(lag=st.integers(0, 300), rounds=st.lists(st.integers(0, 11), max_size=12))
def test_any_life_with_any_lag_loses_nothing(lag: int, rounds: list[int]) -> None:
    world = a_lagging_job(lag, batches=1)
    for number in rounds:
        _one_round(world, number)
        assert_everything_is_there(world)


def _one_round(world: Lagging, number: int) -> None:
    """Run a batch and a checkpoint, and then a prune, a crash or a restore as the number says."""
    world.query.run_batch(failed_attempts=number % 2)
    if number % 3 == 0:
        world.query.upload_snapshots()
    try:
        world.job.checkpoint(world.query)
    except errors.SnapshotCorruptError:
        return  # The coordinator counts it as failed and tries again later, when the listing has caught up.
    except errors.PreconditionFailedError:
        # The number was taken by a checkpoint that is not listed; the coordinator aborts this one and counts on.
        assert world.job.boot().start_batches == {"delays": world.query.batch}
    world.job.clock.forward(70)
    pruning.run(world.job.store, POLICY, world.job.clock.now)
    if number % 4 == 3:
        plan = world.job.boot()
        assert (plan.generation, dict(plan.start_batches)) == (world.query.generation, {"delays": world.query.batch})
    if number == 5:
        world.bucket.catch_up()
        newest = catalog.list_snapshots(world.job.store)[0]
        plan = world.job.boot(a_restore(snapshot=f"checkpoint:{newest.id}", nonce=str(world.job.epoch)))
        world.query = world.query.continue_in(plan.generation, plan.start_batches["delays"])


def assert_everything_is_there(world: Lagging) -> None:
    """Every retained checkpoint verifies, and the newest batch can be closed over."""
    store = world.bucket.wrapped.child("default/flights")
    for ref in catalog.list_snapshots(store):
        report = verify.verify(store, catalog.read_manifest(store, ref.folder))
        assert report.ok, report.sentence
    closure.close_over(store, world.query.path, world.query.batch)


def test_of_very_many_missing_files_some_are_looked_up_and_the_listing_is_believed_about_the_rest() -> None:
    world = a_lagging_job(lag=0)
    entry = closure.close_over(world.job.store, world.query.path, 2)
    missing = tuple(FileEntry(path=f"state/0/0/{number}_x.changelog", size_bytes=1) for number in range(500))
    store = stores.FaultyStore(world.job.store)

    report = verify.verify_queries(store, [entry.model_copy(update={"files": (*entry.files, *missing)})])

    assert len(report.problems) == len(missing)
    assert len([one for one in store.operations if one.name == "info"]) <= 32
