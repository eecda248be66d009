"""Sources and sinks with state on real Spark and S3: restarted at other parallelisms, failing, behind keyed state."""

from __future__ import annotations

import datetime
import decimal
import json
import runpy
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import statefulspark as ss
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from s3server import S3Server
from statefulspark import errors, storage
from statefulspark.checkpoint import batch_records, closure
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.declaration import Output, read_result
from statefulspark.engine import session
from statefulspark.operators import functions
from statefulspark.recovery.plan import StartMode, StartPlan
from statefulspark.storage import ObjectStore, StorageOptions
from streams import wait_until

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "operator_state"
NUMBERS = 120
RANGES = 4


class RangeSource(ss.driver.SourceFunction[int], ss.driver.CheckpointedFunction):
    """Emits the numbers of its ranges; the ranges are its state, so they may be dealt to any number of subtasks."""

    def __init__(self, limit: int = NUMBERS, *, failing_at: int | None = None) -> None:
        self.limit = limit
        self.failing_at = failing_at
        self.ranges: list[tuple[int, int]] = []
        self.is_running = True

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        self.state = context.operator_state_store.list_state("ranges")
        size = NUMBERS // RANGES
        mine = range(context.subtask_index, RANGES, context.parallelism)
        self.ranges = self.state.get() if context.is_restored else [(one * size, (one + 1) * size) for one in mine]

    def run(self, ctx: ss.driver.SourceContext[int]) -> None:
        emitted = 0
        while self.is_running and emitted < self.limit and any(start < end for start, end in self.ranges):
            index = max(range(len(self.ranges)), key=lambda one: self.ranges[one][1] - self.ranges[one][0])
            start, end = self.ranges[index]
            if start == self.failing_at:
                raise OSError("no more numbers")
            with ctx.checkpoint_lock:
                self.ranges[index] = (start + 1, end)
                ctx.collect(start)
            emitted += 1
            time.sleep(0.001)

    def cancel(self) -> None:
        self.is_running = False

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        self.state.update(self.ranges)


class Collecting(ss.driver.SinkFunction[Row], ss.driver.CheckpointedFunction, ss.driver.CheckpointListener):
    """Holds every value in its state, and tells what became of it in a file per subtask."""

    def __init__(self, folder: Path, *, failing_at: object = None) -> None:
        self.folder = folder
        self.failing_at = failing_at

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        self.context = context
        self.state = context.operator_state_store.list_state("values")
        self.values = self.state.get()

    def invoke(self, value: Row) -> None:
        if self.failing_at is not None and value[0] == self.failing_at:
            raise ValueError(f"row {value[0]}")
        self.values.append(tuple(value))

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        self.state.update(self.values)
        one = self.context
        told = {
            "values": [value[0] for value in self.values],
            "restored": one.is_restored,
            "from": one.restored_checkpoint_id,
            "checkpoint": context.checkpoint_id,
        }
        target = self.folder / f"{one.subtask_index}-of-{one.parallelism}.json"
        target.with_suffix(".new").write_text(json.dumps(told, default=str))
        target.with_suffix(".new").replace(target)


@dataclass
class Place:
    """Where the job's state is, and which start this is."""

    store: ObjectStore
    options: StorageOptions
    epoch: int


