"""One query of each kind of state, over rows of `value` and `timestamp`. A test sets KIND, and as an upgrade VERSION."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pandas as pd
import statefulspark as ss
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import stateful_processor
from pyspark.sql.streaming.state import GroupState

KIND, VERSION = "keyed", 1
COUNTED = "k bigint, n bigint"
job = ss.Job("kinds")
Query = Callable[[SparkSession, ss.QueryContext], ss.Output]


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


def count_in_group(key: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    seen = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((seen,))
    yield pd.DataFrame({"k": [key[0]], "n": [seen]})


def rows(spark: SparkSession, name: str = "rows") -> DataFrame:
    numbers = ss.named_source(spark.readStream.format("rate").load(), uid=name)
    return numbers.selectExpr("value % 3 AS k", "value", "timestamp AS at")


def out(result: DataFrame, mode: str = "update") -> ss.Output:
    versioned = result.withColumn("version", sql.lit(VERSION))
    return ss.write(versioned, sink=ss.sinks.FilesSink("s3://nobody/out"), uid="out", output_mode=mode)


def query(*, uid: str) -> Callable[[Query], Query]:
    """Declare a query if it is the chosen one."""
    return job.query(uid=uid) if uid == KIND else lambda function: function


@query(uid="keyed")
def keyed(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    return out(ss.keyed_process(rows(spark), key="k", function=Count(), uid="count", schema=COUNTED))


@query(uid="aggregation")
def aggregation(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    return out(rows(spark).groupBy("k").agg(sql.count("value").alias("n")))


@query(uid="deduplication")
def deduplication(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    return out(rows(spark).dropDuplicates(["k"]).select("k", sql.lit(1).alias("n")))


@query(uid="join")
def join(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Meets each row with that of the batch before, so the older one comes from the state."""
    earlier = rows(spark, "earlier").select(sql.col("value").alias("before"))
    pairs = rows(spark).join(earlier, sql.col("value") == sql.col("before") + 3)
    return out(pairs.select("k", sql.col("value").alias("n")), "append")


@query(uid="sessions")
def sessions(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    timed = rows(spark).withWatermark("at", "0 seconds").groupBy(sql.session_window("at", "1 second"), "k")
    return out(timed.count().select("k", sql.unix_seconds("session_window.start").alias("n")), "append")


@query(uid="processor")
def processor(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    grouped = rows(spark).groupBy("k")
    return out(ss.compat.transform_with_state(grouped, Processor(), COUNTED, "Update", "None", uid="processor"))


@query(uid="processor-of-spark")
def processor_of_spark(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    grouped = rows(spark).groupBy("k")
    return out(grouped.transformWithStateInPandas(FrameProcessor(), COUNTED, "Update", "None"))


@query(uid="group-state")
def group_state(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    arguments = (count_in_group, COUNTED, "n bigint", "Update", "NoTimeout")
    return out(ss.compat.apply_in_pandas_with_state(rows(spark).groupBy("k"), *arguments, uid="group"))


@query(uid="group-state-of-spark")
def group_state_of_spark(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    return out(
        rows(spark).groupBy("k").applyInPandasWithState(count_in_group, COUNTED, "n bigint", "Update", "NoTimeout")
    )
