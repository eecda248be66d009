"""Flink's buffering sink: rows are held back until there are enough of them, and none is lost or written twice.

    statefulspark run examples/operator_state/buffering_sink.py \
        --storage file:///tmp/buffering --allow-local-files --parameter output=/tmp/buffering/out

Kill it at any time and start it again: every number from 0 on is in exactly one file, or still in a buffer. What is in a
buffer is operator state, and so is the number of the next file: a batch that runs again writes the same files again.
"""

from __future__ import annotations

import json
from pathlib import Path

import statefulspark as ss
from pyspark.sql import Row, SparkSession

job = ss.Job("buffering")


class BufferingSink(ss.SinkFunction[Row], ss.CheckpointedFunction):
    """Writes a file for every `threshold` rows."""

    def __init__(self, folder: str, threshold: int) -> None:
        """Write below a folder of this machine; a real sink would call another system."""
        self.folder = folder
        self.threshold = threshold
        self.buffered: list[int] = []
        self.files = 0

    def initialize_state(self, context: ss.FunctionInitializationContext) -> None:
        """Declare the state, and take back what was buffered."""
        self.subtask = context.subtask_index
        store = context.operator_state_store
        self.rows_state = store.get_list_state(ss.ListState("buffered-elements", int))
        self.files_state = store.get_list_state(ss.ListState("files-written", int))
        if context.is_restored:
            self.buffered = self.rows_state.get()
            # After a change of parallelism a subtask may get several of these, or none: no name is ever used twice.
            self.files = max(self.files_state.get(), default=0)

    def invoke(self, value: Row) -> None:
        """Hold a row back, or write what was held back."""
        self.buffered.append(value.number)
        if len(self.buffered) >= self.threshold:
            self.flush()

    def flush(self) -> None:
        """Write a file under a name that depends on the state only."""
        name = f"subtask-{self.subtask}-file-{self.files:06d}.json"
        Path(self.folder, name).write_text(json.dumps(self.buffered))
        self.files += 1
        self.buffered = []

    def snapshot_state(self, context: ss.FunctionSnapshotContext) -> None:
        """Keep what is buffered."""
        self.rows_state.update(self.buffered)
        self.files_state.update([self.files])


@job.query(uid="buffering")
def buffering(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Numbers from Spark's own rate source, buffered by two subtasks."""
    folder = Path(ctx.parameter("output"))
    folder.mkdir(parents=True, exist_ok=True)
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", "20")).load()
    function = BufferingSink(str(folder), threshold=int(ctx.parameter("threshold", "25")))
    sink = ss.FunctionSink(function, parallelism=int(ctx.parameter("parallelism", "2")))
    return ss.write(numbers.selectExpr("value AS number"), sink=sink, uid="buffer", mode="append", trigger="1 second")


if __name__ == "__main__":
    job.run()
