"""A newcomer whom the old driver's last commit overtakes goes on after that commit, on real Spark (docs/recovery.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import streams
from pyspark.sql import DataFrame, SparkSession
from s3server import S3Server
from statefulspark import storage
from statefulspark.driver.running import queries
from statefulspark.engine import jvm

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from statefulspark.storage import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.s3]
LOST = 3
"""The batch that the old driver commits first."""


class Newcomer:
    """A query that counts, whose every result is kept; the old driver's commit appears while it works on a batch."""

    def __init__(self, spark: SparkSession, store: ObjectStore) -> None:
        self.spark = spark
        self.store = store
        self.path = "generations/00000001/q"
        self.root = f"{store.uri.replace('s3://', 's3a://')}/{self.path}"
        self.gate = jvm.Gate(spark)
        self.counted: dict[int, list[int]] = {}
        self.commit_of_the_old: bytes | None = None
        self.last = -1

    def newest(self, log: str) -> int:
        return max((int(name) for name in self.store.list_names(f"{self.path}/{log}") if name.isdigit()), default=-1)

    def start(self) -> StreamingQuery:
        self.gate.register(self.root, last_offsets=self.newest("offsets"), last_committed=self.newest("commits"))
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", streams.ROWS_PER_BATCH).load()
        counted = source.selectExpr(f"value % {streams.KEYS} as k").groupBy("k").count()
        writer = counted.writeStream.outputMode("complete").foreachBatch(self.write)
        return writer.option("checkpointLocation", self.root).start()

    def write(self, rows: DataFrame, batch: int) -> None:
        total = rows.selectExpr("coalesce(sum(count), 0) as total").collect()[0]["total"]
        self.counted.setdefault(batch, []).append(total)
        if batch == LOST and self.commit_of_the_old is not None:
            self.store.create(f"{self.path}/commits/{LOST}", self.commit_of_the_old)
            self.commit_of_the_old = None
        self.last = batch

    def run_until(self, batch: int) -> queries.RunningQuery:
        """Watch the query as the job's loop does, until it has computed a batch; then stop it at a boundary."""
        place = queries.CheckpointLocation("q", self.path, self.root)
        handle = self.start()
        running = queries.RunningQuery(place, self.start, handle, self.gate.facts()[self.root])

        def reached() -> bool:
            queries.refresh_all((running,), self.gate)
            assert running.error is None, running.error
            return running.committed_batch >= batch

        streams.wait_until(reached, f"batch {batch} is committed")
        self.gate.close(self.root)

        def parked() -> bool:
            queries.refresh_all((running,), self.gate)
            return running.is_at_boundary

        streams.wait_until(parked, "the query is at a boundary")
        running.handle.stop()
        return running


@pytest.fixture
def newcomer(spark: SparkSession, s3: S3Server, s3_bucket: str) -> Iterator[Newcomer]:
    found = Newcomer(spark, storage.open_store(f"s3://{s3_bucket}/default/flights", s3.options()))
    yield found
    for query in spark.streams.active:
        query.stop()
    jvm.Gate(spark)._gate.unregister(found.root)


def test_the_newcomer_reads_the_log_again_and_no_row_is_lost_or_counted_twice(newcomer: Newcomer) -> None:
    newcomer.run_until(LOST)
    # The newcomer finds batch 3 planned and not committed; the old driver, whose state files are there, commits it late.
    for log, first in (("commits", LOST), ("offsets", LOST + 1)):
        doomed = [f"{newcomer.path}/{log}/{number}" for number in range(first, newcomer.newest(log) + 1)]
        bodies = newcomer.store.read_many(doomed)
        newcomer.commit_of_the_old = bodies.get(f"{newcomer.path}/commits/{LOST}", newcomer.commit_of_the_old)
        newcomer.store.delete_many(doomed)
    old_commit = newcomer.commit_of_the_old
    newcomer.counted.clear()

    running = newcomer.run_until(LOST + 3)

    assert running.lost_races == 1
    assert newcomer.store.read(f"{newcomer.path}/commits/{LOST}") == old_commit
    totals = {batch: set(counts) for batch, counts in newcomer.counted.items()}
    assert totals == {batch: {streams.ROWS_PER_BATCH * (batch + 1)} for batch in totals}
    assert set(range(LOST, LOST + 4)) <= totals.keys()
