"""A job with state of two kinds: a keyed function and an aggregation over the same files, each with a sink of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import statefulspark as ss

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

job = ss.Job("starting")


class Count(ss.KeyedProcessFunction):
    """Counts the rows of each key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the value."""
        self.seen = ctx.value_state("seen", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Add the rows."""
        seen = (self.seen.get() or 0) + len(rows)
        self.seen.update(seen)
        yield key, seen


def _rows(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    return spark.readStream.schema("key bigint").parquet(ctx.parameter("input"))


@job.query(uid="keyed")
def keyed(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Count in Python."""
    counts = ss.keyed_process(
        _rows(spark, ctx), key="key", function=Count(), uid="count", schema="key bigint, seen bigint"
    )
    return ss.write(counts, sink=ss.sinks.FilesSink(f"{ctx.parameter('output')}/keyed"), uid="keyed-out")


@job.query(uid="aggregated")
def aggregated(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Count in the JVM."""
    counts = _rows(spark, ctx).groupBy("key").count()
    return ss.write(
        counts,
        sink=ss.sinks.FilesSink(f"{ctx.parameter('output')}/aggregated"),
        uid="aggregated-out",
        output_mode="update",
    )


job.run()
