"""A job that counts rows per key, for standbys.

Parameters: `input`, a folder of Parquet files with `key string`, read one file a batch; `output`, a folder for a files sink;
`version`: `more` reads a second folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("counted")


class Count(ss.KeyedProcessFunction):
    """Counts the rows of a key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state."""
        self.seen = ctx.value_state("seen", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Count."""
        for _ in rows:  # One by one: a driver that dies may leave two files to one batch of the next.
            self.seen.update((self.seen.get() or 0) + 1)
            yield key, self.seen.get()


def counts(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Count rows per key."""
    rows = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).parquet(ctx.parameter("input"))
    if ctx.parameter("version") == "more":
        rows = rows.union(spark.readStream.schema("key string").parquet(f"{ctx.parameter('input')}-more"))
    frame = ss.keyed_process(
        rows,
        key="key",
        function=Count(),
        uid="counted",
        schema="key string, seen bigint",
        max_parallelism=4,
    )
    return ss.write(frame, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out", trigger="100ms")


job.query(uid="counts")(counts)


if __name__ == "__main__":
    job.run()
