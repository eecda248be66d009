"""A master hook: the readers of a journal are told where it may repeat itself when the job is taken back.

    statefulspark run examples/operator_state/master_hook.py --dev --parameter output=/tmp/journal/out

Every batch adds a line to `journal.txt`, outside of any checkpoint. The hook notes the journal's length when a checkpoint
begins. When the job is restored it adds a line that names this place: batches after it may come again, none before it.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("journal")


class Journal(ss.driver.MasterHook):
    """A file that only grows, and its length at every checkpoint."""

    def __init__(self) -> None:
        """Know no file yet: its place is a parameter of the job."""
        self.path = Path(os.devnull)

    @property
    def uid(self) -> str:
        """Name of the state in manifests."""
        return "journal"

    def trigger(self, checkpoint_id: int, when: datetime) -> bytes | None:
        """Note how long the journal is."""
        return str(self.path.stat().st_size if self.path.exists() else 0).encode()

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """Tell readers what may be in the journal twice."""
        if state is not None:
            with self.path.open("a") as file:
                file.write(f"back at checkpoint {checkpoint_id}: what follows byte {int(state)} may come again\n")

    def reset(self) -> None:
        """Begin a new journal."""
        self.path.unlink(missing_ok=True)


journal = Journal()
job.hook(journal, timeout="10s")


@job.query(uid="lines")
def lines(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """A line for every batch, with the numbers that it had."""
    folder = Path(ctx.parameter("output"))
    folder.mkdir(parents=True, exist_ok=True)
    journal.path = folder / "journal.txt"
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()

    def write(rows: DataFrame, batch: int) -> None:
        values = sorted(row["value"] for row in rows.select("value").collect())
        with journal.path.open("a") as file:
            file.write(f"{batch}: {values}\n")

    return numbers.writeStream.foreachBatch(write).trigger(processingTime="1 second")


if __name__ == "__main__":
    job.run()
