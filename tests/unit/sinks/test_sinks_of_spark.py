"""Sinks of Spark's own count batches: no pair of query id and number stands for two inputs, however a job begins.

Every way to begin, with the old job gone, at the same place, or further, in front of each kind of sink, which is there or is
gone. Storage and starts are the real ones; the sinks know batches as Spark, Delta, Iceberg and Kafka do.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from plannedqueries import a_planned_operator, a_planned_query
from restores import a_restore
from sinkdrivers import JOB, QUERY, Driver
from snapshots import Clock, Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.config import RestoreConfig
from statefulspark.driver.starting import rollbacks, start_parts
from statefulspark.evolution import comparison
from statefulspark.recovery import numbers, recovery
from statefulspark.recovery.plan import StartMode
from statefulspark.storage import StorageOptions
from statefulspark.testing import stores

OLD, NEW = "", "new"
CUT, FURTHER = 5, 20
"""Rows before the cut, one in a batch, and those that the old job has written when it went further."""
ALL = 40
"""Rows of the source."""
LARGER = 7
"""Rows of a batch after the start: another input than those of the old job, under the same of Spark's numbers."""

_SEEDS = itertools.count(100)


class Sink(Protocol):
    """A sink of Spark's own, as far as it knows batches."""

    rows: list[int]

    def add(self, query_id: str, batch: int, told: int, rows: Sequence[int]) -> None: ...


@dataclass
class ByPair:
    """Delta, and Iceberg's own: the newest number of each query id."""

    rows: list[int] = field(default_factory=list)
    newest: dict[str, int] = field(default_factory=dict)

    def add(self, query_id: str, batch: int, told: int, rows: Sequence[int]) -> None:
        if batch > self.newest.get(query_id, -1):
            self.newest[query_id] = batch
            self.rows += rows


@dataclass
class ByNumber:
    """A function of foreachBatch as Spark's documentation has it: the newest number in the table."""

    rows: list[int] = field(default_factory=list)
    newest: int = -1

    def add(self, query_id: str, batch: int, told: int, rows: Sequence[int]) -> None:
        if told > self.newest:
            self.newest = told
            self.rows += rows


@dataclass
class ByLog:
    """Spark's sink of files, with the notes of ours: a number that follows in the log, for each query id."""

    rows: list[int] = field(default_factory=list)
    newest: int = -1
    notes: dict[str, int] = field(default_factory=dict)

    def add(self, query_id: str, batch: int, told: int, rows: Sequence[int]) -> None:
        if query_id not in self.notes:
            self.newest += 1
            self.notes[query_id] = self.newest + 1 - batch
        number = batch + self.notes[query_id]
        if number > self.newest:
            self.newest = number
            self.rows += rows


@dataclass
class Unknowing:
    """Kafka's own, console, foreach."""

    rows: list[int] = field(default_factory=list)

    def add(self, query_id: str, batch: int, told: int, rows: Sequence[int]) -> None:
        self.rows += rows


SINKS: dict[str, Callable[[], Sink]] = {
    "parquet": ByLog,
    "delta": ByPair,
    "iceberg": ByPair,
    "foreachBatch": ByNumber,
    "kafka": Unknowing,
}


def _empty_sinks() -> dict[str, Sink]:
    return {name: made() for name, made in SINKS.items()}


@dataclass
class World:
    """One bucket, one sink of each kind, and the drivers of one job in different roots."""

    clock: Clock = field(default_factory=Clock)
    sinks: dict[str, Sink] = field(default_factory=_empty_sinks)
    inputs: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    """What each pair stands for: of query id and Spark's number, and of a function and the number that it was told."""

    def __post_init__(self) -> None:
        self.bucket = stores.MemoryStore("memory://bucket", self.clock)

    def driver(self, root: str = OLD, restore: RestoreConfig | None = None) -> Driver:
        self.clock.forward(3600)
        driver = Driver(self.bucket, self.clock, restore, root=root, sinks=False)
        batch = driver.plan.start_batches.get(QUERY, -1)
        driver.query = FakeQuery(driver.job.store, driver.plan.generation, partitions=1, seed=next(_SEEDS), batch=batch)
        return driver

    def write(self, driver: Driver, rows: Sequence[int]) -> int:
        """Plan a batch and let each sink have it; return its number, which is not committed."""
        self.clock.forward(1)
        number = driver.query.plan_batch()
        query_id = driver.job.store.read(f"{driver.query.path}/metadata").decode()
        assert driver.plan.record is not None
        told = number + numbers.offset(driver.plan.record, QUERY)
        for pair in ((query_id, number), ("a function", told)):
            assert self.inputs.setdefault(pair, tuple(rows)) == tuple(rows), f"{pair} stands for two inputs"
        for sink in self.sinks.values():
            sink.add(query_id, number, told, rows)
        return number

    def run(self, driver: Driver, rows: range, size: int = 1) -> None:
        """Run batches to their commit."""
        for first in range(rows.start, rows.stop, size):
            number = self.write(driver, rows[first - rows.start :][:size])
            driver.query.finish_batch(number, {"0": driver.query.attempt(number)})

    def copy(self) -> None:
        self.bucket.copy_many([(info.key, f"{NEW}/{info.key}") for info in self.bucket.list(JOB)])

    def delete(self) -> None:
        self.bucket.delete_many([info.key for info in self.bucket.list(JOB)])

    def rolls_back(self, snapshot: str) -> RestoreConfig:
        """Return the restore of an automatic rollback, if the driver does not refuse it."""
        restore = a_restore(snapshot=snapshot, nonce="uid-rollback-2", rollback=True)
        store = self.bucket.child(JOB)
        plan = recovery.plan_recovery(store, restore=restore, open_store=Job(self.clock).on(self.bucket).open_store)
        root = start_parts.JobRoot(store, StorageOptions())
        operators = (a_planned_operator(own.uid, own.operator_id, name=own.name) for own in plan.queries[0].operators)
        planned = [a_planned_query(*operators, uid=QUERY, sources=[plans.PlannedSource("numbers", "numbers")])]
        changes = comparison.compare(plan.queries, planned, label="it")
        rollbacks.require_harmless(restore, root, plan, changes, planned=planned, outputs={QUERY: "a writer"})
        return restore


