"""A job that counts rows per key as fast as it can; rows are made by Spark's own rate source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import statefulspark as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("counting")


@job.query(uid="counts")
def counts(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Count per key."""
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ctx.parameter("rows"))
    rows = made.option("numPartitions", 2).load().selectExpr(f"pmod(hash(value), {ctx.parameter('keys')}) AS key")
    return rows.groupBy("key").count().writeStream.outputMode("update").format("noop")


job.run()
