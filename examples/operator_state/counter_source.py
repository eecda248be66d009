"""Flink's stateful counter source: numbers from 0 on, each exactly once, whatever is killed.

    statefulspark run examples/operator_state/counter_source.py --dev --parameter output=file:///tmp/numbers/out

Every subtask counts for itself; what it emits and what it remembers are one step under the checkpoint lock.
"""

from __future__ import annotations

import time

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("numbers")


class CounterSource(ss.driver.SourceFunction[tuple[int, int]], ss.driver.CheckpointedFunction):
    """Emits (subtask, number) a few times a second."""

    def __init__(self, pause_s: float) -> None:
        """Wait this long after every number."""
        self.pause_s = pause_s
        self.offset = 0
        self.is_running = True

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        """Declare the state, and go on where the restored snapshot ends."""
        self.subtask = context.subtask_index
        self.state = context.operator_state_store.list_state("offset", int)
        for offset in self.state:
            self.offset = offset

    def run(self, ctx: ss.driver.SourceContext[tuple[int, int]]) -> None:
        """Emit, and count what was emitted, as one step."""
        while self.is_running:
            with ctx.checkpoint_lock:
                ctx.collect((self.subtask, self.offset))
                self.offset += 1
            time.sleep(self.pause_s)

    def cancel(self) -> None:
        """Leave `run` soon."""
        self.is_running = False

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        """Keep the next number."""
        self.state.update([self.offset])


@job.query(uid="numbers")
def numbers(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Numbers of every subtask, as Parquet files that list each of them once."""
    source = CounterSource(ctx.parameter("pause_s", 0.05))
    frame = ss.read_function(
        spark,
        function=source,
        schema="subtask INT, number BIGINT",
        uid="counter",
        parallelism=ctx.parameter("parallelism", 2),
    )
    return ss.write(frame, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out")


if __name__ == "__main__":
    job.run()
