# ruff: noqa: N802, N803 - processors have Spark's names
"""The state of a processor as `ss.read_state` shows it beside what Spark's reader shows of Spark's operator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import statefulspark as ss
from manifests import a_manifest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from statefulspark import storage
from statefulspark.checkpoint import closure, savepoint
from statefulspark.contract import layout
from statefulspark.contract.manifest import SnapshotFormat, SnapshotKind
from statefulspark.engine.canonical import export

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TTL_MS = 10**9
LOCAL = storage.StorageOptions(allow_local_files=True)
ROWS = [("a", 1), ("a", 5), ("b", 2)]
SPARK_TIMERS = "readRegisteredTimers"
Table = list[tuple[object, ...]]


class Keeper(StatefulProcessor):
    """Has a state of each kind, one with a time to live, and a timer."""

    def init(self, handle) -> None:
        self._handle = handle
        self._total = handle.getValueState("total", "n bigint, last string", TTL_MS)
        self._times = handle.getListState("times", "at bigint")
        self._digits = handle.getMapState("digits", "digit bigint", "n int")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        found = [row.at for row in rows]
        self._total.update((sum(found), key[0]))
        self._times.put([(at,) for at in found])
        for at in found:
            self._digits.updateValue((at % 3,), (at,))
        self._handle.registerTimer(10**15 + found[0])
        yield Row(key=key[0])


def _run(spark: SparkSession, folder: Path, checkpoint: Path, build: Callable[[DataFrame], DataFrame]) -> None:
    spark.createDataFrame(ROWS, "key string, at bigint").coalesce(1).write.parquet(str(folder / "input"))
    source = spark.readStream.schema("key string, at bigint").parquet(str(folder / "input"))
    writer = build(source).writeStream.outputMode("update").format("noop").trigger(once=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def _by_sparks_reader(spark: SparkSession, checkpoint: Path, *columns: str, **options: str) -> Table:
    reader = spark.read.format("statestore").options(**options)
    return sorted(map(tuple, reader.load(str(checkpoint)).selectExpr(*columns).collect()))


@pytest.fixture(scope="module")
def spark_checkpoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark")
    arguments = (Keeper(), "key string", "Update", "ProcessingTime")
    _run(spark, folder, folder / "checkpoint", lambda rows: rows.groupBy("key").transformWithState(*arguments))
    return folder / "checkpoint"


@pytest.fixture(scope="module")
def our_root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run with our operator, and take a canonical savepoint."""
    folder = tmp_path_factory.mktemp("ours")
    arguments = (Keeper(), "key string", "Update", "ProcessingTime")

    def build(rows: DataFrame) -> DataFrame:
        return ss.compat.transform_with_state(rows.groupBy("key"), *arguments, uid="kept", max_parallelism=4)

    _run(spark, folder, folder / layout.query_root(1, "q"), build)
    store = storage.open_store(f"file://{folder}", LOCAL)
    entry = closure.close_over(store, layout.query_root(1, "q"), 0)
    known = {"key": "string", "max_parallelism": 4}
    entry = entry.model_copy(update={"operators": tuple(one.model_copy(update=known) for one in entry.operators)})
    work = export.Export(store, f"file://{folder}", savepoint.SavepointTarget(store, "savepoints/1"), LOCAL)
    manifest = a_manifest(1, export.export(spark, [entry], work))
    canonical = {"kind": SnapshotKind.SAVEPOINT, "format": SnapshotFormat.CANONICAL}
    store.write("savepoints/1/_metadata.json", manifest.model_copy(update=canonical).to_json(indent=1).encode())
    return folder


def _by_ours(root: Path, state: str) -> tuple[list[str], list[dict[str, object]]]:
    table = ss.read_state(f"file://{root}/savepoints/1", uid="kept", state=state, options=LOCAL)
    return table.column_names, sorted(table.to_pylist(), key=str)


def test_a_value_has_the_columns_of_spark_and_its_time_to_live(
    spark: SparkSession, spark_checkpoint: Path, our_root: Path
) -> None:
    columns = ("key.key", "value.value.n", "value.value.last")
    expected = _by_sparks_reader(spark, spark_checkpoint, *columns, stateVarName="total")
    names, found = _by_ours(our_root, "total")
    assert names == ["key", "value", "renewed_ms"]
    assert [(row["key"], row["value"]["n"], row["value"]["last"]) for row in found] == expected  # type: ignore[index]
    (expiry_ms,) = {row["renewed_ms"] + TTL_MS for row in found}  # type: ignore[operator]
    (told_ms,) = _by_sparks_reader(spark, spark_checkpoint, "value.ttlExpirationMs", stateVarName="total")[0]
    now_ms = datetime.now(UTC).timestamp() * 1000
    assert 0 < now_ms - (expiry_ms - TTL_MS) < 3_600_000
    assert 0 < now_ms - (told_ms - TTL_MS) < 3_600_000


def test_a_list_has_a_row_for_each_element_and_its_place_besides(
    spark: SparkSession, spark_checkpoint: Path, our_root: Path
) -> None:
    expected = _by_sparks_reader(spark, spark_checkpoint, "key.key", "list_element.at", stateVarName="times")
    names, found = _by_ours(our_root, "times")
    assert names == ["key", "index", "value"]
    assert sorted((row["key"], row["value"]["at"]) for row in found) == expected  # type: ignore[index]


def test_a_map_has_a_row_for_each_entry(spark: SparkSession, spark_checkpoint: Path, our_root: Path) -> None:
    columns = ("key.key", "user_map_key.digit", "user_map_value.n")
    expected = _by_sparks_reader(spark, spark_checkpoint, *columns, stateVarName="digits")
    names, found = _by_ours(our_root, "digits")
    assert names == ["key", "entry", "value"]
    assert sorted((row["key"], row["entry"]["digit"], row["value"]["n"]) for row in found) == expected  # type: ignore[index]


def test_a_timer_has_key_and_moment(spark: SparkSession, spark_checkpoint: Path, our_root: Path) -> None:
    columns = ("key.key", "expiration_timestamp_ms")
    expected = _by_sparks_reader(spark, spark_checkpoint, *columns, **{SPARK_TIMERS: "true"})
    names, found = _by_ours(our_root, "_timer_state/processing_user-timers")
    assert names[:2] == ["key", "entry"]
    assert sorted((row["key"], row["entry"]) for row in found) == expected


def test_sparks_reader_does_not_know_our_states(spark: SparkSession, our_root: Path) -> None:
    with pytest.raises(PySparkException, match="total is not defined"):
        _by_sparks_reader(spark, our_root / layout.query_root(1, "q"), "*", stateVarName="total")