class World:
    """A job of one query, started again and again in one Spark session."""

    def __init__(self, spark: SparkSession, s3: S3Server, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._options = s3.options()
        self._store = storage.open_store(f"s3://{s3.new_bucket()}/jobs", self._options)
        self._epoch = 0
        self._path = layout.query_root(1, "numbers")

    @property
    def store(self) -> ObjectStore:
        return self._store

    @property
    def path(self) -> str:
        return self._path

    @property
    def batch(self) -> int:
        return closure.newest_committed_batch(self._store, self._path)

    def entry(self) -> QueryEntry:
        return closure.close_over(self._store, self._path, self.batch)

    def run(
        self, build: Callable[[SparkSession], Output], until: Callable[[], bool], *, drop_state: tuple[str, ...] = ()
    ) -> str | None:
        """Start the query as a driver does, wait for something, and stop it at once; return why it failed."""
        self._epoch += 1
        declared = functions.JobFunctions()
        try:
            with declared.collecting("numbers"):
                output = build(self.spark)
            plan = StartPlan(StartMode.CONTINUE, 1, queries=(self.entry(),), next_snapshot_id=7)
            place = Place(self._store, self._options, self._epoch)
            declared.declare("numbers", read_result(output, "numbers"))
            declared.require_place(plan.queries, drop_state)
            bound = declared.bind(place, plan)
            root = f"{session.hadoop_uri(self._store.uri)}/{self._path}"
            query = bound["numbers"].queryName("numbers").option("checkpointLocation", root).start()
            try:
                wait_until(lambda: until() or not query.isActive, "the query to get there", 120)
            finally:
                query.stop()
            error = query.exception()
            return None if error is None else str(error)
        finally:
            declared.close()

    def told(self, parallelism: int) -> list[dict[str, object]]:
        files = [self.folder / f"{index}-of-{parallelism}.json" for index in range(parallelism)]
        return [json.loads(file.read_text()) if file.exists() else {"values": []} for file in files]

    def values(self, parallelism: int) -> Counter[object]:
        return Counter(value for one in self.told(parallelism) for value in one["values"])  # type: ignore[attr-defined]


@pytest.fixture
def world(spark: SparkSession, s3: S3Server, tmp_path: Path) -> World:
    return World(spark, s3, tmp_path)


def numbers(
    world: World,
    *,
    source: int = 2,
    sink: int = 2,
    limit: int = NUMBERS,
    failing_at: object = None,
    sink_uid: str = "collect",
    source_uid: str = "ranges",
    source_failing_at: int | None = None,
) -> Callable[[SparkSession], Output]:
    def build(spark: SparkSession) -> Output:
        function = RangeSource(limit, failing_at=source_failing_at)
        frame = ss.read_function(
            spark, function=function, schema="n BIGINT", uid=source_uid, parallelism=source, buffer_rows=10
        )
        collecting = ss.sinks.DriverSink(Collecting(world.folder, failing_at=failing_at), parallelism=sink)
        return ss.write(frame, sink=collecting, uid=sink_uid)

    return build


def test_a34_a40_a139_restarted_at_other_parallelisms_every_number_arrives_once(world: World) -> None:
    assert world.run(numbers(world, limit=15), lambda: world.values(2).total() >= 30) is None
    assert world.run(numbers(world, source=6, sink=3, limit=8), lambda: world.values(3).total() >= 60) is None
    assert world.run(numbers(world, source=1, sink=1), lambda: world.values(1).total() >= NUMBERS) is None

    assert world.values(1) == Counter(range(NUMBERS))
    assert [one["restored"] for one in world.told(3)] == [True, True, True]
    assert [one["restored"] for one in world.told(2)] == [False, False]
    assert world.told(1)[0]["checkpoint"] == 7


def test_a_function_that_fails_is_named_and_nothing_of_its_batch_is_committed(world: World) -> None:
    error = world.run(numbers(world, failing_at=40), lambda: False)
    held = world.values(2)
    assert error is not None
    assert "FunctionFailed: invoke() of function 'collect' (Collecting) raised ValueError: row 40" in error
    assert 40 not in held

    assert world.run(numbers(world), lambda: world.values(2).total() >= NUMBERS) is None
    assert world.values(2) == Counter(range(NUMBERS))


def test_a_source_that_fails_is_named_and_goes_on_where_it_was(world: World) -> None:
    error = world.run(numbers(world, source=1, source_failing_at=8), lambda: False)
    assert error is not None
    assert (
        "SourceFailed: run() of subtask 0 of function 'ranges' (RangeSource) raised OSError: no more numbers" in error
    )

    assert world.run(numbers(world, source=1), lambda: world.values(2).total() >= NUMBERS) is None
    assert world.values(2) == Counter(range(NUMBERS))


def test_a44_a_new_uid_starts_without_state_and_an_old_one_may_not_vanish(world: World) -> None:
    world.run(numbers(world, limit=10), lambda: world.values(2).total() >= 20)

    with pytest.raises(errors.SpecRejectedError, match="function 'collect' of query 'numbers'") as caught:
        world.run(numbers(world, sink_uid="other"), lambda: True)
    with pytest.raises(errors.SpecRejectedError, match="source 'ranges' of query 'numbers'"):
        world.run(numbers(world, source_uid="other"), lambda: True)
    assert caught.value.reason == "NonRestoredState"

    error = world.run(
        numbers(world, sink_uid="other", limit=10, sink=1),
        lambda: world.values(1).total() >= 10,
        drop_state=("collect",),
    )
    assert error is None
    assert world.told(1)[0]["restored"] is False


class Noticing(ss.driver.SinkFunction[Row], ss.driver.CheckpointedFunction):
    """Remembers that there was a row: its state changes once."""

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        self.state = context.operator_state_store.list_state("seen")

    def invoke(self, value: Row) -> None:
        self.state.update([True])

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        pass


def test_every_batch_of_a_function_has_a_record_whether_it_changed_the_state_or_not(world: World) -> None:
    def build(spark: SparkSession) -> Output:
        frame = ss.read_function(spark, function=RangeSource(), schema="n BIGINT", uid="ranges", buffer_rows=10)
        return ss.write(frame, sink=ss.sinks.DriverSink(Noticing()), uid="notice")

    assert world.run(build, lambda: world.batch >= 3) is None

    log = batch_records.BatchRecordLog(world.store, world.path)
    state, unchanged = (
        [name.batch for name in log.list_all(kind) if name.batch <= world.batch]
        for kind in (batch_records.RecordKind.OPERATOR_STATE, batch_records.RecordKind.UNCHANGED)
    )
    assert state == [0]
    assert unchanged == list(range(1, world.batch + 1))


class CountPerDigit(ss.KeyedProcessFunction):
    """Counts per key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.seen = ctx.value_state("seen", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[object]:
        self.seen.update((self.seen.get() or 0) + len(rows))
        yield key, self.seen.get()


def test_keyed_state_and_functions_are_one_cut(world: World) -> None:
    """The sink reads partition by partition, one Spark job each; state of every partition is still committed once."""

    def build(spark: SparkSession) -> Output:
        frame = ss.read_function(
            spark, function=RangeSource(), schema="n BIGINT", uid="ranges", parallelism=2, buffer_rows=30
        )
        counted: DataFrame = ss.keyed_process(
            frame.selectExpr("n % 10 AS digit"),
            key="digit",
            function=CountPerDigit(),
            uid="count",
            schema="digit BIGINT, seen BIGINT",
        )
        collecting = ss.sinks.DriverSink(Collecting(world.folder, failing_at=None), parallelism=1)
        return ss.write(counted.selectExpr("seen * 10 + digit AS n"), sink=collecting, uid="collect")

    last = {12 * 10 + digit for digit in range(10)}
    assert world.run(build, lambda: len(world.values(1)) >= 15) is None
    assert world.run(build, lambda: last <= set(world.values(1))) is None

    seen = world.values(1)
    assert max(seen.values()) == 1, "a count was emitted twice, so state and emission were torn"
    assert max(seen) == 129  # type: ignore[type-var]  # whole numbers all of them


class Once(ss.driver.SourceFunction[object]):
    """Emits what it is given."""

    def __init__(self, *rows: object) -> None:
        self.rows = rows

    def run(self, ctx: ss.driver.SourceContext[object]) -> None:
        for row in self.rows:
            ctx.collect(row)

    def cancel(self) -> None:
        pass


VALUES = (
    7,
    "text",
    2.5,
    True,
    b"bytes",
    datetime.date(2026, 1, 2),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 678),
    decimal.Decimal("1.20"),
    [1, None],
    {"a": 1},
    (1, "x"),
    None,
)
SCHEMA = (
    "a BIGINT, b STRING, c DOUBLE, d BOOLEAN, e BINARY, f DATE, g TIMESTAMP, h DECIMAL(10, 2), i ARRAY<INT>, "
    "j MAP<STRING, INT>, k STRUCT<x: INT, y: STRING>, l STRING"
)


class Keeping(ss.driver.SinkFunction[Row]):
    """Writes what it was given, as Python shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def invoke(self, value: Row) -> None:
        (self.folder / "row.txt").write_text(repr(tuple(value)))


def test_every_type_of_column_passes(world: World) -> None:
    def build(spark: SparkSession) -> Output:
        frame = ss.read_function(spark, function=Once(VALUES), schema=SCHEMA, uid="once")
        return ss.write(frame, sink=ss.sinks.DriverSink(Keeping(world.folder)), uid="keep")

    written = world.folder / "row.txt"
    assert world.run(build, written.exists) is None

    expected = list(VALUES)
    expected[4], expected[10] = bytearray(b"bytes"), Row(x=1, y="x")
    assert written.read_text() in (repr(tuple(expected)), repr((*VALUES[:10], Row(x=1, y="x"), None)))


@pytest.mark.parametrize(
    ("file", "query", "written"),
    [
        pytest.param("buffering_sink.py", "buffering", "from-*.json", id="the buffering sink"),
        pytest.param("broadcast_rules.py", "numbers_by_rule", "divisible-by-2.*.txt", id="the rule filter"),
    ],
)
def test_the_examples_run(world: World, file: str, query: str, written: str) -> None:
    example = runpy.run_path(str(EXAMPLES / file))
    parameters = {"output": str(world.folder), "rows_per_second": "100", "threshold": "5"}
    context = ss.QueryContext("example", "default", parameters)

    error = world.run(lambda spark: example[query](spark, context), lambda: any(world.folder.glob(written)))

    assert error is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param({"uid": "Not a uid"}, "UidInvalid", id="uid"),
        pytest.param({"schema": "n BIGINTT"}, "SchemaInvalid", id="schema"),
        pytest.param({"schema": ""}, "SchemaInvalid", id="no column"),
        pytest.param({"parallelism": 0}, "ParallelismInvalid", id="parallelism"),
        pytest.param({"buffer_rows": 0}, "BufferInvalid", id="buffer"),
        pytest.param({"function": RangeSource}, "FunctionInvalid", id="a class instead of an instance"),
    ],
)
def test_a_source_that_cannot_be_meant_is_refused(
    spark: SparkSession, arguments: dict[str, object], reason: str
) -> None:
    declared = functions.JobFunctions()
    given = {"function": RangeSource(), "schema": "n BIGINT", "uid": "ranges", **arguments}

    with declared.collecting("numbers"), pytest.raises(errors.SpecRejectedError) as caught:
        ss.read_function(spark, **given)  # type: ignore[arg-type]

    assert caught.value.reason == reason


