"""Rows that wait for their commit are files of the cut: named, copied, restored, checked and kept with it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from restores import a_restore
from sinkdrivers import QUERY, ROWS, Driver
from snapshots import Clock
from statefulspark import errors
from statefulspark.canonical import skeleton
from statefulspark.checkpoint import catalog, closure, verify
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest
from statefulspark.evolution import rewrite
from statefulspark.recovery.plan import StartMode
from statefulspark.retention import pruning, rules
from statefulspark.storage import StorageOptions
from statefulspark.storage.local_store import LocalStore
from statefulspark.storage.port import ObjectInfo, ObjectStore
from toldsinks import StagedSink

_wishes = itertools.count(1)
POLICY = rules.PrunePolicy(retained=1, grace=timedelta(seconds=1))


@pytest.fixture
def bucket(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def start(bucket: ObjectStore, sink: StagedSink, snapshot: str | None = None, *, root: str = "") -> Driver:
    restore = a_restore(snapshot=snapshot, nonce=f"wish-{next(_wishes)}") if snapshot else None
    options = StorageOptions(allow_local_files=True)
    return Driver(bucket, Clock(), restore, sink=sink, root=root, options=options)


def values(batches: int) -> list[int]:
    return list(range(batches * ROWS))


def staged(driver: Driver) -> dict[int, list[str]]:
    """Return the files with staged rows in the driver's generation, by batch."""
    found: dict[int, list[str]] = {}
    for info in driver.job.store.list(f"{driver.query.path}/{layout.STAGED}"):
        key = info.key.removeprefix(f"{driver.query.path}/")
        batch = layout.staged_batch(key)
        assert batch is not None
        found.setdefault(batch, []).append(key)
    return found


def batches_held(manifest: Manifest) -> list[int]:
    """Return the batches whose staged rows a snapshot has."""
    paths = (layout.staged_batch(file.path) for query in manifest.queries for file in query.files)
    return [batch for batch in paths if batch is not None]


