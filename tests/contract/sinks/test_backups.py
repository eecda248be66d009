"""A savepoint of a running job and a backup of its database of the same moment, started together when both went on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import postgresserver
import processes
import psycopg
import pyarrow as pa
import pytest
from machines import postgres_sink
from restores import a_restore
from s3server import S3Server
from sinkdrivers import Driver
from snapshots import Clock
from statefulspark import storage
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.retention import pruning, rules
from statefulspark.storage import ObjectStore, StorageOptions

POLICY = rules.PrunePolicy(retained=1, grace=timedelta(seconds=1))


@dataclass(frozen=True)
class Job:
    """A job in front of a table; its server may be replaced by another one at the same port."""

    bucket: ObjectStore
    options: StorageOptions
    dsn: str

    def start(self, restore: RestoreConfig | None = None, *, root: str = "", visible: str = "checkpoint") -> Driver:
        sink = postgres_sink("words", dsn=self.dsn, visible=visible)
        return Driver(self.bucket, Clock(), restore, sink=sink, options=self.options, rows=_rows, root=root)

    def read(self) -> list[int]:
        with psycopg.connect(self.dsn) as connection:
            return [row[0] for row in connection.execute("SELECT id FROM words ORDER BY id")]


def _rows(batch: int, generation: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"id": [2 * batch, 2 * batch + 1]})


@pytest.mark.parametrize(
    ("root", "visible"),
    [
        pytest.param("", "checkpoint", id="in the same root"),
        pytest.param("moved", "batch", id="in another root, the old one is gone"),
    ],
)
def test_a_savepoint_of_a_running_job_and_a_backup_of_the_database_are_put_back_ten_checkpoints_later(
    s3: S3Server, root: str, visible: str
) -> None:
    """A.148: every row is there once, of those that waited for their commit too."""
    options = s3.options()
    with postgresserver.a_folder() as folder, postgresserver.a_folder() as backup:
        with processes.serving(postgresserver.Postgres(folder)) as server:
            bucket = storage.open_store(f"s3://{s3.new_bucket('backups')}", options)
            job = Job(bucket, options, server.dsn())
            with psycopg.connect(job.dsn) as connection:
                connection.execute("CREATE TABLE words (id bigint NOT NULL)")
            driver = job.start(visible=visible)
            driver.batch(2)
            driver.show()
            driver.checkpoint()
            driver.batch(3)
            savepoint = driver.savepoint()
            server.back_up(backup)
            driver.show()
            for _ in range(10):
                driver.batch()
                driver.show()
                driver.checkpoint()
            assert job.read() == list(range(30))
            for _ in range(2):
                pruning.run(driver.job.store, POLICY, driver.clock.forward(5))
        if root:
            folders = (layout.GENERATIONS, layout.CHECKPOINTS, layout.SINKS)
            driver.job.store.delete_many([info.key for name in folders for info in driver.job.store.list(name)])
        again = postgresserver.Postgres(backup)
        again.port = server.port
        with processes.serving(again):
            before = job.read()
            successor = job.start(a_restore(snapshot=savepoint, nonce="both"), root=root, visible=visible)
            restored = job.read()
            successor.batch()
            successor.show()
            successor.checkpoint()

            assert before == list(range(4)), "the backup is of the moment of the savepoint"
            assert restored == list(range(10))
            assert job.read() == list(range(12))
