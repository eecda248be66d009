"""The steps of a stop that drains, with a query that commits what is planned for it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from snapshots import Job
from statefulspark.checkpoint import watermarks
from statefulspark.contract.watermark import END_OF_TIME_MS
from statefulspark.driver.running import queries, quiesce
from statefulspark.engine import jvm

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_PATH = "generations/00000001/counts"


class Engine:
    """Spark, its logs on storage, and the gate of one query.

    Attributes:
        starts: How the query was started, in order.
        ran: Watermarks of the batches that it ran.
    """

    def __init__(self, job: Job, *, has_event_time: bool = True, ends: bool = True) -> None:
        job.boot()
        self.store = job.store
        self.starts: list[str] = []
        self.ran: list[int] = []
        self.idle = False
        self._ends = ends
        self._closed = False
        self._active = False
        self._plan(0, 1_000)
        self._commit(0)
        further = queries.AlternativeStarts(self._catch_up, self._held, has_event_time=has_event_time)
        place = queries.CheckpointLocation("counts", _PATH, "root")
        self.query = queries.RunningQuery(place, self._run, self._run(), self._fact(), further)
        self.planner = quiesce.Planner(job.store, job.epoch, lambda: 5)
        self.draining = quiesce.Draining.begin([self.query], cast("jvm.Gate", self), self.planner)

    def close(self, _root: str) -> None:
        self._closed = True

    def turn(self, times: int = 1) -> quiesce.Step:
        """Look and advance, as the loop does."""
        for _ in range(times):
            self.query.refresh(self._fact())
            self.draining.advance()
        return self.draining.steps["counts"]

    def batch(self) -> None:
        """Run what is planned."""
        newest = watermarks.newest(self.store, _PATH, "offsets")
        assert newest > watermarks.newest(self.store, _PATH, "commits")
        self._commit(newest)

    def end(self) -> None:
        """The query ends by itself."""
        self._active = False

    def _handle(self, how: str, *, closed: bool = False) -> StreamingQuery:
        self.starts.append(how)
        self._closed, self._active = closed, True
        source = SimpleNamespace(startOffset=lambda: "3", endOffset=lambda: "3" if self.idle else "4")
        progress = [SimpleNamespace(sources=lambda: [source])]
        spark = SimpleNamespace(
            recentProgress=lambda: progress, exception=lambda: SimpleNamespace(isEmpty=lambda: True)
        )
        engine = self

        class Handle:
            _jsq = spark

            @property
            def isActive(self) -> bool:  # noqa: N802 - Spark's name
                return engine._active

            def stop(self) -> None:
                engine._active = False

        return cast("StreamingQuery", Handle())

    def _run(self) -> StreamingQuery:
        return self._handle("run")

    def _catch_up(self) -> StreamingQuery:
        return self._handle("catch up")

    def _held(self) -> StreamingQuery:
        return self._handle("held", closed=True)

    def _fact(self) -> jvm.GateFact:
        planned, committed = (watermarks.newest(self.store, _PATH, log) for log in ("offsets", "commits"))
        return jvm.GateFact(planned, committed, None, at_boundary=self._closed and planned <= committed)

    def _plan(self, number: int, watermark_ms: int) -> None:
        text = f'v1\n{{"batchWatermarkMs":{watermark_ms},"conf":{{}}}}\n{{"logOffset":{number}}}'
        self.store.write(f"{_PATH}/offsets/{number}", text.encode())

    def _commit(self, number: int) -> None:
        line = self.store.read(f"{_PATH}/offsets/{number}").decode().split("\n")[1]
        watermark = int(line.split('"batchWatermarkMs":')[1].split(",")[0])
        self.ran.append(watermark)
        text = f'v2\n{{"nextBatchWatermarkMs":{watermark + 0}}}'
        self.store.write(f"{_PATH}/commits/{number}", text.encode())


@pytest.fixture
def engine() -> Engine:
    return Engine(Job())


def test_sources_are_read_event_time_ends_once_and_the_watermark_comes_back(engine: Engine) -> None:
    steps = [engine.turn(), engine.turn()]
    engine.end()
    steps += [engine.turn(), engine.turn(3)]
    engine.batch()
    steps += [engine.turn(), engine.turn(3)]
    engine.batch()
    steps.append(engine.turn())

    assert [step.name for step in steps] == [
        "CLOSING", "CATCHING_UP", "FIRING", "FIRING", "RETURNING", "RETURNING", "DONE",
    ]  # fmt: skip
    assert engine.starts == ["run", "catch up", "held", "held"]
    assert engine.ran == [1_000, END_OF_TIME_MS, 1_000]
    assert engine.draining.is_done
    engine.query.refresh(engine._fact())
    assert not engine.query.active


def test_a_query_that_never_ends_by_itself_has_caught_up_when_it_reads_nothing(engine: Engine) -> None:
    engine.turn(2)
    still_reading = engine.turn(5)
    engine.idle = True
    caught_up = engine.turn(2)

    assert (still_reading, caught_up) == (quiesce.Step.CATCHING_UP, quiesce.Step.FIRING)


def test_a_query_without_event_time_ends_when_it_has_read_everything() -> None:
    engine = Engine(Job(), has_event_time=False)
    engine.turn(2)
    engine.end()

    assert engine.turn() is quiesce.Step.DONE
    assert engine.starts == ["run", "catch up"]


def test_a_query_whose_input_was_bounded_is_not_read_again(engine: Engine) -> None:
    engine.end()
    engine.turn()
    for _ in range(2):
        engine.batch()
        engine.turn()
    engine.draining.restart_queries()

    assert engine.draining.is_done
    assert engine.starts == ["run", "held", "held"], "it had ended before, and is not started by a stop that fails"


def test_after_a_stop_that_failed_the_query_runs_as_before(engine: Engine) -> None:
    engine.turn(2)
    engine.end()
    engine.turn()
    for _ in range(2):
        engine.batch()
        engine.turn()

    engine.draining.restart_queries()
    engine.query.refresh(engine._fact())

    assert engine.starts[-1] == "run"
    assert engine.query.active


def test_what_a_driver_before_had_planned_is_run_and_taken_back(engine: Engine) -> None:
    watermarks.plan_end(engine.store, _PATH, now_ms=5)
    engine.query.start_as(engine._held)
    engine.draining = quiesce.Draining.resume([engine.query], cast("jvm.Gate", engine), engine.planner)

    waits = engine.turn(3)
    engine.batch()
    returns = engine.turn()
    engine.batch()
    done = engine.turn()
    engine.draining.restart_queries()

    assert (waits, returns, done) == (quiesce.Step.FIRING, quiesce.Step.RETURNING, quiesce.Step.DONE)
    assert engine.ran == [1_000, END_OF_TIME_MS, 1_000]
    assert engine.starts[-1] == "run"


def test_a_held_query_is_started_held_again_when_its_worker_was_too_slow(engine: Engine) -> None:
    held = replace(engine.query, is_held=True)

    assert held.begin == engine._held
