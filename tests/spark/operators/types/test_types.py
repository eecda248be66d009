# ruff: noqa: N802, N803 - processors have Spark's names
"""Every value of every type through Spark's doors: what comes out of state is what Spark shows of the column.

A query has all columns of the matrix side by side. Its first batch stores them, the second has them from memory, the third
from storage, in new worker processes. Each time `to_json` says the same of what the operator gives as of the column itself.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import statefulspark as ss
from keyedstream import FileStream
from machines import files_sink, kafka_sink
from manifests import a_manifest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession, types
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from sinkcontexts import a_sink_context
from statefulspark.checkpoint import closure, savepoint
from statefulspark.cli import state as state_command
from statefulspark.contract import layout
from statefulspark.contract.manifest import SnapshotFormat, SnapshotKind
from statefulspark.driver.output import parts
from statefulspark.engine.canonical import export
from statefulspark.operators.keyed import operator
from statefulspark.operators.transform import operator as transform_operator
from statefulspark.sinks import base, staging
from statefulspark.sinks.files import commits
from statefulspark.sinks.kafka import JsonSerializer
from statefulspark.storage import StorageOptions, open_store
from typematrix import kinds, reading

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SUMMER_TIME = "America/New_York"
LOCAL = StorageOptions(allow_local_files=True)
COLUMNS = kinds.columns()
NAMES = tuple(column.name for column in COLUMNS)
KEYS = tuple(column.name for column in COLUMNS if operator.is_plain_key(column.kind))
SPARKS_KEYS = tuple(column.name for column in COLUMNS if transform_operator._is_key(column.kind))
FIELDS = tuple(types.StructField(column.name, column.kind) for column in COLUMNS)
OUTPUT = types.StructType(
    [
        types.StructField("door", types.StringType()),
        types.StructField("pid", types.IntegerType()),
        types.StructField("n", types.LongType()),
        *FIELDS,
    ]
)
KEPT = types.StructType([types.StructField("n", types.LongType()), *FIELDS])
"""The state of a processor."""
KEPT_KEY = types.StructType([KEPT["n"], *(KEPT[name] for name in KEYS)])
_BOUNDED = types.TimestampType | types.TimestampNTZType | types.DayTimeIntervalType
FRAME = types.StructType(
    [
        field
        for field in KEPT
        if not isinstance(field.dataType, _BOUNDED) and not re.search(r"float|double|timestamp\b(?!_ntz)", field.name)
    ]
)
"""The columns that a frame of pandas has all values of, as with Spark.

It has 292 years around 1970, null in place of NaN, and points in time without a zone.
"""
SPARKS_FRAME_KEYS = tuple(name for name in SPARKS_KEYS if name in FRAME.names)
Build = Callable[[DataFrame], DataFrame]
Texts = dict[str, tuple[str, ...]]


@pytest.fixture(scope="module")
def zoned(spark: SparkSession) -> Iterator[SparkSession]:
    # Code for so many columns is slower to compile than to interpret, and has no part in this.
    settings = {
        "spark.sql.session.timeZone": SUMMER_TIME,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def matrix(spark: SparkSession) -> DataFrame:
    """Return all columns, with the number of each row."""
    table = kinds.frame(COLUMNS)
    numbered = table.add_column(0, "n", pa.array(range(table.num_rows), pa.int64()))
    return spark.createDataFrame(numbered, types.StructType([types.StructField("n", types.LongType()), *FIELDS]))


def is_by_binary(kind: types.DataType) -> bool:
    """Tell whether a type is a map of which Spark's JSON has addresses of objects for keys."""
    return isinstance(kind, types.MapType) and isinstance(kind.keyType, types.BinaryType)


def text_of(column: kinds.Column) -> str:
    """Return what Spark shows of a column."""
    value = f"map_entries(`{column.name}`)" if is_by_binary(column.kind) else f"`{column.name}`"
    return f"to_json(struct({value} as c)) as `{column.name}`"


JSON_COLUMNS = tuple(column for column in COLUMNS if not is_by_binary(column.kind))
TEXTS = tuple(map(text_of, COLUMNS))


def texts(rows: Iterable[Row], names: Sequence[str]) -> Texts:
    """Return what Spark shows of each column, by row number."""
    ordered = sorted(rows, key=lambda row: row["n"])
    return {name: tuple(row[name] for row in ordered) for name in names}