def test_a_source_outside_a_query_function_is_refused(spark: SparkSession) -> None:
    with pytest.raises(errors.SpecRejectedError, match="outside a query function"):
        ss.read_function(spark, function=RangeSource(), schema="n BIGINT", uid="ranges")


def test_two_functions_with_one_uid_are_refused(world: World) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        world.run(numbers(world, sink_uid="ranges"), lambda: True)

    assert caught.value.reason == "OperatorUidTaken"


class Everywhere(ss.driver.BroadcastSinkFunction[Row]):
    """Takes rows, and rows for all."""

    def invoke(self, value: Row) -> None:
        pass

    def invoke_broadcast(self, value: Row) -> None:
        pass


@pytest.mark.parametrize(
    "condition", ["kind = 'rule'", "value", "value >"], ids=["no column", "no condition", "no SQL"]
)
def test_a_broadcast_condition_that_spark_cannot_evaluate_is_refused(spark: SparkSession, condition: str) -> None:
    rates = spark.readStream.format("rate").load()
    output = ss.write(rates, sink=ss.sinks.DriverSink(Everywhere(), broadcast=condition), uid="everywhere")

    with pytest.raises(errors.SpecRejectedError, match="broadcast=") as caught:
        functions.JobFunctions().declare("numbers", read_result(output, "numbers"))

    assert caught.value.reason == "FunctionInvalid"
