"""A streaming query over files, one file per batch, run until all files are read; what it emitted is kept per batch."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

_ARROW = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32()}


class FileStream:
    """Input files, a checkpoint root and the output of one query, across its restarts.

    Attributes:
        batches: Rows that each batch emitted; a batch that ran again replaced them.
        after_batch: Called when a batch has emitted its rows, before Spark notes that it is done.
    """

    def __init__(self, spark: SparkSession, folder: Path, schema: str) -> None:
        self._spark = spark
        self._schema = schema
        self._files = folder / "input"
        self._files.mkdir()
        self.checkpoint = folder / "checkpoint"
        self._fed = 0
        self._first_file_s = time.time() - 3600
        self.batches: dict[int, list[Row]] = {}
        self.after_batch: Callable[[int], None] = lambda _: None

    def feed(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Add the input of one more batch, of strings and integers; Spark is not needed for that."""
        fields = [field.split() for field in self._schema.split(", ")]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, _ARROW[kind]) for column, (_, kind) in zip(columns, fields, strict=True)]
        self._fed += 1
        file = self._files / f"{self._fed:04}.parquet"
        parquet.write_table(pa.table(arrays, [name for name, _ in fields]), file)
        # Spark reads files by their time; two of the same millisecond would come in any order.
        os.utime(file, (self._first_file_s + self._fed, self._first_file_s + self._fed))

    def run(self, build: Callable[[DataFrame], DataFrame]) -> None:
        """Start the query, as a restarted driver would, and let it read every file that is there."""

        def keep(batch: DataFrame, number: int) -> None:
            self.batches[number] = batch.collect()
            self.after_batch(number)

        source = self._spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1).parquet(str(self._files))
        writer = build(source).writeStream.outputMode("update").foreachBatch(keep)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    def run_through_failures(self, build: Callable[[DataFrame], DataFrame]) -> list[str]:
        """Run until the query ends well; return the messages of its failures on the way, five at most."""
        failures: list[str] = []
        while len(failures) < 5:
            try:
                self.run(build)
            except StreamingQueryException as error:
                failures.append(str(error))
            else:
                break
        return failures


Rows = Sequence[tuple[object, ...]]
Emitted = dict[int, Counter[tuple[object, ...]]]


def run_in_two_lives(
    spark: SparkSession, folder: Path, schema: str, batches: Sequence[Rows], build: Callable[[DataFrame], DataFrame]
) -> Emitted:
    """Run the first half of some batches, then, as a restarted driver would, the rest; return what each emitted."""
    folder.mkdir()
    stream = FileStream(spark, folder, schema)
    for part in (batches[: len(batches) // 2], batches[len(batches) // 2 :]):
        for rows in part:
            stream.feed(rows)
        stream.run(build)
    return {number: Counter(map(tuple, rows)) for number, rows in stream.batches.items()}


def run_one_by_one(
    spark: SparkSession, folder: Path, schema: str, batches: Sequence[Rows], build: Callable[[DataFrame], DataFrame]
) -> Emitted:
    """Run each batch on its own: in processing time Spark never comes to an end by itself."""
    folder.mkdir()
    stream = FileStream(spark, folder, schema)
    emitted: Emitted = {}

    def keep(batch: DataFrame, number: int) -> None:
        emitted[number] = Counter(map(tuple, batch.collect()))

    for rows in batches:
        stream.feed(rows)
        source = spark.readStream.schema(schema).parquet(str(folder / "input"))
        writer = build(source).writeStream.outputMode("update").foreachBatch(keep)
        writer.option("checkpointLocation", str(stream.checkpoint)).trigger(once=True).start().awaitTermination()
    return emitted


def timed(rows: DataFrame) -> DataFrame:
    """Return rows with the event time that is in their column `at`, and its watermark."""
    return rows.withColumn("time", sql.timestamp_millis("at")).withWatermark("time", "1 second")
