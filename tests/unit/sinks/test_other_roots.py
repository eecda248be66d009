"""A sink that remembers one root of state meets a job that starts in another: nothing is dropped, and nothing guessed.

Every way to begin a root, with the old job gone, still there, or gone further, in front of a sink that can withdraw what it
has committed (files) and one that cannot (a ledger with a marker, as Kafka, PostgreSQL and Iceberg keep it).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from restores import a_restore
from sinkdrivers import JOB, NAMED, OUTPUT, ROWS, Driver, MemoryFiles, visible
from snapshots import Clock
from statefulspark import errors
from statefulspark.sinks import marker
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.marker import Marker
from statefulspark.testing import stores

OLD, NEW = "", "new"
PARTS = json.dumps


@dataclass
class Ledger:
    """A sink that appends in transactions which also move its marker, and takes nothing back."""

    rows: list[int] = field(default_factory=list)
    marker: Marker | None = None
    target: str = "memory://ledger"

    def stored_marker(self, context: SinkContext) -> Marker | None:
        return self.marker

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        return PARTS([value for batch in batches for value in batch["value"].to_pylist()]).encode()

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        return PARTS([value for part in parts for value in json.loads(part)]).encode()

    def open(self, context: SinkContext) -> None:
        self.marker = marker.open_marker(self.marker, context, "the ledger")

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        assert self.marker is not None
        marker.require_newest(self.marker, context, "the ledger")
        if not self.marker.covers(context):
            self.rows += json.loads(transaction)
            self.marker = self.marker.after(context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        pass


class World:
    """One bucket, one sink, and the drivers of one job in different roots."""

    def __init__(self, kind: str) -> None:
        self.clock = Clock()
        self.bucket = stores.MemoryStore("memory://bucket", self.clock)
        self.ledger = Ledger() if kind == "ledger" else None
        self.withdraws = self.ledger is None

    def driver(self, root: str, **restore: object) -> Driver:
        return Driver(self.bucket, self.clock, a_restore(**restore), sink=self.ledger, root=root)  # type: ignore[arg-type]

    @property
    def values(self) -> list[int]:
        """What a reader sees, in order."""
        if self.ledger is not None:
            return list(self.ledger.rows)
        return [value for value, _ in visible(self.bucket)]

    def copy(self, *, to: str) -> None:
        """Copy the job's folder as any tool would."""
        pairs = [(info.key, f"{to}/{info.key}") for info in self.bucket.list(JOB)]
        self.bucket.copy_many(pairs)

    def delete(self, root: str) -> None:
        folder = f"{root}/{JOB}".lstrip("/")
        self.bucket.delete_many([info.key for info in self.bucket.list(folder)])


def rows(*batches: int) -> list[int]:
    """Return the rows of batches, which depend on the batch's number alone."""
    return [batch * ROWS + row for batch in batches for row in range(ROWS)]


