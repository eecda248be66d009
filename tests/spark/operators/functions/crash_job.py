"""A job that kills itself: the counter source into the buffering sink, as a user would write them.

Parameters: `output`, a folder; `numbers`, how many each source subtask emits; `kill`, one of the points below with the
number of the time it is reached in this process, for example `row:140`.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from datetime import datetime
from pathlib import Path

import statefulspark as ss
from pyspark.sql import Row, SparkSession

job = ss.Job("crashing")


def write(target: Path, body: str) -> None:
    """Write a file so that a kill, which another thread's bomb may cause at any moment, leaves all of it or nothing."""
    part = target.with_suffix(f".part-{threading.get_ident()}")
    part.write_text(body)
    part.replace(target)


class Bomb:
    """Kills the process when a point is reached for the n-th time."""

    def __init__(self, plan: str) -> None:
        self.point, _, times = plan.partition(":")
        self.left = int(times or 0)

    def at(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class CounterSource(ss.driver.SourceFunction[int], ss.driver.ListCheckpointed[int]):
    """Emits its numbers, then ends."""

    def __init__(self, numbers: int, plan: str) -> None:
        self.numbers = numbers
        self.bomb = Bomb(plan)
        self.offset = 0
        self.is_running = True

    def run(self, ctx: ss.driver.SourceContext[int]) -> None:
        while self.is_running and self.offset < self.numbers:
            with ctx.checkpoint_lock:
                ctx.collect(self.offset)
                self.offset += 1
            self.bomb.at("emit")
            time.sleep(0.002)

    def cancel(self) -> None:
        self.is_running = False

    def snapshot_state(self, checkpoint_id: int, when: datetime) -> list[int]:
        self.bomb.at("cut")
        return [self.offset]

    def restore_state(self, state: list[int]) -> None:
        [self.offset] = state


class BufferingSink(ss.driver.SinkFunction[Row], ss.driver.CheckpointedFunction, ss.driver.CheckpointListener):
    """Writes a file for every 7 rows, and what is left after each batch; what is written twice must be the same."""

    def __init__(self, folder: str, plan: str) -> None:
        self.folder = Path(folder)
        self.bomb = Bomb(plan)
        self.buffered: list[int] = []
        self.files = 0

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        self.subtask = context.subtask_index
        self.state = context.operator_state_store.list_state("buffered")
        for buffered, files in self.state:
            self.buffered, self.files = list(buffered), files

    def invoke(self, value: Row) -> None:
        self.bomb.at("row")
        self.buffered.append(value.n)
        if len(self.buffered) >= 7:
            self.flush()

    def flush(self) -> None:
        target = self.folder / f"{self.subtask}-{self.files:06d}.json"
        body = json.dumps(self.buffered)
        if target.exists() and target.read_text() != body:
            write(self.folder / f"{target.name}.torn", body)
        write(target, body)
        self.files += 1
        self.buffered = []
        self.bomb.at("flush")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        with (self.folder / f"{self.subtask}-of-{os.getpid()}.completed").open("a") as told:
            told.write(f"{checkpoint_id}\n")

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        self.state.update([(self.buffered, self.files)])
        self.bomb.at("snapshot")
        write(self.folder / f"{self.subtask}-rest.json", json.dumps(self.buffered))


@job.query(uid="numbers")
def numbers(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    count, plan, folder = int(ctx.parameter("numbers")), ctx.parameter("kill", ""), ctx.parameter("output")
    source = CounterSource(count, plan)
    frame = ss.read_function(spark, function=source, schema="n BIGINT", uid="counter", parallelism=2, buffer_rows=40)
    sink = ss.sinks.DriverSink(BufferingSink(folder, plan), parallelism=2)
    return ss.write(frame, sink=sink, uid="buffer")


if __name__ == "__main__":
    job.run()