class Rows(ss.KeyedProcessFunction):
    """Keeps a row in each kind of state, and gives what is kept."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.value = ctx.value_state("value")
        self.list = ctx.list_state("list")
        self.map = ctx.map_state("map")
        self.by_value = ctx.map_state("by_value")

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[dict[str, object]]:
        (row,) = rows
        if self.value.get() is None:
            given = {name: row[name] for name in NAMES}
            self.value.update(given)
            self.list.update([(value,) for value in given.values()])
            for name, value in given.items():
                self.map.put(name, (value,))
                if name in KEYS:
                    self.by_value.put((name, value), 1)
        told = {"pid": os.getpid(), "n": key}
        yield {"door": "value", **told, **self.value.get()}
        yield {"door": "list", **told, **{name: value for name, (value,) in zip(NAMES, self.list.get(), strict=True)}}
        yield {"door": "map", **told, **{name: value for name, (value,) in self.map.items()}}
        yield {"door": "map key", **told, **dict(self.by_value.keys())}


class Keys(ss.KeyedProcessFunction):
    """Gives its key, with the row numbers of its first batch."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.numbers = ctx.list_state("numbers", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[dict[str, object]]:
        if not self.numbers.get():
            self.numbers.update([row["n"] for row in rows])
        values = dict(zip(KEYS, key, strict=True))
        for number in self.numbers.get():
            yield {"door": "key", "pid": os.getpid(), "n": number, **values}


class Tables(ss.VectorizedProcessFunction):
    """Keeps each column in a state of its type, and gives what is kept."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.columns = [
            ctx.value_state(f"column_{number}", column.kind.simpleString()) for number, column in enumerate(COLUMNS)
        ]
        self.seen = ctx.value_state("seen", bool)

    def process_table(self, rows: pa.Table, ctx: ss.KeyedContext) -> pa.Table:
        keys = ctx.keys(rows)
        if not any(self.seen.get_many(keys)):
            self.seen.update_many(keys, [True] * len(keys))
            for name, state in zip(NAMES, self.columns, strict=True):
                state.update_many(keys, ctx.values(rows.column(name)))
        given = {
            name: pa.array(state.get_many(keys), rows.schema.field(name).type)
            for name, state in zip(NAMES, self.columns, strict=True)
        }
        told = {"door": ["table"] * len(keys), "pid": pa.array([os.getpid()] * len(keys), pa.int32())}
        return pa.table({**told, "n": rows.column("n"), **given})


def as_state(kind: types.DataType, value: object) -> object:
    """Return a value of a Row as a state takes it: a map is a dict there, and pairs in a Row, as with Spark."""
    if value is None:
        return None
    if isinstance(kind, types.MapType):
        return {as_key(key): as_state(kind.valueType, item) for key, item in value}  # type: ignore[attr-defined]
    if isinstance(kind, types.ArrayType):
        return [as_state(kind.elementType, item) for item in value]  # type: ignore[attr-defined]
    if isinstance(kind, types.StructType):
        return {field.name: as_state(field.dataType, value[field.name]) for field in kind}  # type: ignore[index]
    return value


def as_key(key: object) -> object:
    """Return a key that Python does not take for another one: a point in time in UTC."""
    is_moment = isinstance(key, datetime.datetime) and key.tzinfo is not None
    return key.astimezone(datetime.UTC) if is_moment else key  # type: ignore[attr-defined]


class Processor(StatefulProcessor):
    """Keeps rows in each kind of state of Spark's, by a key of many columns, and gives key and rows."""

    def init(self, handle) -> None:
        self.value = handle.getValueState("value", KEPT)
        self.list = handle.getListState("list", KEPT)
        self.map = handle.getMapState("map", KEPT_KEY, KEPT)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        if not self.value.exists():
            given = [tuple(as_state(field.dataType, row[field.name]) for field in KEPT) for row in rows]
            self.value.update(given[0])
            self.list.put(given)
            for row in given:
                self.map.updateValue(
                    tuple(dict(zip(KEPT.names, row, strict=True))[name] for name in KEPT_KEY.names), row
                )
        else:
            list(rows)
        told = {"pid": os.getpid()}
        yield Row(door="value", **told, **dict(zip(KEPT.names, self.value.get(), strict=True)))
        for row in self.list.get():
            values = dict(zip(KEPT.names, row, strict=True))
            yield Row(door="list", **told, **values)
            yield Row(door="key", **told, n=values["n"], **dict(zip(SPARKS_KEYS, key, strict=True)))
        for entry, row in self.map.iterator():
            yield Row(door="map", **told, **dict(zip(KEPT.names, row, strict=True)))
            yield Row(door="map key", **told, **dict(zip(KEPT_KEY.names, entry, strict=True)))


