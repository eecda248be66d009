"""What is relied on inside Spark's JVM: fields that are read or replaced, and the plan of each kind of state."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import stateful_processor
from statefulspark import errors
from statefulspark.engine import session as spark_session
from statefulspark.planning import empty_state, probe, repartition
from statefulspark.sparkinternals import pandasvalues, releases

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
FIELDS = {
    "org.apache.spark.SparkEnv": ("pythonWorkers",),
    "org.apache.spark.sql.classic.DataStreamWriter": ("foreachBatchWriter", "outputMode", "source", "trigger"),
    f"{_RUNTIME}.MicroBatchExecution": ("watermarkPropagator",),
    f"{_RUNTIME}.ProcessingTimeExecutor": ("clock",),
    f"{_RUNTIME}.StreamExecution": ("triggerClock",),
}
"""Private fields by class."""


class Nothing(stateful_processor.StatefulProcessor):
    """A processor without output."""

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        handle.getValueState("seen", "n bigint")

    def handleInputRows(self, key, rows, timerValues):  # type: ignore[no-untyped-def]  # noqa: N802, N803
        yield Row(k=key[0])

    def close(self) -> None:
        pass


def _rows(spark: SparkSession) -> DataFrame:
    numbers = spark.readStream.format("rate").load()
    return numbers.selectExpr("value % 3 AS k", "value", "timestamp AS at").withWatermark("at", "1 second")


def _joined(rows: DataFrame) -> DataFrame:
    other = rows.selectExpr("k AS k2", "value AS value2", "at AS at2")
    return rows.join(other, (sql.col("k") == sql.col("k2")) & (sql.col("at") == sql.col("at2")))


def _grouped(rows: DataFrame) -> DataFrame:
    def nothing(key, frames, state):  # type: ignore[no-untyped-def]
        yield pd.DataFrame({"k": [key[0]]})

    return rows.groupBy("k").applyInPandasWithState(nothing, "k bigint", "n bigint", "Update", "NoTimeout")


KINDS: dict[str, tuple[Callable[[DataFrame], DataFrame], str, str]] = {
    "aggregation": (lambda rows: rows.groupBy("k").count(), "update", "stateStoreSave"),
    "deduplication": (lambda rows: rows.dropDuplicates(["k"]), "append", "dedupe"),
    "deduplication within a watermark": (
        lambda rows: rows.dropDuplicatesWithinWatermark(["k"]),
        "append",
        "dedupeWithinWatermark",
    ),
    "join": (_joined, "append", "symmetricHashJoin"),
    "sessions": (
        lambda rows: rows.groupBy(sql.session_window("at", "1 second"), "k").count(),
        "append",
        "sessionWindowStateStoreSaveExec",
    ),
    "processor": (
        lambda rows: rows.groupBy("k").transformWithState(Nothing(), "k bigint", "Update", "None"),
        "update",
        "transformWithStateInPySparkExec",
    ),
    "group state": (_grouped, "update", "applyInPandasWithState"),
}
"""By kind of state: the query, its output mode, and what Spark calls its operator in metadata."""


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in FIELDS.items() for name in names])
def test_a_class_has_the_field(spark: SparkSession, owner: str, name: str) -> None:
    loaded = spark_session.jvm_view(spark).java.lang.Class.forName(owner)
    assert name in {str(field.getName()) for field in loaded.getDeclaredFields()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_of_a_kind_of_state_names_its_operator(spark: SparkSession, kind: str) -> None:
    query, mode, name = KINDS[kind]
    (operator,) = probe.plan(query(_rows(spark)), mode).operators
    assert (operator.operator_id, operator.name) == (0, name)


@pytest.mark.parametrize("kind", ["aggregation", "processor"])
def test_a_run_over_no_rows_writes_empty_state_and_its_metadata(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    query, mode, _ = KINDS[kind]
    root = tmp_path / "root"
    (root / "offsets").mkdir(parents=True)
    (root / "offsets" / "0").write_text("v1\n{}\n")

    written = empty_state.run(query(_rows(spark)), mode, f"file:{root}", partitions=2, operators={0})

    assert len(written.ids[0]) == 2
    assert (root / "state" / "0" / "_metadata").is_dir()


def test_arrow_columns_are_the_pandas_values_of_functions() -> None:
    import pyarrow as pa

    table = pa.table({"n": [1, 2], "at": pa.array([0, 1_000_000], pa.timestamp("us", "UTC"))})
    numbers, moments = pandasvalues.to_series(table, timezone="UTC")
    assert (numbers.name, numbers.tolist()) == ("n", [1, 2])
    assert (moments.name, moments.tolist()) == ("at", [pd.Timestamp(0), pd.Timestamp(1, unit="s")])


def test_a_release_that_cannot_rewrite_state_refuses_it_by_name(spark: SparkSession) -> None:
    if releases.has(releases.REPARTITION):
        assert spark._jsparkSession.streamingCheckpointManager() is not None
        return
    with pytest.raises(errors.SpecRejectedError, match="SPARK-54924") as refused:
        repartition.repartition(spark, "file:/nowhere", 3)
    assert refused.value.reason == "SparkTooOld"