def test_a_snapshot_names_what_was_committed_since_the_one_before_it(bucket: LocalStore) -> None:
    """So that a sink that loses what came between two checkpoints gets it again."""
    driver = start(bucket, StagedSink())
    held = []
    for _ in range(4):
        driver.batch(2)
        held.append(driver.checkpoint())

    assert [batches_held(one) for one in held] == [[0, 1], [0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert [[entry.batch_id for entry in one.queries[0].prepared] for one in held] == [
        batches_held(one) for one in held
    ]


def test_a_sink_that_shows_batches_has_those_since_the_last_checkpoint_named(bucket: LocalStore) -> None:
    driver = start(bucket, StagedSink(visible="batch"))
    held = []
    for _ in range(3):
        for _ in range(2):
            driver.batch()
            driver.show()
        held.append(driver.checkpoint())

    assert [batches_held(one) for one in held] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("visible", ["checkpoint", "batch"])
def test_what_a_sink_lost_since_the_last_checkpoint_is_committed_again_by_the_next_start(
    bucket: LocalStore, visible: str
) -> None:
    sink = StagedSink(visible=visible)
    driver = start(bucket, sink)
    driver.batch(2)
    driver.show()
    driver.checkpoint()
    before = sink.backup()
    driver.batch(2)
    driver.show()
    driver.checkpoint()
    lost = StagedSink(visible=visible, marker=before.marker, shown=before.shown, values=before.values)

    start(bucket, lost)

    assert lost.values == values(4) == sink.values


def test_the_window_outlives_a_restart(bucket: LocalStore) -> None:
    """What the dead driver's last checkpoint names is named by the first one of its successor too."""
    driver = start(bucket, StagedSink())
    for _ in range(3):
        driver.batch()
        driver.checkpoint()

    successor = start(bucket, StagedSink(marker=driver.sink.sink.marker))  # type: ignore[attr-defined]
    successor.batch()

    assert batches_held(successor.checkpoint()) == [1, 2, 3]


def test_a_completion_that_was_missed_names_nothing_less(bucket: LocalStore) -> None:
    driver = start(bucket, StagedSink())
    driver.batch()
    driver.checkpoint()
    driver.batch()
    missed = driver.complete()
    driver.announcer.forget(missed.id)
    driver.announce(missed.id)
    driver.batch()

    assert batches_held(driver.checkpoint()) == [0, 1, 2]


def test_a_savepoint_of_a_running_job_and_a_backup_of_its_target_are_started_together(bucket: LocalStore) -> None:
    """A.148: the job's own folder is gone, and with it all that it had staged."""
    sink = StagedSink()
    driver = start(bucket, sink)
    driver.batch(2)
    driver.checkpoint()
    driver.batch(2)
    savepoint, backup = driver.savepoint(), sink.backup()
    for _ in range(10):
        driver.batch()
        driver.checkpoint()
        pruning.run(driver.job.store, POLICY, driver.clock.forward(5))
    for folder in (layout.GENERATIONS, layout.CHECKPOINTS):
        driver.job.store.delete_many([info.key for info in driver.job.store.list(folder)])

    again = start(bucket, backup, savepoint, root="elsewhere")
    taken = list(backup.values)
    again.batch()
    again.checkpoint()

    assert taken == values(4)
    assert backup.values == values(5)


def test_forward_again_what_the_left_future_had_prepared_is_there(bucket: LocalStore) -> None:
    sink = StagedSink()
    driver = start(bucket, sink)
    driver.batch()
    old = driver.checkpoint()
    driver.batch(2)
    savepoint = driver.savepoint()
    back = start(bucket, sink, f"checkpoint:{old.id}")
    back.batch()
    back.checkpoint()
    pruning.run(back.job.store, POLICY, back.clock.forward(5))
    pruning.run(back.job.store, POLICY, back.clock.forward(5))

    forward = start(bucket, sink, savepoint)

    assert sorted(staged(forward)) == [0, 1, 2]
    assert sink.shown == ["1/0", "2/1", "1/1", "1/2"], "each history has its rows"
    assert verify.verify_queries(forward.job.store, forward.plan.queries, deep=True).ok


def test_rows_are_kept_while_a_checkpoint_names_them_or_the_driver_may_need_them(bucket: LocalStore) -> None:
    driver = start(bucket, StagedSink())
    for _ in range(5):
        driver.batch()
        driver.checkpoint()
        pruning.run(driver.job.store, POLICY, driver.clock.forward(5))
        driver.batch()
    waiting = driver.prepare()

    pruning.run(driver.job.store, POLICY, driver.clock.forward(5))

    assert sorted(staged(driver)) == [5, 6, 7, 8, 9, waiting], (
        "those after batch 4, which was committed one checkpoint ago"
    )


def test_an_attempt_that_nobody_recorded_is_pruned_once_a_checkpoint_covers_its_batch(bucket: LocalStore) -> None:
    driver = start(bucket, StagedSink())
    driver.batch()
    driver.checkpoint()
    context = driver.sink.context(1)
    driver.sink.sink.write_part(driver.rows(1, 1), context)  # A task that was repeated.
    driver.batch()
    twice = [len(files) for files in staged(driver).values()]
    for _ in range(2):
        pruning.run(driver.job.store, POLICY, driver.clock.forward(5))
    kept = [len(files) for files in staged(driver).values()]
    driver.checkpoint()
    for _ in range(2):
        pruning.run(driver.job.store, POLICY, driver.clock.forward(5))

    assert (twice, kept) == ([1, 2], [1, 2])
    assert [len(files) for files in staged(driver).values()] == [1, 1]


class HidesRows(LocalStore):
    """Lists no staged rows."""

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        return tuple(info for info in super().list(prefix) if f"/{layout.STAGED}/" not in info.key)


def test_a_file_that_only_a_listing_hides_is_named(bucket: LocalStore, tmp_path: Path) -> None:
    driver = start(bucket, StagedSink())
    driver.batch(2)

    entry = closure.close_over(HidesRows(str(tmp_path / "default/flights")), driver.query.path, 1)

    assert [path for path in (file.path for file in entry.files) if path.startswith(f"{layout.STAGED}/")] == [
        path for files in staged(driver).values() for path in files
    ]


def remove(driver: Driver, batch: int) -> str:
    (path,) = staged(driver)[batch]
    driver.job.store.delete_many([f"{driver.query.path}/{path}"])
    return path


def test_a_checkpoint_without_the_rows_that_a_transaction_names_does_not_complete(bucket: LocalStore) -> None:
    driver = start(bucket, StagedSink())
    driver.batch(2)
    path = remove(driver, 1)

    with pytest.raises(errors.SnapshotCorruptError, match=f"ClosureIncomplete.*{path} does not exist"):
        driver.complete()


@pytest.mark.parametrize("is_covered", [True, False], ids=["of a checkpoint", "of batches after it"])
def test_a_start_does_not_go_on_from_batches_whose_rows_are_lost(bucket: LocalStore, *, is_covered: bool) -> None:
    sink = StagedSink()
    driver = start(bucket, sink)
    driver.batch()
    driver.checkpoint()
    driver.batch()
    if is_covered:
        driver.complete()
    path = remove(driver, 1)

    again = start(bucket, sink)
    again.batch()
    again.checkpoint()

    assert (again.plan.mode, again.plan.restored_from) == (StartMode.COPY, "checkpoint 1")
    assert path in (again.plan.fallback or "")
    assert sink.values == values(2)


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("hurt", [Path.unlink, damaged], ids=["lost", "cut off"])
def test_verify_names_staged_rows_that_are_lost_or_damaged(
    bucket: LocalStore, tmp_path: Path, hurt: Callable[[Path], None]
) -> None:
    driver = start(bucket, StagedSink())
    driver.batch()
    location = driver.savepoint()
    folder = location.removeprefix(f"{driver.job.store.uri}/")
    (path,) = staged(driver)[0]
    hurt(tmp_path / f"default/flights/{folder}/files/{QUERY}/{path}")

    manifest = catalog.read_manifest(driver.job.store, folder)
    report = verify.verify(driver.job.store, manifest, root=folder)

    assert path in report.sentence


def test_a_canonical_savepoint_and_a_changed_plan_have_the_same_staged_rows(bucket: LocalStore) -> None:
    driver = start(bucket, StagedSink())
    driver.batch()
    entry = closure.close_over(driver.job.store, driver.query.path, 0)
    (path,) = staged(driver)[0]

    assert skeleton.is_copied_unchanged(entry, path)
    assert path in {new for _, new in rewrite.files_to_copy(entry, rewrite.Rewrite({}, (), {}))}