def plain(value: object) -> object:
    """Return a value with dicts for its Rows, as a frame takes it."""
    if isinstance(value, Row):
        return {name: plain(part) for name, part in value.asDict().items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def keep(key: tuple[object, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Keep the first row of a key in a state of Spark's older operator, and give it, and the key."""
    given = [row for frame in frames for row in frame[list(FRAME.names)].itertuples(index=False, name=None)]
    if not state.exists:
        state.update(tuple(given[0]))
    kept = {"door": "frame", **dict(zip(FRAME.names, map(plain, state.get), strict=True))}
    named = {"door": "frame key", "n": kept["n"], **dict(zip(SPARKS_FRAME_KEYS, key, strict=True))}
    rows = [[{"pid": os.getpid(), **given}.get(name) for name in OUTPUT.names] for given in (kept, named)]
    yield pd.DataFrame(rows, columns=OUTPUT.names, dtype="object")


def by_rows(rows: DataFrame) -> DataFrame:
    return ss.keyed_process(rows, key="n", function=Rows(), uid="types", schema=OUTPUT, max_parallelism=2)


def by_keys(rows: DataFrame) -> DataFrame:
    return ss.keyed_process(rows, key=KEYS, function=Keys(), uid="types", schema=OUTPUT, max_parallelism=2)


def by_tables(rows: DataFrame) -> DataFrame:
    return ss.keyed_process(rows, key="n", function=Tables(), uid="types", schema=OUTPUT, max_parallelism=2)


def by_processor(rows: DataFrame) -> DataFrame:
    grouped = rows.groupBy(*(f"`{name}`" for name in SPARKS_KEYS))
    return ss.compat.transform_with_state(
        grouped, Processor(), OUTPUT, "Update", "None", uid="types", max_parallelism=2
    )


def by_frames(rows: DataFrame) -> DataFrame:
    grouped = rows.select("n", *(f"`{name}`" for name in FRAME.names[1:])).groupBy(
        *(f"`{name}`" for name in SPARKS_FRAME_KEYS)
    )
    timeout = GroupStateTimeout.NoTimeout
    return ss.compat.apply_in_pandas_with_state(
        grouped, keep, OUTPUT, FRAME, "Update", timeout, uid="types", max_parallelism=2
    )


DOORS: dict[str, tuple[Build, dict[str, Sequence[str]]]] = {
    "rows": (by_rows, {"value": NAMES, "list": NAMES, "map": NAMES, "map key": KEYS}),
    "keys": (by_keys, {"key": KEYS}),
    "tables": (by_tables, {"table": NAMES}),
    "processor": (
        by_processor,
        {"value": NAMES, "list": NAMES, "map": NAMES, "map key": KEPT_KEY.names[1:], "key": SPARKS_KEYS},
    ),
    "frames": (by_frames, {"frame": FRAME.names[1:], "frame key": SPARKS_FRAME_KEYS}),
}


def expected_texts(spark: SparkSession) -> Texts:
    """Return what Spark shows of each column itself."""
    return texts(matrix(spark).selectExpr("n", *TEXTS).collect(), NAMES)


def written(rows: DataFrame, sink: base.TwoPhaseSink, context: base.SinkContext) -> tuple[bytes, ...]:
    """Stage rows as a batch of a query does."""
    write = functools.partial(parts.write_parts, writers=[parts.PartWriter(sink, context)])
    return tuple(bytes(row.part) for row in rows.mapInArrow(write, parts.SCHEMA).collect())


def canonical_savepoint(spark: SparkSession, folder: Path) -> str:
    """Take one of the query below a folder, and return where it is."""
    store = open_store(folder.as_uri(), LOCAL)
    root = layout.query_root(1, "q")
    entry = closure.close_over(store, root, max(map(int, filter(str.isdigit, os.listdir(folder / root / "commits")))))
    known = {"key": "bigint", "max_parallelism": 2}
    entry = entry.model_copy(update={"operators": tuple(one.model_copy(update=known) for one in entry.operators)})
    work = export.Export(store, folder.as_uri(), savepoint.SavepointTarget(store, "savepoints/1"), LOCAL)
    manifest = a_manifest(1, export.export(spark, [entry], work))
    canonical = {"kind": SnapshotKind.SAVEPOINT, "format": SnapshotFormat.CANONICAL}
    store.write("savepoints/1/_metadata.json", manifest.model_copy(update=canonical).to_json(indent=1).encode())
    return f"{folder.as_uri()}/savepoints/1"


@pytest.mark.parametrize("door", DOORS)
def test_what_an_operator_gives_is_what_spark_shows(zoned: SparkSession, tmp_path: Path, door: str) -> None:
    build, names_of = DOORS[door]
    table, expected = matrix(zoned), expected_texts(zoned)
    stream = FileStream(zoned, tmp_path, "n bigint")
    stream.checkpoint = tmp_path / layout.query_root(1, "q")

    def query(rows: DataFrame) -> DataFrame:
        return build(rows.join(sql.broadcast(table), "n")).selectExpr("door", "pid", "n", *TEXTS)

    for batches in (2, 1):
        for _ in range(batches):
            stream.feed([(n,) for n in range(len(expected[NAMES[0]]))])
        stream.run(query)
        for pid in {row.pid for rows in stream.batches.values() for row in rows}:
            end(pid)

    problems = [
        f"batch {number}, {kind}, {name}, row {row['n']}: {row[name]:.100} is {expected[name][row['n']]:.100}"
        for number, rows in stream.batches.items()
        for row in rows
        for kind, names in names_of.items()
        if row["door"] == kind
        for name in names
        if row[name] != expected[name][row["n"]]
    ]
    assert problems == []
    kinds_of = {number: {row["door"] for row in rows} for number, rows in stream.batches.items()}
    assert kinds_of == dict.fromkeys(range(3), names_of.keys())
    if door == "tables":
        assert_state_reads(canonical_savepoint(zoned, tmp_path), expected)


def assert_state_reads(snapshot: str, expected: Texts) -> None:
    """Compare what `state read` prints with what Spark shows."""
    for number, column in enumerate(COLUMNS):
        if column not in JSON_COLUMNS or isinstance(column.kind, types.NullType):
            continue  # There is no state without a value.
        table = ss.read_state(snapshot, uid="types", state=f"column_{number}", options=LOCAL)
        lines = map(json.loads, state_command.render(table, state_command.StateOutput.JSON).rstrip("\n").split("\n"))
        # A value that has no form in Arrow is a text of JSON.
        is_text = pa.types.is_string(table.schema.field("value").type) and not isinstance(column.kind, types.StringType)
        values = {line["key"]: json.loads(line["value"]) if is_text else line["value"] for line in lines}
        found = {n: reading.OURS.value(column.kind, value) for n, value in values.items()}
        shown = {n: reading.SPARK.read(column.kind, text) for n, text in enumerate(expected[column.name])}
        assert found == {n: value for n, value in shown.items() if value is not None}, column.name


def test_a_record_of_kafka_has_what_spark_shows(zoned: SparkSession, tmp_path: Path) -> None:
    table = matrix(zoned)
    context = a_sink_context(staging_uri=(tmp_path / "staged").as_uri(), options=LOCAL)
    sink = kafka_sink("types", bootstrap_servers="kafka:9092", serializer=JsonSerializer(key="n"))
    staged = staging.merge(written(table, sink, context))
    assert staged is not None
    values = [
        json.loads(value) for batch in staging.read(staged, context) for value in batch.column("value").to_pylist()
    ]
    shown = expected_texts(zoned)
    for value in values:
        for column in JSON_COLUMNS:
            ours = reading.OURS.value(column.kind, value[column.name])
            theirs = reading.SPARK.read(column.kind, shown[column.name][value["n"]])
            assert ours == theirs, (column.name, value["n"])
    assert sorted(value["n"] for value in values) == list(range(len(shown[NAMES[0]])))


def test_files_have_what_spark_shows(zoned: SparkSession, tmp_path: Path) -> None:
    context = a_sink_context(
        staging_uri=(tmp_path / "staged").as_uri(), notes_uri=(tmp_path / "notes").as_uri(), options=LOCAL
    )
    sink = files_sink((tmp_path / "out").as_uri())
    parts = written(matrix(zoned), sink, context)
    sink.open(replace(context, batch_id=-1))
    transaction = sink.prepare(parts, context)
    assert transaction is not None
    sink.commit(transaction, context)
    (commit,) = commits.read_commits(open_store(sink.settings.uri, LOCAL))
    as_spark = [column for column in COLUMNS if not re.search(r"void|interval|time\(", column.name)]
    names = [column.name for column in as_spark]
    schema = types.StructType([KEPT["n"], *(KEPT[name] for name in names)])
    read = zoned.read.schema(schema).parquet(*(str(tmp_path / "out" / part.path) for part in commit.files))
    found, shown = texts(read.selectExpr("n", *map(text_of, as_spark)).collect(), names), expected_texts(zoned)
    assert found == {name: shown[name] for name in names}


def end(pid: int) -> None:
    """End a worker, and all that it keeps in memory."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