@pytest.fixture(params=["files", "ledger"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def an_old_job(world: World, *, announced: bool = True) -> Driver:
    """Return a driver that has run five batches, of which the last may be prepared and not committed."""
    old = world.driver(OLD)
    old.batch(4)
    old.checkpoint()
    old.batch(1)
    if announced:
        old.checkpoint()
    return old


def copied(world: World, old: Driver) -> dict[str, object]:
    world.copy(to=NEW)
    return {}


def saved(world: World, old: Driver) -> dict[str, object]:
    return {"snapshot": old.savepoint()}


WAYS = [pytest.param(copied, id="its folder was copied"), pytest.param(saved, id="from a savepoint")]
Way = Callable[[World, Driver], dict[str, object]]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("announced", [True, False], ids=["all committed", "a batch prepared and not committed"])
@pytest.mark.parametrize("is_gone", [True, False], ids=["the old job is gone", "the old job is there"])
def test_another_root_goes_on_where_the_old_job_stopped(world: World, way: Way, announced: bool, is_gone: bool) -> None:
    old = an_old_job(world, announced=announced)
    restore = way(world, old)
    if is_gone and way is copied:
        world.delete(OLD)

    new = world.driver(NEW, **restore)
    new.batch(3)
    new.checkpoint()

    assert world.values == rows(*range(8))
    if not (is_gone and way is copied):
        old.batch(1)
        with pytest.raises(errors.FencedError):
            old.checkpoint()
    assert world.values == rows(*range(8))


@pytest.mark.parametrize("way", WAYS)
def test_an_old_job_that_went_further_is_withdrawn_or_refused_by_name(world: World, way: Way) -> None:
    old = an_old_job(world)
    restore = way(world, old)
    old.batch(2)
    old.checkpoint()

    if world.withdraws:
        new = world.driver(NEW, **restore)
        assert world.values == rows(*range(5))
        new.batch(4)
        new.checkpoint()
        assert world.values == rows(*range(9))
        return
    with pytest.raises(
        errors.SpecRejectedError, match=r"batch 6.*continue after batch 4.*--restore-repeat-output-of"
    ) as refused:
        world.driver(NEW, **restore)
    assert refused.value.reason == "SinkAhead"
    old.batch(1)
    old.checkpoint()
    assert world.values == rows(*range(8)), "the old job goes on"


def test_a_sink_that_is_ahead_is_written_to_on_somebodys_word(world: World) -> None:
    old = an_old_job(world)
    snapshot = old.savepoint()
    old.batch(2)
    old.checkpoint()

    new = world.driver(NEW, snapshot=snapshot, repeat_output_of=NAMED)
    new.batch(3)
    new.checkpoint()

    again = [] if world.withdraws else rows(5, 6)
    assert sorted(world.values) == sorted(rows(*range(8)) + again)


@pytest.mark.parametrize("restarted", [False, True], ids=["it runs", "it starts again"])
def test_an_old_job_writes_nothing_to_a_sink_that_was_taken_over(world: World, restarted: bool) -> None:
    old = an_old_job(world)
    new = world.driver(NEW, snapshot=old.savepoint())
    new.batch(1)
    new.checkpoint()

    if restarted:
        with pytest.raises(errors.SpecRejectedError, match="does not descend") as refused:
            world.driver(OLD)
        assert refused.value.reason == "SinkTaken"
    else:
        old.batch(3)
        with pytest.raises(errors.FencedError):
            old.checkpoint()

    new.batch(1)
    new.checkpoint()
    assert world.values == rows(*range(7))


@pytest.mark.parametrize("root", [OLD, NEW], ids=["in the same place", "elsewhere"])
def test_state_that_was_deleted_is_no_reason_to_drop_the_rows_of_a_second_life(world: World, root: str) -> None:
    an_old_job(world)
    world.delete(OLD)

    with pytest.raises(
        errors.SpecRejectedError, match=r"memory://bucket/default/flights.*--restore-repeat-output-of"
    ) as refused:
        world.driver(root)
    assert refused.value.reason == "SinkTaken"

    second = world.driver(root, repeat_output_of=NAMED)
    second.batch(2)
    second.checkpoint()
    assert world.values == (rows(0, 1) if world.withdraws else rows(*range(5), 0, 1))

    third = world.driver(root)
    third.batch(1)
    third.checkpoint()
    assert world.values[-ROWS:] == rows(2), "its own root needs no word"


def test_fresh_state_in_the_same_root_begins_the_output_anew(world: World) -> None:
    an_old_job(world)

    fresh = world.driver(OLD, empty=True)
    fresh.batch(2)
    fresh.checkpoint()

    assert world.values == (rows(0, 1) if world.withdraws else rows(*range(5), 0, 1))


def test_an_older_checkpoint_of_the_same_root_is_produced_anew(world: World) -> None:
    an_old_job(world)

    older = world.driver(OLD, snapshot="checkpoint:1")
    older.batch(2)
    older.checkpoint()

    assert world.values == (rows(*range(6)) if world.withdraws else rows(*range(5), 4, 5))


def test_a_savepoint_of_another_root_restored_over_a_root_with_state_of_its_own(world: World) -> None:
    other = World("files" if world.withdraws else "ledger")
    other.bucket, other.clock = world.bucket, world.clock
    other.ledger = Ledger(target="memory://apart") if world.ledger is not None else None
    apart = Driver(world.bucket, world.clock, sink=other.ledger or _elsewhere(world), root="apart")
    apart.batch(7)
    apart.checkpoint()
    an_old_job(world)

    new = world.driver(OLD, snapshot=apart.savepoint())
    new.batch(1)
    new.checkpoint()

    assert world.values == rows(*range(5), 7)


def test_prepared_rows_are_left_to_the_old_job_where_the_new_one_writes_elsewhere(world: World) -> None:
    old = an_old_job(world, announced=False)
    snapshot = old.savepoint()
    there = Ledger(target="memory://there") if world.ledger is not None else _elsewhere(world)

    new = Driver(world.bucket, world.clock, a_restore(snapshot=snapshot), sink=there, root=NEW)
    new.batch(2)
    new.checkpoint()
    old.checkpoint()

    seen = there.rows if isinstance(there, Ledger) else [value for value, _ in visible(world.bucket.child("there"))]
    assert seen == rows(5, 6), "no commit names rows that lie in the old folder"
    assert world.values == rows(*range(5)), "the job that prepared them has committed them"


def test_rows_that_were_left_behind_when_a_folder_was_copied_are_named() -> None:
    world = World("files")
    old = an_old_job(world, announced=False)
    snapshot = old.savepoint()
    there = world.bucket.child("there").child(OUTPUT)
    for info in world.bucket.child(OUTPUT).list(""):
        if "data/" not in info.key:
            there.write(info.key, world.bucket.child(OUTPUT).read(info.key))

    with pytest.raises(errors.StateUnknownError, match="copy the sink's folder as a whole") as refused:
        Driver(world.bucket, world.clock, a_restore(snapshot=snapshot), sink=_elsewhere(world), root=NEW)
    assert refused.value.reason == "StagedRowsMissing"


def test_a_root_that_moves_again_and_again_repeats_nothing(world: World) -> None:
    driver = an_old_job(world)
    for move in range(1, 5):
        snapshot = driver.savepoint()
        driver = world.driver(f"root-{move}", snapshot=snapshot)
        driver.batch(1)
        driver.checkpoint()
        driver = world.driver(f"root-{move}")
        driver.batch(1)
        driver.checkpoint()

    assert world.values == rows(*range(13))
    assert [one.generation for one in driver.plan.descent.ancestors] == [1] * 4  # type: ignore[union-attr]


def test_a_savepoint_taken_back_to_its_root_goes_on_there(world: World) -> None:
    old = an_old_job(world)
    away = world.driver(NEW, snapshot=old.savepoint())
    away.batch(2)
    away.checkpoint()

    back = world.driver(OLD, snapshot=away.savepoint())
    back.batch(2)
    back.checkpoint()
    again = world.driver(OLD)
    again.batch(1)
    again.checkpoint()

    assert world.values == rows(*range(10))


def _elsewhere(world: World) -> MemoryFiles:
    folder = world.bucket.child("there").child(OUTPUT)
    return MemoryFiles("memory://bucket/there/output", compression="none", folder=folder)
