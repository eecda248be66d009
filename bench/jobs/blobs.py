"""A job whose state has a given size: one value of random bytes per key, replaced when the key comes.

Batches come from files: `fill-*.parquet` hold all keys once, `touch-*.parquet` a few of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import statefulspark as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

job = ss.Job("blobs")


class Blob(ss.KeyedProcessFunction):
    """Keeps random bytes for each key."""

    def __init__(self, size_bytes: int) -> None:
        """Say how many."""
        self._size_bytes = size_bytes

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the value."""
        self.blob = ctx.value_state("blob", bytes)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Replace the key's bytes."""
        self.blob.update(os.urandom(self._size_bytes))
        yield key, len(rows)


@job.query(uid="blobs")
def blobs(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Read the files in order, one a batch."""
    rows = spark.readStream.schema("key bigint").option("maxFilesPerTrigger", 1).parquet(ctx.parameter("input"))
    kept = ss.keyed_process(
        rows.repartition(2),
        key="key",
        function=Blob(int(ctx.parameter("value_bytes"))),
        uid="blob",
        schema="key bigint, n int",
    )
    return ss.write(kept, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out")


job.run()
