"""Large changes of keyed state go into packs where a job asks for it: written, checkpointed and read again on real Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from statefulspark.operators.keyed import operator
from statefulspark.packs import names
from statefulspark.testing import JobHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEYS, VALUE_BYTES = 2000, 20_000
"""Twenty megabytes in each of two partitions."""
JOB = f"""
import random

import statefulspark as ss

job = ss.Job("orders")


class Blobs(ss.KeyedProcessFunction):
    def open(self, ctx):
        self.blob = ctx.state(ss.ValueState("blob", bytes))

    def process(self, key, rows, ctx):
        before = len(self.blob.value() or b"")
        self.blob.update(random.Random(f"{{key}} {{rows[-1].round}}").randbytes({VALUE_BYTES}))
        yield key, before


@job.query(uid="blobs")
def blobs(spark, ctx):
    rounds = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "nobody:9092").option("subscribe", "orders")
    rounds = rounds.load().selectExpr("CAST(key AS STRING) AS name", "CAST(CAST(value AS STRING) AS INT) AS round")
    # Without memory and disk for its groups, a worker reads all of their chunks in each batch.
    blobs = ss.keyed_process(rounds, key="name", function=Blobs(), uid="mean", schema="name string, before bigint",
                             max_parallelism=8, cache_bytes=0, disk_bytes=0)
    return ss.write(blobs, sink=ss.KafkaSink("blobs", "nobody:9092"), uid="kafka")


if __name__ == "__main__":
    job.run()
"""


@pytest.fixture
def asking(spark_session: SparkSession) -> Iterator[None]:
    spark_session.conf.set(operator.PACKS, "true")
    yield
    spark_session.conf.unset(operator.PACKS)


def rows_of(keys: range, number: int) -> list[dict[str, object]]:
    return [{"key": f"k{key}".encode(), "value": str(number).encode()} for key in keys]


def expected(key: int, number: int) -> bytes:
    return random.Random(f"k{key} {number}").randbytes(VALUE_BYTES)


def packs_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob(f"*{names.SUFFIX}"))


def test_state_in_packs_survives_a_restart_and_is_read_offline(
    asking: None, job_harness: Callable[..., JobHarness], tmp_path: Path
) -> None:
    file = tmp_path / "job.py"
    file.write_text(JOB, encoding="utf-8")
    job = job_harness(file)
    job.add(*rows_of(range(KEYS), 1))
    job.run()
    job.checkpoint()
    (first, *_) = written = packs_below(job._folder)
    job.kill()
    job.restart()
    job.add(*rows_of(range(10), 2))
    job.run()
    job.checkpoint()

    assert len(written) == 2
    assert first.stat().st_size > 10_000_000
    assert {row["before"] for row in job.output()} == {0, VALUE_BYTES}
    table = job.state("mean")
    assert {row["key"]: row["value"] for row in table} == {
        f"k{key}": expected(key, 2 if key < 10 else 1) for key in range(KEYS)
    }
