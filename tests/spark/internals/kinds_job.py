"""One query of each kind of state, over rows of `value` and `at`.

A test sets KIND, or has all of them in one job, and as an upgrade VERSION. Parameter `input` is the folder of the rows, a
file for each batch; `output` gets a folder for each query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pandas as pd
import statefulspark as ss
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import stateful_processor
from pyspark.sql.streaming.state import GroupState

KIND, VERSION = "all", 1
COUNTED = "k bigint, n bigint"
job = ss.Job("kinds")
Query = Callable[[SparkSession, ss.QueryContext], DataFrame]


class Count(ss.KeyedProcessFunction):
    """Counts the rows of each key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.seen = ctx.value_state("seen", int)

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, int]]:
        self.seen.update((self.seen.get() or 0) + len(rows))
        yield key, self.seen.get() or 0


class Processor(stateful_processor.StatefulProcessor):
    """The same with Spark's API."""

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "n bigint")

    def _add(self, rows: int) -> int:
        before = self._seen.get()
        seen = (before[0] if before else 0) + rows
        self._seen.update((seen,))
        return seen

    def handleInputRows(self, key, rows, timerValues):  # type: ignore[no-untyped-def]  # noqa: N802, N803
        yield Row(k=key[0], n=self._add(sum(1 for _ in rows)))

    def close(self) -> None:
        pass


class FrameProcessor(Processor):
    """The same over frames."""

    def handleInputRows(self, key, rows, timerValues):  # type: ignore[no-untyped-def]  # noqa: N802, N803
        yield pd.DataFrame({"k": [key[0]], "n": [self._add(sum(len(frame) for frame in rows))]})


class ListProcessor(stateful_processor.StatefulProcessor):
    """Counts by a list: each batch appends two elements, which RocksDB merges, and finds all of those before."""

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        self._seen = handle.getListState("seen", "n bigint")

    def handleInputRows(self, key, rows, timerValues):  # type: ignore[no-untyped-def]  # noqa: N802, N803
        for _ in rows:
            stored = [element[0] for element in self._seen.get()]
            assert stored == list(range(len(stored))), stored
            self._seen.appendList([(len(stored),), (len(stored) + 1,)])
        yield pd.DataFrame({"k": [key[0]], "n": [len(stored) // 2 + 1]})

    def close(self) -> None:
        pass


def count_in_group(key: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    seen = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((seen,))
    yield pd.DataFrame({"k": [key[0]], "n": [seen]})


def rows(spark: SparkSession, ctx: ss.QueryContext, name: str = "rows") -> DataFrame:
    files = spark.readStream.schema("value bigint, at timestamp").option("maxFilesPerTrigger", 1)
    return ss.named_source(files.parquet(ctx.parameter("input")), uid=name).selectExpr("value % 3 AS k", "value", "at")


def query(*, uid: str, mode: str = "update") -> Callable[[Query], Query]:
    """Declare a query if it is the chosen one."""

    def declare(function: Query) -> Query:
        def output(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
            versioned = function(spark, ctx).withColumn("version", sql.lit(VERSION))
            sink = ss.sinks.FilesSink(f"{ctx.parameter('output')}/{uid}")
            return ss.write(versioned, sink=sink, uid="out", output_mode=mode, trigger="100ms")

        if KIND in (uid, "all"):
            job.query(uid=uid)(output)
        return function

    return declare


@query(uid="keyed")
def keyed(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    return ss.keyed_process(rows(spark, ctx), key="k", function=Count(), uid="count", schema=COUNTED)


@query(uid="aggregation")
def aggregation(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    return rows(spark, ctx).groupBy("k").agg(sql.count("value").alias("n"))


@query(uid="deduplication")
def deduplication(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    """Has so many keys of one type that their order in the state differs between releases, unless a setting pins it."""
    keyed_rows = rows(spark, ctx).selectExpr("k", *(f"k + {number} AS k{number}" for number in range(1, 6)))
    unique = keyed_rows.dropDuplicates(["k5", "k1", "k", "k3", "k2", "k4"])
    return unique.select("k", sql.lit(1).alias("n"))


@query(uid="join", mode="append")
def join(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    """Meets each row with that of the batch before, so the older one comes from the state."""
    earlier = rows(spark, ctx, "earlier").select(sql.col("value").alias("before"))
    pairs = rows(spark, ctx).join(earlier, sql.col("value") == sql.col("before") + 3)
    return pairs.select("k", sql.col("value").alias("n"))


@query(uid="sessions", mode="append")
def sessions(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    timed = rows(spark, ctx).withWatermark("at", "0 seconds").groupBy(sql.session_window("at", "1 second"), "k")
    return timed.count().select("k", sql.unix_seconds("session_window.start").alias("n"))


@query(uid="processor")
def processor(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    grouped = rows(spark, ctx).groupBy("k")
    return ss.compat.transform_with_state(grouped, Processor(), COUNTED, "Update", "None", uid="processor")


@query(uid="processor-of-spark")
def processor_of_spark(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    grouped = rows(spark, ctx).groupBy("k")
    return grouped.transformWithStateInPandas(FrameProcessor(), COUNTED, "Update", "None")


@query(uid="lists-of-spark")
def lists_of_spark(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    grouped = rows(spark, ctx).groupBy("k")
    return grouped.transformWithStateInPandas(ListProcessor(), COUNTED, "Update", "None")


@query(uid="group-state")
def group_state(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    arguments = (count_in_group, COUNTED, "n bigint", "Update", "NoTimeout")
    return ss.compat.apply_in_pandas_with_state(rows(spark, ctx).groupBy("k"), *arguments, uid="group")


@query(uid="group-state-of-spark")
def group_state_of_spark(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    grouped = rows(spark, ctx).groupBy("k")
    return grouped.applyInPandasWithState(count_in_group, COUNTED, "n bigint", "Update", "NoTimeout")


if __name__ == "__main__":
    job.run()
