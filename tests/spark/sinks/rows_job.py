"""A job from files of words to a table: its code gets one word wrong until it is corrected.

Parameters: `input`, `dsn`, and `corrected`.
"""

from __future__ import annotations

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("words")


@job.query(uid="words")
def words(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    read = spark.readStream.schema("id bigint, word string").option("maxFilesPerTrigger", "1")
    rows = read.json(ctx.parameter("input"))
    if ctx.parameter("corrected") == "yes":
        rows = rows.selectExpr("id", "substring(word, 1, 5) as word")
    sink = ss.sinks.PostgresSink("words", dsn=ctx.parameter("dsn"))
    return ss.write(rows, sink=sink, uid="out", trigger="100ms")


if __name__ == "__main__":
    job.run()
