"""Records of a function's state that are lost or damaged: a start never goes on from an older state without a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import pytest
from restores import a_restore
from sinkcontexts import a_written_query
from snapshots import Clock, Job
from sparkroot import FakeQuery
from statefulspark import errors, operatorstate
from statefulspark.checkpoint import batch_records, closure, lineage_records, required_records
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.prepared import UnchangedRecord
from statefulspark.driver.output import commit, job_sinks
from statefulspark.driver.starting import start_parts
from statefulspark.operators import functions
from statefulspark.operators.functions.sink import BoundSink
from statefulspark.recovery.plan import StartMode
from statefulspark.storage import StorageOptions
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

QUERY, UID = "delays", "out"
DAMAGES = ("missing", "cut off", "empty", "a bit flipped")


class Summing(operatorstate.SinkFunction[int], operatorstate.CheckpointedFunction):
    """Adds up what it is given; a row of 0 changes nothing."""

    def invoke(self, value: int) -> None:
        self.total += value

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        self.state = context.operator_state_store.list_state("total")
        self.total = sum(self.state.get())

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        self.state.update([self.total])


class Hoarding(Summing):
    """Keeps more than a megabyte besides."""

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        self.state.update([self.total, *[0] * 600_000])


class Forgetful(operatorstate.SinkFunction[int]):
    """Has no state."""

    def invoke(self, value: int) -> None:
        pass


class Stream:
    """As much of a DataFrame as is touched before a query starts."""

    @property
    def writeStream(self) -> Stream:  # noqa: N802 - Spark's name
        return self

    def outputMode(self, mode: str) -> Stream:  # noqa: N802 - Spark's name
        return self

    def foreachBatch(self, function: object) -> Stream:  # noqa: N802 - Spark's name
        return self


class Driver:
    """One start of a job with a sink function; everything that touches storage is real, only Spark is not."""

    def __init__(
        self,
        bucket: ObjectStore,
        restore: RestoreConfig | None = None,
        function: operatorstate.SinkFunction[int] | None = None,
    ) -> None:
        self.job = Job(Clock()).on(bucket)
        self.plan = self.job.boot(restore)
        place = start_parts.JobRoot(self.job.store, StorageOptions(), self.job.author())
        self.declared = functions.JobFunctions()
        sink = operatorstate.DriverSink(function or Summing())
        self.declared.declare(QUERY, a_written_query(sink, UID, frame=Stream()))
        self.declared.bind(place, self.plan)
        self.bound: BoundSink = self.declared._sinks[QUERY]
        descent = lineage_records.Descent("0wn", self.plan.generation)
        who = job_sinks.DriverAttempt(
            self.job.store, StorageOptions(), "default/flights", self.job.epoch, self.plan.generation, descent
        )
        committer = commit.Committer(who, [])
        committer.start(self.plan.queries, functions=self.declared.recorded)
        batch = self.plan.start_batches.get(QUERY, -1)
        self.query = FakeQuery(self.job.store, self.plan.generation, partitions=1, seed=self.job.epoch, batch=batch)

    @property
    def total(self) -> int:
        """What the function holds now."""
        return cast("Summing", self.bound.run._subtasks.functions[0]).total

    def run(self, *rows: int) -> None:
        """Run a batch of one row each to its commit."""
        for row in rows:
            number = self.query.plan_batch()
            self.bound.run.begin(number)
            self.bound.run.invoke(0, row)
            self.bound.keep(number)
            self.query.finish_batch(number, {"0": self.query.attempt(number)})

    def key(self, kind: batch_records.RecordKind, batch: int) -> str:
        """Return where the record of a batch is."""
        name = batch_records.RecordName(kind, UID, batch, self.job.epoch)
        return f"default/flights/{self.query.path}/{name.key}"

    def records(self) -> Iterator[str]:
        """Names of the records of state, with their folder."""
        for kind in (batch_records.RecordKind.OPERATOR_STATE, batch_records.RecordKind.UNCHANGED):
            log = batch_records.BatchRecordLog(self.job.store, self.query.path)
            yield from (f"{name.kind.value} {name.batch}" for name in log.list_all(kind))


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", Clock())


def spoil(bucket: stores.MemoryStore, key: str, how: str) -> None:
    """Damage a record."""
    body = bucket.read(key)
    place = body.index(b'"formatVersion"') + 2
    spoilt = {
        "cut off": body[:-1],
        "empty": b"",
        "a bit flipped": body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :],
    }
    if how == "missing":
        bucket.delete_many([key])
    else:
        bucket.write(key, spoilt[how])


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize(
    ("rows", "kind", "batch"),
    [
        pytest.param([5, 6], batch_records.RecordKind.OPERATOR_STATE, 3, id="the newest state"),
        pytest.param([5, 0, 0], batch_records.RecordKind.UNCHANGED, 4, id="what says that it still holds"),
        pytest.param([5, 0, 0], batch_records.RecordKind.OPERATOR_STATE, 2, id="the state that still holds"),
    ],
)
def test_a_start_does_not_go_on_from_an_older_state_of_a_function(
    bucket: stores.MemoryStore, rows: Sequence[int], kind: batch_records.RecordKind, batch: int, how: str
) -> None:
    """The record of the last batch is lost after the last checkpoint: it went on with what the function held before."""
    driver = Driver(bucket)
    driver.run(1, 2)
    driver.job.checkpoint(driver.query)
    driver.run(*rows)
    key = driver.key(kind, batch)
    spoil(bucket, key, how)

    again = Driver(bucket)

    assert (again.plan.mode, again.plan.restored_from) == (StartMode.COPY, "checkpoint 1")
    lost = key if kind is not batch_records.RecordKind.UNCHANGED or how != "missing" else driver.key(_STATE, batch)
    assert lost in (again.plan.fallback or "")
    assert (again.plan.start_batches, again.total) == ({QUERY: 1}, 3)


_STATE = batch_records.RecordKind.OPERATOR_STATE


def test_a_damaged_state_that_is_long_does_not_end_every_start(bucket: stores.MemoryStore) -> None:
    """What is longer than a megabyte is not read for a checkpoint, and the function could not be given it."""
    driver = Driver(bucket, function=Hoarding())
    driver.run(1)
    driver.job.checkpoint(driver.query)
    driver.run(2)
    key = driver.key(_STATE, 1)
    spoil(bucket, key, "a bit flipped")

    again = Driver(bucket, function=Hoarding())

    assert (again.plan.restored_from, again.total) == ("checkpoint 1", 1)
    assert key in (again.plan.fallback or "")


@pytest.mark.parametrize(
    ("rows", "total"),
    [pytest.param([5, 6], 14, id="changed"), pytest.param([5, 0, 0], 8, id="left as it was")],
)
def test_a_start_goes_on_after_the_last_batch_when_its_record_is_whole(
    bucket: stores.MemoryStore, rows: Sequence[int], total: int
) -> None:
    driver = Driver(bucket)
    driver.run(1, 2)
    driver.job.checkpoint(driver.query)
    driver.run(*rows)

    again = Driver(bucket)

    assert (again.plan.mode, again.plan.fallback, again.total) == (StartMode.CONTINUE, None, total)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_lost_state_of_the_checkpoint_itself_makes_a_start_fall_back(bucket: stores.MemoryStore, how: str) -> None:
    driver = Driver(bucket)
    driver.run(1)
    driver.job.checkpoint(driver.query)
    driver.run(2, 0)
    driver.job.checkpoint(driver.query)
    spoil(bucket, driver.key(batch_records.RecordKind.UNCHANGED, 2), how)

    again = Driver(bucket)

    assert (again.plan.restored_from, again.total) == ("checkpoint 1", 1)


def test_every_batch_has_a_record_and_one_that_changed_nothing_a_small_one(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket)
    driver.run(*range(1, 40), 0, 0)
    state, small = driver.key(_STATE, 38), driver.key(batch_records.RecordKind.UNCHANGED, 40)

    assert [*driver.records()][-3:] == ["operator-state 38", "unchanged 39", "unchanged 40"]
    assert UnchangedRecord.parse(bucket.read(small), small).record == state.rpartition(f"{QUERY}/")[2]
    assert len(bucket.read(small)) < 120


def test_a_function_without_state_needs_no_records(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket, function=Forgetful())
    driver.run(1, 2)

    again = Driver(bucket, function=Forgetful())

    assert (again.plan.start_batches, [*again.records()]) == ({QUERY: 1}, [])


def test_a_function_that_left_the_query_needs_no_records_any_more(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket)
    driver.run(1)
    driver.job.checkpoint(driver.query)
    other = Driver(bucket, function=Forgetful())
    other.run(1, 1)

    assert Driver(bucket, function=Forgetful()).plan.start_batches == {QUERY: 2}


@pytest.mark.parametrize("rows", [[3, 4], [3, 0]], ids=["changed", "left as it was"])
def test_a_record_that_only_a_listing_does_not_show_is_not_lost(
    bucket: stores.MemoryStore, rows: Sequence[int]
) -> None:
    driver = Driver(bucket)
    driver.run(1)
    driver.job.checkpoint(driver.query)
    late = Driver(stores.FaultyStore(bucket, stores.Plan(lag_lists=True)))
    late.run(*rows)

    entry = closure.close_over(late.job.store, late.query.path, late.query.batch)

    assert [one.batch_id for one in entry.operator_states] == [2 if rows[-1] else 1]


def test_a_start_does_not_take_an_older_state_from_a_listing_that_lags(bucket: stores.MemoryStore) -> None:
    """The closure had looked the newest record up by name, and the function was given the newest one that was listed."""
    driver = Driver(bucket)
    driver.run(1, 2)
    driver.job.checkpoint(driver.query)
    newest = driver.key(_STATE, 1)

    class Lagging(stores.FaultyStore):
        """Does not list the newest record yet."""

        def list_names(self, prefix: str) -> tuple[str, ...]:
            return tuple(name for name in super().list_names(prefix) if not newest.endswith(name))

    assert Driver(Lagging(bucket)).total == 3


def test_records_travel_with_a_savepoint(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket)
    driver.run(1, 2, 0)
    place = driver.job.savepoint(driver.query)
    driver.run(9)

    restored = Driver(bucket, a_restore(snapshot=place.uri))
    held = restored.total
    restored.job.checkpoint(restored.query)
    restored.run(4, 0)
    bucket.delete_many([restored.key(batch_records.RecordKind.UNCHANGED, 4)])
    again = Driver(bucket)

    assert (held, again.plan.start_batches, again.total) == (3, {QUERY: 2}, 3)


def test_a_batch_of_ours_that_no_function_saw_keeps_the_state_of_the_batch_before(bucket: stores.MemoryStore) -> None:
    """State that is spread over another number of partitions is written by one more batch."""
    driver = Driver(bucket)
    driver.run(1, 2)
    entry = closure.close_over(driver.job.store, driver.query.path, 1)
    driver.query.run_batch()
    with pytest.raises(errors.SnapshotCorruptError, match="the state of function 'out' after that batch"):
        closure.close_over(driver.job.store, driver.query.path, 2)

    required_records.note_unchanged(driver.job.store, entry, epoch=driver.job.epoch)

    assert closure.close_over(driver.job.store, driver.query.path, 2).operator_states == entry.operator_states


def test_a_cut_reads_three_records_of_a_function_however_many_there_are(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket)
    driver.run(1, 2, *[0] * 20)
    counted = stores.FaultyStore(driver.job.store)

    closure.close_over(counted, driver.query.path, driver.query.batch)

    asked = [operation.key.removeprefix(f"{driver.query.path}/") for operation in counted.operations]
    assert [key for key in asked if batch_records.parse_key(key)] == [
        "output/delays/00000000-00000001.json",
        "unchanged/out/00000021-00000001.json",
        "operator-state/out/00000001-00000001.json",
    ]
