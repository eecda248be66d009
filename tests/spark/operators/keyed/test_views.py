"""A batch of few keys reads their rows from chunks that are columns, after a restart and with little memory, on Spark."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path

import pytest
from statefulspark.testing import JobHarness

pytestmark = pytest.mark.spark

KEYS = 4000
"""A thousand in each key group, so that chunks are columns and ten keys are few."""
FEW = (3, 5, 2000, 3999)
JOB = """
import statefulspark as ss

job = ss.Job("orders")


class Everything(ss.KeyedProcessFunction):
    def open(self, ctx):
        self.newest = ctx.value_state("newest", str)
        self.rounds = ctx.list_state("rounds", int)
        self.texts = ctx.map_state("texts", int, str)

    def process(self, key, rows, ctx):
        for row in rows:
            text = f"{key} in round {row.round}, " + "x" * 40
            self.newest.update(text)
            self.rounds.add(row.round)
            self.texts.put(row.round, text)
        if rows[-1].round == 4:
            self.texts.remove(1)
        yield key, len(self.rounds.get()), len(dict(self.texts.items()))


@job.query(uid="everything")
def everything(spark, ctx):
    rounds = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "nobody:9092").option("subscribe", "orders")
    rounds = rounds.load().selectExpr("CAST(key AS STRING) AS name", "CAST(CAST(value AS STRING) AS INT) AS round")
    rows = ss.keyed_process(rounds, key="name", function=Everything(), uid="all",
                            schema="name string, rounds int, texts int", max_parallelism=4, cache_bytes=0)
    return ss.write(rows, sink=ss.sinks.KafkaSink("counts", bootstrap_servers="nobody:9092"), uid="kafka")


if __name__ == "__main__":
    job.run()
"""


def _rows(keys: tuple[int, ...] | range, number: int) -> list[dict[str, object]]:
    return [{"key": f"k{key}".encode(), "value": str(number).encode()} for key in keys]


def _text(key: int, number: int) -> str:
    return f"k{key} in round {number}, " + "x" * 40


def test_few_keys_of_many_are_read_and_changed_after_a_restart(
    job_harness: Callable[..., JobHarness], tmp_path: Path
) -> None:
    file = tmp_path / "job.py"
    file.write_text(JOB, encoding="utf-8")
    job = job_harness(file)
    job.add(*_rows(range(KEYS), 1))
    job.run()
    job.checkpoint()
    job.kill()
    job.restart()
    for number in (2, 3, 4):
        job.add(*_rows(FEW, number))
        job.run()
    job.checkpoint()

    told = collections.Counter((row["rounds"], row["texts"]) for row in job.output())
    assert told == {(1, 1): KEYS, (2, 2): len(FEW), (3, 3): len(FEW), (4, 3): len(FEW)}
    keys = range(KEYS)
    assert _state(job, "newest", "state") == {f"k{key}": [_text(key, 4 if key in FEW else 1)] for key in keys}
    rounds = {key: [1, 2, 3, 4] if key in FEW else [1] for key in keys}
    assert _state(job, "rounds", "index") == {f"k{key}": numbers for key, numbers in rounds.items()}
    assert _state(job, "texts", "entry") == {
        f"k{key}": [_text(key, number) for number in numbers if number > 1 or len(numbers) == 1]
        for key, numbers in rounds.items()
    }


def _state(job: JobHarness, name: str, order: str) -> dict[object, list[object]]:
    """Return the values of each key, in the order of a column."""
    found: dict[object, list[object]] = {}
    for row in sorted(job.state("all", name), key=lambda row: str(row.get(order))):
        found.setdefault(row["key"], []).append(row["value"])
    return found
