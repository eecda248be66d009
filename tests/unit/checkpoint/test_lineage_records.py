"""Which root state belongs to, and what it descends from: kept by recovery, new wherever the root is somewhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sinkdrivers import Driver
from snapshots import Clock
from statefulspark import doctor
from statefulspark.checkpoint import catalog, lineage_records
from statefulspark.contract import layout
from statefulspark.contract.manifest import Ancestor
from statefulspark.recovery import generations
from statefulspark.retention import rules
from statefulspark.testing import stores


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bucket(clock: Clock) -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", clock)


def a_driver_with_a_checkpoint(bucket: stores.MemoryStore, clock: Clock, root: str = "") -> Driver:
    driver = Driver(bucket, clock, root=root)
    driver.batch(2)
    driver.checkpoint()
    return driver


def lineage_of(driver: Driver) -> str:
    assert driver.plan.descent is not None
    assert driver.plan.descent.lineage is not None
    return driver.plan.descent.lineage


def copied(bucket: stores.MemoryStore, root: str) -> None:
    bucket.copy_many([(info.key, f"{root}/{info.key}") for info in bucket.list("default")])


def test_a_root_keeps_its_lineage_from_start_to_start(bucket: stores.MemoryStore, clock: Clock) -> None:
    first, second = a_driver_with_a_checkpoint(bucket, clock), a_driver_with_a_checkpoint(bucket, clock)

    assert lineage_of(first) == lineage_of(second)
    assert second.plan.generation == 1
    (record,) = lineage_records.read_all(second.job.store).records
    assert (record.lineage, record.root, record.epoch) == (lineage_of(first), second.job.store.uri, 1)


def test_snapshots_and_generations_say_which_lineage_they_are_of(bucket: stores.MemoryStore, clock: Clock) -> None:
    driver = a_driver_with_a_checkpoint(bucket, clock)

    manifest = catalog.read_manifest(driver.job.store, layout.checkpoint(1))
    record = generations.read_all(driver.job.store).record(1)
    assert record is not None
    assert manifest.lineage == record.lineage == lineage_of(driver)
    assert manifest.root == driver.job.store.uri


def test_a_root_at_another_place_goes_on_as_a_lineage_that_descends_from_the_old_one(
    bucket: stores.MemoryStore, clock: Clock
) -> None:
    old = a_driver_with_a_checkpoint(bucket, clock)
    copied(bucket, "away")

    new = a_driver_with_a_checkpoint(bucket, clock, root="away")

    assert new.plan.generation == 2, "Spark's files name the old place, so they are copied"
    assert new.plan.descent is not None
    assert lineage_of(new) != lineage_of(old)
    cut = Ancestor(lineage=lineage_of(old), root=old.job.store.uri, generation=1, batches={"delays": 1})
    assert new.plan.descent.ancestors == (cut,)
    assert catalog.read_manifest(new.job.store, layout.checkpoint(2)).ancestors == (cut,)
    again = a_driver_with_a_checkpoint(bucket, clock, root="away")
    assert (lineage_of(again), again.plan.generation, again.plan.descent) == (lineage_of(new), 2, new.plan.descent)


def test_batches_that_a_dead_driver_committed_before_the_move_are_of_the_old_lineage(
    bucket: stores.MemoryStore, clock: Clock
) -> None:
    old = a_driver_with_a_checkpoint(bucket, clock)
    old.batch(3)
    copied(bucket, "away")

    new = Driver(bucket, clock, root="away")

    salvaged = catalog.read_manifest(new.job.store, layout.checkpoint(2))
    assert (salvaged.lineage, salvaged.root) == (lineage_of(old), old.job.store.uri)
    assert new.plan.descent is not None
    assert [cut.batches for cut in new.plan.descent.ancestors] == [{"delays": 4}]


def test_what_is_committed_after_the_move_is_kept_before_its_first_checkpoint(
    bucket: stores.MemoryStore, clock: Clock
) -> None:
    a_driver_with_a_checkpoint(bucket, clock).batch(3)
    copied(bucket, "away")
    Driver(bucket, clock, root="away").batch(2)

    again = Driver(bucket, clock, root="away")

    checkpoints = catalog.list_snapshots(again.job.store)
    generation_of = {ref.id: catalog.read_manifest(again.job.store, ref.folder).generation for ref in checkpoints}
    assert generation_of == {1: 1, 2: 1, 3: 2}
    assert (again.plan.generation, again.plan.fallback, dict(again.plan.start_batches)) == (2, None, {"delays": 6})


def test_two_drivers_that_start_at_a_new_place_at_once_agree(bucket: stores.MemoryStore, clock: Clock) -> None:
    store = bucket.child("default/flights")

    class Raced(stores.FaultyStore):
        def create(self, key: str, body: bytes) -> None:
            if key == layout.lineage(1):
                lineage_records.ensure(store, lineage="faster", epoch=2, now=clock.now)
            super().create(key, body)

    found = lineage_records.ensure(Raced(store), lineage="slower", epoch=1, now=clock.now)

    assert found == lineage_records.read_all(store)
    assert found.lineage == "faster"


def test_a_damaged_identity_does_not_keep_the_job_down(bucket: stores.MemoryStore, clock: Clock) -> None:
    old = a_driver_with_a_checkpoint(bucket, clock)
    old.job.store.write(layout.lineage(1), b"{")

    new = a_driver_with_a_checkpoint(bucket, clock)

    assert lineage_of(new) != lineage_of(old)
    assert new.plan.descent is not None
    assert [cut.lineage for cut in new.plan.descent.ancestors] == [lineage_of(old)]
    assert new.query.batch == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            lambda bucket: copied(bucket, "away"), "memory://bucket/default/flights: it was moved", id="copied"
        ),
        pytest.param(
            lambda bucket: (copied(bucket, "away"), bucket.write(f"away/default/flights/{layout.lineage(1)}", b"{")),
            "is no readable LineageRecord",
            id="damaged",
        ),
    ],
)
def test_the_doctor_knows_a_root_that_is_somewhere_else(
    bucket: stores.MemoryStore, clock: Clock, change: Callable[[stores.MemoryStore], object], said: str
) -> None:
    a_driver_with_a_checkpoint(bucket, clock)
    change(bucket)
    how = doctor.Examination(clock.now, rules.PrunePolicy(3))

    job = doctor.examine_job(bucket.child("away/default/flights"), how)

    assert any(said in note for note in job.notes)
    assert not job.foreign