@dataclass(frozen=True)
class Start:
    """How the job begins after its first life.

    Attributes:
        way: Which way.
        old: `further`: the old job has written more after the cut. `same`: it has not. `gone`: it has, and its folder was
            deleted, if the way does not need that.
    """

    way: str
    old: str

    @property
    def goes_on(self) -> bool:
        """Whether it goes on in the generation in use, at its end."""
        return self.way == "same root" or (self.way, self.old) == ("rollback", "same")

    @property
    def written(self) -> range:
        """What the sinks have before."""
        return range(CUT if self.old == "same" else FURTHER)

    @property
    def again(self) -> range:
        """What they have and get once more."""
        if self.goes_on:
            return range(0)
        return self.written if self.way == "fresh" else self.written[CUT:]


def begun(world: World, start: Start) -> Driver:
    """Live the first life, and begin again; the new driver has run no batch."""
    old = world.driver()
    world.run(old, range(CUT))
    checkpoint, savepoint = old.checkpoint(), old.savepoint()
    if start.way in ("moved", "copied"):
        world.copy()
    world.run(old, start.written[CUT:])
    if start.way == "moved" or (start.old == "gone" and start.way in ("copied", "fresh")):
        world.delete()
    restores = {
        "savepoint elsewhere": a_restore(snapshot=savepoint),
        "fresh": a_restore(empty=True),
        "older checkpoint": a_restore(snapshot=f"checkpoint:{checkpoint.id}"),
    }
    restore = world.rolls_back(savepoint) if start.way == "rollback" else restores.get(start.way)
    return world.driver(NEW if start.way in ("moved", "copied", "savepoint elsewhere") else OLD, restore)


WAYS = ("same root", "moved", "copied", "savepoint elsewhere", "fresh", "older checkpoint", "rollback")
STARTS = [Start(way, old) for way in WAYS for old in ("further", "same", "gone")]
BEGINNING = [start for start in STARTS if start.way != "rollback" or start.old == "same"]
"""An automatic rollback that would write rows once more is refused."""


@pytest.mark.parametrize("forgets", [False, True], ids=["the sink is there", "the sink is gone"])
@pytest.mark.parametrize("start", BEGINNING, ids=lambda start: f"{start.way}, the old job {start.old}")
def test_no_row_is_left_out_and_none_repeated_without_a_warning(start: Start, forgets: bool) -> None:
    world = World()
    driver = begun(world, start)
    if forgets:
        world.sinks = _empty_sinks()
    reads = range(start.again.start if start.again else start.written.stop, ALL)

    world.run(driver, reads, LARGER)

    assert driver.plan.record is not None
    warns = driver.plan.mode is not StartMode.CONTINUE and numbers.may_repeat_rows(driver.plan.record)
    assert warns is not start.goes_on
    expected = Counter(reads) if forgets else Counter(range(ALL)) + Counter(start.again)
    assert {kind: Counter(sink.rows) for kind, sink in world.sinks.items()} == dict.fromkeys(SINKS, expected)


@pytest.mark.parametrize("old", ["further", "gone"])
def test_an_automatic_rollback_that_would_repeat_rows_is_refused(old: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match="a sink of Spark") as refused:
        begun(World(), Start("rollback", old))

    assert refused.value.reason == "OutputRepeated"


def test_a_batch_that_ran_before_and_was_not_committed_is_written_once() -> None:
    world = World()
    old = world.driver()
    world.run(old, range(CUT))
    world.write(old, range(CUT, CUT + LARGER))

    driver = world.driver()
    world.run(driver, range(CUT, ALL), LARGER)

    assert {kind: sink.rows for kind, sink in world.sinks.items() if kind != "kafka"} == {
        kind: list(range(ALL)) for kind in SINKS if kind != "kafka"
    }
