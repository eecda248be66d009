"""Timers of many keys, of which a batch has few: those that are due are found in columns, across restarts, on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from statefulspark.testing import JobHarness

pytestmark = pytest.mark.spark

KEYS = 4000
"""A thousand in each key group, so that chunks are columns and ten keys are few."""
FIRST_DUE_MS = 2_000_000
JOB = """
import statefulspark as ss

job = ss.Job("reminders")


class Reminders(ss.KeyedProcessFunction):
    def open(self, ctx):
        self.text = ctx.value_state("text", str)

    def process(self, key, rows, ctx):
        for row in rows:
            self.text.update(f"{key} at {row.at}, " + "x" * 40)
            ctx.timers.set(row.due)

    def on_timer(self, when, ctx):
        yield ctx.key, round(when.timestamp() * 1000), self.text.get()


@job.query(uid="reminders")
def reminders(spark, ctx):
    given = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "nobody:9092").option("subscribe", "given")
    moments = "split(CAST(value AS STRING), ',')"
    given = given.load().selectExpr(
        "CAST(key AS STRING) AS name",
        f"CAST({moments}[0] AS BIGINT) AS at",
        f"timestamp_millis(CAST({moments}[1] AS BIGINT)) AS due",
    )
    timed = given.selectExpr("*", "timestamp_millis(at) AS time").withWatermark("time", "0 seconds")
    fired = ss.keyed_process(timed.select("name", "at", "due"), key="name", function=Reminders(), uid="all",
                             schema="name string, at bigint, text string", max_parallelism=4, timers="event-time",
                              cache_bytes=0)
    return ss.write(fired, sink=ss.sinks.KafkaSink("fired", bootstrap_servers="nobody:9092"), uid="kafka")


if __name__ == "__main__":
    job.run()
"""


def _row(key: int, at_ms: int, due_ms: int) -> dict[str, object]:
    return {"key": f"k{key}".encode(), "value": f"{at_ms},{due_ms}".encode()}


def _due_ms(key: int) -> int:
    return FIRST_DUE_MS + 1000 * key


def _fired(key: int, at_ms: int) -> tuple[str, int, str]:
    return f"k{key}", _due_ms(key), f"k{key} at {at_ms}, " + "x" * 40


def test_timers_of_keys_without_rows_fire_once_each_across_restarts(
    job_harness: Callable[..., JobHarness], tmp_path: Path
) -> None:
    file = tmp_path / "job.py"
    file.write_text(JOB, encoding="utf-8")
    job = job_harness(file)
    job.add(*(_row(key, 1000, _due_ms(key)) for key in range(KEYS)))
    job.run()
    expected = []
    for key in (3, 10, 25):
        job.checkpoint()
        job.kill()
        job.restart()
        # A row of another key moves the watermark to the timer of this one.
        job.add(_row(KEYS - 1, _due_ms(key), _due_ms(KEYS - 1)))
        job.run()
        expected += [_fired(due, 1000) for due in range(len(expected), key + 1)]
        assert _output(job) == sorted(expected)
    job.add(_row(0, _due_ms(KEYS), _due_ms(KEYS + 1)))
    job.run()

    expected += [_fired(due, 1000) for due in range(len(expected), KEYS - 1)]
    assert _output(job) == sorted([*expected, _fired(KEYS - 1, _due_ms(25))])


def _output(job: JobHarness) -> list[tuple[object, ...]]:
    """Return what was written, once it is visible."""
    job.checkpoint()
    return sorted((row["name"], row["at"], row["text"]) for row in job.output())
