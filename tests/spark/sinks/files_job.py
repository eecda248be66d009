"""A job that kills itself around the prepare and the commit of one of its two files sinks, which share a query.

Parameters: `output`, the folder, beside which `<output>-even` has the even numbers; `kill`, a point and the batch in which
it is reached, for example `commit:3`; `visible`.
Spark's `rate-micro-batch` source gives batch N the values N * 20 to N * 20 + 19, whenever and however often it runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import statefulspark as ss
from pyspark.sql import SparkSession
from statefulspark.driver.output import sink_committer
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.files.sink import FilesMachine

ROWS = 20

job = ss.Job("files")


@dataclass(frozen=True)
class Bomb:
    """Kills the process at a point of a batch, or of a later one that gets there first."""

    plan: str

    def at(self, point: str, batch_id: int) -> None:
        wanted, _, batch = self.plan.partition(":")
        if point == wanted and batch_id >= int(batch):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class ExplodingSink:
    """A files sink with a bomb in it."""

    files: FilesMachine
    bomb: Bomb

    @property
    def visible(self) -> str:
        return self.files.visible

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        return self.files.write_part(batches, context)

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        return self.files.prepare(parts, context)

    def open(self, context: SinkContext) -> None:
        self.files.open(context)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        self.bomb.at("commit", context.batch_id)
        self.files.commit(transaction, context)
        self.bomb.at("committed", context.batch_id)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        self.files.abort(transaction, context)


def explode_after_the_record(bomb: Bomb) -> None:
    """Let the bomb have the moment between a durable record and Spark's commit of the batch."""
    prepared = sink_committer.SinkCommitter.record_prepared

    def recorded(self: sink_committer.SinkCommitter, batch_id: int, transaction: bytes | None) -> None:
        prepared(self, batch_id, transaction)
        bomb.at("recorded", batch_id)

    sink_committer.SinkCommitter.record_prepared = recorded  # type: ignore[method-assign]


@job.query(uid="numbers")
def numbers(spark: SparkSession, ctx: ss.QueryContext) -> list[ss.Output]:
    bomb = Bomb(ctx.parameter("kill", ""))
    explode_after_the_record(bomb)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2).load()
    rows = source.select("value")
    folder, visible = ctx.parameter("output"), ctx.parameter("visible", "checkpoint")
    sink = ExplodingSink(FilesMachine(ss.sinks.FilesSink(folder, visible=visible)), bomb)
    even = ss.sinks.FilesSink(f"{folder}-even", visible=visible)
    return [
        ss.write(rows, sink=sink, uid="out", trigger="200ms"),
        ss.write(rows, sink=even, uid="even", trigger="200ms", where=rows["value"] % 2 == 0),
    ]


if __name__ == "__main__":
    job.run()
