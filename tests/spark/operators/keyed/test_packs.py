"""Large changes of keyed state go into packs if a job asks for it: written, checkpointed, read and spread anew, on Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from statefulspark.operators.keyed import packedlog
from statefulspark.packs import names
from statefulspark.testing import JobHarness, sessions

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
        self.blob = ctx.value_state("blob", bytes)

    def process(self, key, rows, ctx):
        before = len(self.blob.get() or b"")
        self.blob.update(random.Random(f"{{key}} {{rows[-1].round}}").randbytes({VALUE_BYTES}))
        yield key, before


@job.query(uid="blobs")
def blobs(spark, ctx):
    rounds = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "nobody:9092").option("subscribe", "orders")
    rounds = rounds.load().selectExpr("CAST(key AS STRING) AS name", "CAST(CAST(value AS STRING) AS INT) AS round")
    # Without memory and disk for its groups, a worker reads all of their chunks in each batch.
    blobs = ss.keyed_process(rounds, key="name", function=Blobs(), uid="mean", schema="name string, before bigint",
                             max_parallelism=8, cache_bytes=0, disk_bytes=0)
    return ss.write(blobs, sink=ss.sinks.KafkaSink("blobs", bootstrap_servers="nobody:9092"), uid="kafka")


if __name__ == "__main__":
    job.run()
"""


SMALL_JOB = """
import statefulspark as ss
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

job = ss.Job("orders")


class Sums(StatefulProcessor):
    def init(self, handle):
        self.rounds = handle.getListState("rounds", "round int")

    def handleInputRows(self, key, rows, timerValues):
        self.rounds.appendList([(row["round"],) for row in rows])
        yield Row(name=key[0], total=sum(number for (number,) in self.rounds.get()))

    def close(self):
        pass


@job.query(uid="sums")
def sums(spark, ctx):
    rounds = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "nobody:9092").option("subscribe", "orders")
    rounds = rounds.load().selectExpr("CAST(key AS STRING) AS name", "CAST(CAST(value AS STRING) AS INT) AS round")
    sums = ss.compat.transform_with_state(rounds.groupBy("name"), Sums(), "name string, total int", "Update", "None",
                                          uid="sum", max_parallelism=8)
    return ss.write(sums, sink=ss.sinks.KafkaSink("sums", bootstrap_servers="nobody:9092"), uid="kafka")


if __name__ == "__main__":
    job.run()
"""


@pytest.fixture
def packing(spark_session: SparkSession) -> Iterator[None]:
    spark_session.conf.set(packedlog.PACKS, "true")
    yield
    spark_session.conf.unset(packedlog.PACKS)


@pytest.fixture
def packing_all(packing: None, spark_session: SparkSession) -> Iterator[None]:
    spark_session.conf.set(packedlog.PACK_BYTES, "1")
    yield
    spark_session.conf.unset(packedlog.PACK_BYTES)


@pytest.fixture
def partitions(spark_session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Set the number of partitions of the session that a driver gets; with `is_asked` the job's settings have it, too."""
    setting = "spark.sql.shuffle.partitions"
    before = spark_session.conf.get(setting)

    def ask(number: int, *, is_asked: bool) -> None:
        spark_session.conf.set(setting, str(number))
        monkeypatch.setattr(sessions, "CONF", {setting: str(number)} if is_asked else {})

    yield ask
    spark_session.conf.set(setting, str(before))


def rows_of(keys: range, number: int) -> list[dict[str, object]]:
    return [{"key": f"k{key}".encode(), "value": str(number).encode()} for key in keys]


def expected(key: int, number: int) -> bytes:
    return random.Random(f"k{key} {number}").randbytes(VALUE_BYTES)


def packs_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob(f"*{names.SUFFIX}"))


def test_state_in_packs_survives_a_restart_and_is_read_offline(
    packing: None, job_harness: Callable[..., JobHarness], tmp_path: Path
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


@pytest.mark.parametrize(
    ("is_asked", "folders"),
    [
        pytest.param(True, {"3-0", "3-1", "3-2"}, id="that the job asks for"),
        pytest.param(False, {"2-0", "2-1"}, id="of a machine with more cores, which state ignores"),
    ],
)
def test_state_of_a_spark_processor_in_packs_survives_a_restart_with_another_number_of_partitions(
    packing_all: None,
    partitions: Callable[..., None],
    job_harness: Callable[..., JobHarness],
    tmp_path: Path,
    is_asked: bool,
    folders: set[str],
) -> None:
    file = tmp_path / "job.py"
    file.write_text(SMALL_JOB, encoding="utf-8")
    job = job_harness(file)
    keys = range(40)
    for number in (1, 2):
        job.add(*rows_of(keys, number))
        job.run()
        job.checkpoint()
    of_two = packs_below(job._folder)
    job.kill()
    partitions(3, is_asked=is_asked)
    job.restart()
    for number in (3, 4, 5):
        job.add(*rows_of(keys, number))
        job.run()
        job.checkpoint()

    written = set(packs_below(job._folder)) - set(of_two)
    assert {path.parent.name for path in of_two} == {"2-0", "2-1"}
    assert {path.parent.name for path in written} >= folders
    assert not any(path.parent.name.startswith("3") for path in written) or is_asked
    totals: dict[object, int] = {}
    for row in job.output():
        totals[row["name"]] = max(totals.get(row["name"], 0), int(str(row["total"])))
    assert totals == {f"k{key}": 15 for key in keys}
