"""Pruning: what a retained checkpoint or the running driver needs stays, the rest goes, and storage is bounded."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from restores import a_restore
from snapshots import Clock, Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, closure, epochs, verify
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest
from statefulspark.recovery import generations
from statefulspark.retention import pruning, rules
from statefulspark.testing import stores

GRACE_S = 60
POLICY = rules.PrunePolicy(retained=2, grace=timedelta(seconds=GRACE_S))


def a_long_history(job: Job, checkpoints: int = 5) -> FakeQuery:
    """Run two batches per checkpoint, with a state snapshot at each; a minute passes each time."""
    query = job.running()
    for _ in range(checkpoints):
        query.run_batch(failed_attempts=1)
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query)
        job.clock.forward(2 * GRACE_S)
    return query


def prune_thoroughly(job: Job) -> rules.PrunePlan:
    pruning.run(job.store, POLICY, job.clock.now)
    return pruning.run(job.store, POLICY, job.clock.forward(GRACE_S))


def manifests(job: Job) -> tuple[Manifest, ...]:
    return tuple(catalog.read_manifest(job.store, ref.folder) for ref in catalog.list_snapshots(job.store))


def test_pruning_again_at_once_changes_nothing(job: Job) -> None:
    a_long_history(job)
    prune_thoroughly(job)
    before = job.store.list("")

    again = pruning.run(job.store, POLICY, job.clock.now)

    assert (again.delete_checkpoints, again.delete_files, dict(again.marks)) == ((), (), {})
    assert job.store.list("") == before


def test_files_of_attempts_that_lost_are_deleted_in_the_end(job: Job) -> None:
    query = a_long_history(job)
    prune_thoroughly(job)
    winners = {unique_id for ids in query.ids.values() for row in ids["0"] for unique_id in row}

    changelogs = [info.key for info in job.store.list(query.path) if info.key.endswith(".changelog")]

    assert all(key.rsplit("_", 1)[1].removesuffix(".changelog") in winners for key in changelogs)


def test_a_state_snapshot_uploaded_late_stays_for_the_next_checkpoint(job: Job) -> None:
    query = job.running()
    for _ in range(4):
        query.run_batch()
    job.checkpoint(query)
    query.upload_snapshots(2)
    job.clock.forward(10 * GRACE_S)
    prune_thoroughly(job)
    query.run_batch()

    manifest = job.checkpoint(query)

    assert verify.verify(job.store, manifest, deep=True).ok
    assert any("/3_" in f"/{file.path}" and file.path.endswith(".zip") for file in manifest.queries[0].files)


def test_a_start_finds_a_retained_checkpoint_behind_a_generation_without_any(job: Job) -> None:
    """Pruning deleted the record of that generation, and nothing else tells that the next one descends from the first."""
    tried = job.checkpoint(job.running(2))
    for _ in range(4):
        plan = job.boot(changes=("another plan",))
        query = FakeQuery(job.store, plan.generation, batch=plan.start_batches["delays"])
        job.checkpoint(query, untried=("delays",))
    job.clock.forward(2 * rules.LEFT_BEHIND_FOR.total_seconds())
    query.run_batch()
    job.checkpoint(query, untried=("delays",))
    prune_thoroughly(job)
    assert [manifest.id for manifest in manifests(job)] == [6, 5, tried.id]
    for manifest in manifests(job)[:2]:
        job.store.delete_many([f"{manifest.queries[0].path}/commits/{number}" for number in (1, 2)])

    again = job.boot()

    assert again.restored_from == tried.label


def test_an_upload_that_takes_longer_than_the_grace_time_loses_nothing(job: Job) -> None:
    query = a_long_history(job)
    query.run_batch()
    query.upload_ssts(query.batch)
    for _ in range(4):
        job.clock.forward(2 * GRACE_S)
        query.run_batch()
        job.checkpoint(query)
        prune_thoroughly(job)
    query.finish_upload(query.batch - 4)

    manifest = job.checkpoint(query)

    assert verify.verify(job.store, manifest).ok
    assert {f"{query.batch - 3}"} == {
        file.path.rsplit("/", 1)[1].split("_")[0] for file in manifest.queries[0].files if file.path.endswith(".zip")
    }


def test_what_a_savepoint_is_copying_stays(job: Job) -> None:
    query = job.running()
    query.run_batch()
    pinned = closure.close_over(job.store, query.path, 0)
    for _ in range(4):
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query)
        job.clock.forward(2 * GRACE_S)

    for _ in range(2):
        pruning.run(job.store, POLICY, job.clock.forward(GRACE_S), pinned=[pinned])

    assert verify.verify_queries(job.store, [pinned]).ok


def test_the_newest_checkpoint_stays_whatever_its_age(job: Job) -> None:
    a_long_history(job)
    policy = rules.PrunePolicy(retained=3, grace=POLICY.grace, max_age=timedelta(seconds=1))

    pruning.run(job.store, policy, job.clock.forward(1e6))

    assert [manifest.id for manifest in manifests(job)] == [5]


def test_a_checkpoint_that_cannot_be_read_keeps_every_file(job: Job) -> None:
    a_long_history(job)
    pruning.run(job.store, rules.PrunePolicy(retained=3), job.clock.now)
    job.store.write(layout.checkpoint_manifest(4), b"{")

    plan = prune_thoroughly(job)

    assert plan.delete_files == ()
    assert any("cannot be read" in line for line in plan.lines)


def test_savepoints_and_epochs_are_never_touched(job: Job) -> None:
    a_long_history(job)
    job.store.write("savepoints/00000009-mine/files/delays/metadata", b"{}")
    job.store.write("epochs/00000001.json", b"{}")

    prune_thoroughly(job)

    assert job.store.info("savepoints/00000009-mine/files/delays/metadata") is not None
    assert job.store.info("epochs/00000001.json") is not None


def test_a_dry_run_says_what_and_why_and_writes_nothing(job: Job) -> None:
    a_long_history(job)
    before = job.store.list("")

    lines = pruning.plan(job.store, POLICY, job.clock.now).lines

    assert job.store.list("") == before
    assert any(line.startswith("delete checkpoints/00000001/_metadata.json: ") for line in lines)
    assert any(line.startswith("mark generations/00000001/delays/") for line in lines)
    assert any(line.startswith("keep ") and "retained checkpoint" in line for line in lines)


@pytest.mark.parametrize("number", range(1, 30))
def test_a_pruner_that_dies_at_any_point_leaves_files_too_many_and_never_too_few(job: Job, number: int) -> None:
    a_long_history(job)
    pruning.run(job.store, POLICY, job.clock.now)
    dying = stores.FaultyStore(job.store, stores.Plan(crash_after=number, only=frozenset({"write", "delete"})))
    try:
        pruning.run(dying, POLICY, job.clock.forward(GRACE_S))
    except stores.CrashPoint:
        prune_thoroughly(job)

    assert all(verify.verify(job.store, manifest, deep=True).ok for manifest in manifests(job))


@settings(max_examples=10)
@given(rounds=st.integers(12, 40))
def test_storage_is_bounded_however_long_the_job_runs(rounds: int) -> None:
    job = Job(Clock())
    query = FakeQuery(job.store, job.start().generation)
    sizes = []
    for _ in range(rounds):
        query.run_batch(failed_attempts=1)
        query.upload_snapshots()
        job.checkpoint(query)
        job.clock.forward(GRACE_S)
        pruning.run(job.store, POLICY, job.clock.now)
        sizes.append(len(job.store.list("")))

    assert max(sizes[8:]) <= sizes[8] + 4


def a_standby_that_is_gone(job: Job, query: FakeQuery) -> int:
    """Let a standby reserve a generation and copy a file, and the job go on for long after that."""
    holder = generations.reservation_of_standby("standby 1", 1, claim_id="one", now=job.clock.now)
    number = generations.reserve(job.store, above=query.generation, holder=holder)
    copied = next(info.key for info in job.store.list(f"{query.path}/state"))
    job.store.copy_many([(copied, copied.replace("00000001", f"{number:08d}"))])
    job.clock.forward(2 * rules.STANDBY_SILENCE.total_seconds())
    query.run_batch()
    job.checkpoint(query)
    return number


def test_what_a_standby_that_is_gone_has_carried_ahead_is_removed_in_the_end(job: Job) -> None:
    number = a_standby_that_is_gone(job, a_long_history(job))

    first = pruning.run(job.store, POLICY, job.clock.now, epoch=1)
    prune_thoroughly(job)

    assert first.close_off == (number,)
    assert [info.key for info in job.store.list(layout.generation(number))] == [
        layout.generation_record(number),
        layout.generation_reservation(number),
    ]
    assert generations.read_all(job.store).abandoned == {number}


def test_a_generation_whose_reservation_cannot_be_read_is_left_to_the_next_start(job: Job) -> None:
    query = a_long_history(job)
    number = a_standby_that_is_gone(job, query)
    job.store.write(layout.generation_reservation(number), b"{")
    job.clock.forward(2 * rules.STANDBY_SILENCE.total_seconds())
    query.run_batch()

    assert pruning.run(job.store, POLICY, job.clock.now, epoch=1).close_off == ()


def test_a_driver_that_was_replaced_closes_nothing_off(job: Job) -> None:
    number = a_standby_that_is_gone(job, a_long_history(job))
    epochs.claim(job.store, assigned=2, holder="pod", claim_id="two", now=job.clock.now)

    with pytest.raises(errors.FencedError):
        pruning.run(job.store, POLICY, job.clock.now, epoch=1)

    assert generations.read_all(job.store).unfinished == (number,)


@pytest.mark.parametrize("fresh", [True, False], ids=["empty state", "an older checkpoint"])
def test_the_state_that_a_restore_has_left_is_whole_for_a_day(job: Job, fresh: bool) -> None:
    """It was deleted 90 seconds later, with the third checkpoint of ten seconds and a grace of a minute."""
    query = job.running(2)
    job.checkpoint(query)
    query.run_batch()
    left = job.checkpoint(query)
    job.boot(a_restore(empty=True, nonce="hash") if fresh else a_restore(snapshot="checkpoint:1", nonce="hash"))

    def live(seconds: int) -> None:
        plan = job.boot()
        query = FakeQuery(job.store, plan.generation, batch=plan.start_batches.get("delays", -1))
        for _ in range(4):
            job.clock.forward(seconds / 4)
            query.run_batch()
            query.upload_snapshots()
            job.checkpoint(query)
            pruning.run(job.store, rules.PrunePolicy(retained=1, max_age=timedelta(0)), job.clock.now)

    live(90)
    whole = verify.verify(job.store, catalog.read_manifest(job.store, layout.checkpoint(left.id)), deep=True)
    live(24 * 3600)
    live(90)

    assert whole.ok
    assert job.store.list(layout.checkpoint(left.id)) == ()
    assert not [info.key for info in job.store.list("generations/00000001/delays/commits")]


LEFT = f"{layout.SAVEPOINTS}/00000009-mine"
LEFT_FILE, LEFT_MANIFEST = f"{LEFT}/files/delays/metadata", layout.snapshot_manifest(LEFT)


def with_a_savepoint_left_by_a_dead_driver(job: Job) -> Manifest:
    """Let a driver die while it copies a savepoint, and another one start; return a manifest for it."""
    a_long_history(job)
    job.store.write(LEFT_FILE, b"{}")
    job.clock.forward(1)
    job.boot()
    return manifests(job)[0]


def test_a_request_that_arrives_late_does_not_complete_a_savepoint_whose_files_are_pruned(job: Job) -> None:
    late = with_a_savepoint_left_by_a_dead_driver(job)

    prune_thoroughly(job)

    assert job.store.info(LEFT_FILE) is None
    with pytest.raises(errors.PreconditionFailedError):
        catalog.write_manifest(job.store, LEFT, late)
    assert LEFT in catalog.list_all(job.store).unfinished
    assert LEFT not in {ref.folder for ref in catalog.list_snapshots(job.store)}
    again = prune_thoroughly(job)
    assert again.delete_files == ()


def test_a_savepoint_that_is_completed_meanwhile_keeps_its_files(job: Job) -> None:
    late = with_a_savepoint_left_by_a_dead_driver(job)
    pruning.run(job.store, POLICY, job.clock.now)
    planned = pruning.plan(job.store, POLICY, job.clock.forward(GRACE_S))
    assert LEFT_FILE in planned.delete_files
    catalog.write_manifest(job.store, LEFT, late)

    pruning.carry_out(job.store, planned, job.clock.now)
    pruning.delete_files(job.store, planned.delete_files)

    assert job.store.info(LEFT_FILE) is not None


def test_a_pruning_that_died_after_it_gave_a_savepoint_up_is_ended_by_the_next(job: Job) -> None:
    with_a_savepoint_left_by_a_dead_driver(job)
    assert catalog.give_up(job.store, LEFT)

    prune_thoroughly(job)

    assert job.store.info(LEFT_FILE) is None
    info = job.store.info(LEFT_MANIFEST)
    assert info is not None
    assert info.size_bytes == 0


@pytest.mark.parametrize("folder", ["20261201", "20261201-nightly"])
def test_savepoints_in_a_folder_whose_name_is_a_date_stay(job: Job, folder: str) -> None:
    query = a_long_history(job)
    target = job.savepoint(query, location=f"{job.store.uri}/savepoints/{folder}")
    report = verify.verify(job.store, catalog.read_manifest(target.store, target.folder), root=target.folder)
    assert report.ok
    job.store.write(f"savepoints/{folder}/notes.txt", b"of a person")
    job.clock.forward(1)
    job.boot()

    prune_thoroughly(job)

    manifest = catalog.read_manifest(target.store, target.folder)
    assert verify.verify(job.store, manifest, root=target.folder).ok
    assert job.store.info(f"savepoints/{folder}/notes.txt") is not None
