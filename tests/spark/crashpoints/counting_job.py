"""A job whose every batch can be checked: 20 rows a batch, counted per key, the counts written to a file per attempt.

Parameter `output`: a folder. A file is named `<batch>-<process>.json`; its counts add up to the rows of all batches so
far, whoever computed them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

ROWS_PER_BATCH = 20
job = ss.Job("counting")


@job.query(uid="counts")
def counts(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    folder = Path(ctx.parameter("output"))
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_PER_BATCH).load()

    def write(rows: DataFrame, batch: int) -> None:
        path = folder / f"{batch:06d}-{os.getpid()}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps({str(row["k"]): row["count"] for row in rows.collect()}))
        part.rename(path)  # in one step, since this process may be killed at any moment

    counted = source.selectExpr("value % 10 as k").groupBy("k").count()
    return counted.writeStream.outputMode("complete").foreachBatch(write).trigger(processingTime="300 milliseconds")


if __name__ == "__main__":
    job.run()
