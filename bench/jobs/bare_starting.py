"""What `starting.py` computes, as plain PySpark with checkpoints and output on the local disk; arguments: INPUT FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import stateful_processor

FEED, FOLDER = sys.argv[1:]


class Count(stateful_processor.StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        """Declare the value."""
        self._seen = handle.getValueState("seen", "seen bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Add the rows."""
        seen = sum(len(frame) for frame in rows) + (self._seen.get() or (0,))[0]
        self._seen.update((seen,))
        yield pd.DataFrame({"key": [key[0]], "seen": [seen]})

    def close(self) -> None:
        """Nothing is held."""


def append_to(name: str) -> Callable[[DataFrame, int], None]:
    """Return what writes a batch below the folder of a query."""

    def write(frame: DataFrame, batch_id: int) -> None:
        frame.write.mode("overwrite").parquet(f"{FOLDER}/out/{name}/{batch_id}")

    return write


spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    .getOrCreate()
)
rows = spark.readStream.schema("key bigint").parquet(FEED)
counted = {
    "keyed": rows.groupBy("key").transformWithStateInPandas(Count(), "key bigint, seen bigint", "Update", "None"),
    "aggregated": rows.groupBy("key").count(),
}
for name, counts in counted.items():
    writer = counts.writeStream.outputMode("update").foreachBatch(append_to(name))
    writer.option("checkpointLocation", f"{FOLDER}/checkpoints/{name}").start()
spark.streams.awaitAnyTermination()
