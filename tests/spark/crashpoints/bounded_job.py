"""A job of two queries: one reads the files that are there and ends, the other has no end.

Parameters: `input`, a folder of JSON files with a column `k`; `output`, a folder that gets a file
`<query>-<batch>-<process>.json` per attempt at a batch, with the counts of all batches so far.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("bounded")


@job.query(uid="bounded")
def bounded(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    source = spark.readStream.schema("k int").option("maxFilesPerTrigger", 1).json(ctx.parameter("input"))
    counted = source.groupBy("k").count()
    return _to_files(counted, "bounded", ctx).trigger(availableNow=True)


@job.query(uid="endless")
def endless(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    counted = source.selectExpr("value % 5 as k").groupBy("k").count()
    return _to_files(counted, "endless", ctx).trigger(processingTime="300 milliseconds")


def _to_files(counted: DataFrame, query: str, ctx: ss.QueryContext) -> DataStreamWriter:
    return counted.writeStream.outputMode("complete").foreachBatch(_writer(Path(ctx.parameter("output")), query))


def _writer(folder: Path, query: str) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, batch: int) -> None:
        path = folder / f"{query}-{batch:06d}-{os.getpid()}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps({str(row["k"]): row["count"] for row in rows.collect()}))
        part.rename(path)

    return write


if __name__ == "__main__":
    job.run()
