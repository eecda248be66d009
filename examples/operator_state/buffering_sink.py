"""Flink's buffering sink: rows are held back until there are enough of them, and none is lost or written twice.

    statefulspark run examples/operator_state/buffering_sink.py --dev --parameter output=/tmp/buffering/out

Kill it at any time and start it again: every number from 0 on is in exactly one file, or still in a buffer. What is in a
buffer is operator state; a file is named after its first number, so a batch that runs again writes the same files again.
With another parallelism it would cut them elsewhere: change that after a stop (Ctrl-C), when no batch has to run again.
"""

from __future__ import annotations

import json
from pathlib import Path

import statefulspark as ss
from pyspark.sql import Row, SparkSession

job = ss.Job("buffering")


class BufferingSink(ss.driver.SinkFunction[Row], ss.driver.CheckpointedFunction):
    """Writes a file for every `threshold` rows."""

    def __init__(self, folder: str, threshold: int) -> None:
        """Write below a folder of this machine; a real sink would call another system."""
        self.folder = folder
        self.threshold = threshold
        self.buffered: list[int] = []

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        """Declare the state, and take back what was buffered."""
        self.state = context.operator_state_store.list_state("buffered-elements", int)
        if context.is_restored:
            self.buffered = self.state.get()

    def invoke(self, value: Row) -> None:
        """Hold a row back, or write what was held back."""
        self.buffered.append(value.number)
        if len(self.buffered) >= self.threshold:
            self.flush()

    def flush(self) -> None:
        """Write a file under a name that depends on the rows only."""
        Path(self.folder, f"from-{self.buffered[0]:09d}.json").write_text(json.dumps(self.buffered))
        self.buffered = []

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        """Keep what is buffered."""
        self.state.update(self.buffered)


@job.query(uid="buffering")
def buffering(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Numbers from Spark's own rate source, buffered by two subtasks."""
    folder = Path(ctx.parameter("output"))
    folder.mkdir(parents=True, exist_ok=True)
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", 20)).load()
    function = BufferingSink(str(folder), threshold=ctx.parameter("threshold", 25))
    sink = ss.sinks.DriverSink(function, parallelism=ctx.parameter("parallelism", 2))
    return ss.write(numbers.selectExpr("value AS number"), sink=sink, uid="buffer", trigger="1s")


if __name__ == "__main__":
    job.run()
