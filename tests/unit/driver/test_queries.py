"""What a running query tells of its batches and of its failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from fakecontrol import NOON
from statefulspark.contract import api, observations
from statefulspark.contract.faults import Fault
from statefulspark.driver.running import queries
from statefulspark.engine.jvm import GateFact

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_FACT = GateFact(last_committed=3, last_offsets=3, last_commit_at=None, at_boundary=False)
_RAISED = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/job/delays.py", line 12, in process
    mean = total / count
ZeroDivisionError: division by zero
"""
_LOST = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."


_MISSING = replace(_FACT, missing_files=2, missing_file="s3a://in/9.json")


class Engine:
    """Spark's half of one query."""

    def __init__(self) -> None:
        self.progress: list[SimpleNamespace] = []
        self.failure: str | None = None
        self.starts = 0
        place = queries.CheckpointLocation("delays", "generations/00000001/delays", "root")
        self.lost: list[int] = []
        self.query = queries.RunningQuery(place, self._start, self._start(), _FACT, on_lost=self.lost.append)

    def has_run(self, *batches: int) -> None:
        self.progress += [_reported(batch) for batch in batches]
        self.query.refresh_progress()

    def fails(self, text: str) -> None:
        self.failure = text
        self.query.refresh(_FACT)

    def _start(self) -> StreamingQuery:
        self.starts += 1
        self.failure = None
        engine = self

        class Handle:
            @property
            def _jsq(self) -> object:
                raised = SimpleNamespace(toString=lambda: engine.failure)
                option = SimpleNamespace(isEmpty=lambda: engine.failure is None, get=lambda: raised)
                return SimpleNamespace(recentProgress=lambda: engine.progress, exception=lambda: option)

            @property
            def isActive(self) -> bool:  # noqa: N802 - Spark's name
                return engine.failure is None

        return cast("StreamingQuery", Handle())


def _reported(batch: int, *sources: SimpleNamespace) -> SimpleNamespace:
    """Build what Spark reports of a batch; minus one row per second says that it measured none."""
    return SimpleNamespace(
        batchId=lambda: batch,
        timestamp=lambda: f"2026-11-21T12:{batch // 60:02}:{batch % 60:02}.000Z",
        batchDuration=lambda: 100 + batch,
        numInputRows=lambda: batch,
        processedRowsPerSecond=lambda: -1.0 if batch == 0 else 12.34,
        sources=lambda: list(sources),
    )


def _source(description: str, *, end: int | None = None, latest: int | None = None) -> SimpleNamespace:
    def offset(number: int | None) -> str | None:
        return None if number is None else f'{{"clicks":{{"0":{number}}}}}'

    return SimpleNamespace(
        description=lambda: description,
        numInputRows=lambda: 1,
        endOffset=lambda: offset(end),
        latestOffset=lambda: offset(latest),
    )


def test_batches_are_remembered_oldest_first_with_what_spark_measured() -> None:
    engine = Engine()

    engine.has_run(0, 1)

    assert engine.query.newest_batches == observations.QueryBatches(
        uid="delays",
        batches=(
            observations.BatchReport(batch_id=0, began_at=NOON, duration_ms=100, input_rows=0, rows_per_second=0.0),
            observations.BatchReport(
                batch_id=1, began_at=NOON.replace(second=1), duration_ms=101, input_rows=1, rows_per_second=12.3
            ),
        ),
    )


def test_a_batch_is_told_once_however_often_spark_reports_it() -> None:
    engine = Engine()

    engine.has_run(1)
    engine.has_run(1)
    engine.has_run(2)

    status = engine.query.status()
    assert [batch.batch_id for batch in engine.query.newest_batches.batches] == [1, 2]
    assert (status.input_rows, status.batch_duration_ms) == (3, 102)


def test_only_the_newest_batches_are_remembered_and_every_row_is_counted() -> None:
    engine = Engine()
    count = observations.RETAINED_BATCHES + 5

    engine.has_run(*range(count))

    assert [batch.batch_id for batch in engine.query.newest_batches.batches] == list(range(5, count))
    assert engine.query.status().input_rows == sum(range(count))


def test_a_failure_of_the_job_names_its_line_and_its_frame() -> None:
    engine = Engine()

    engine.fails(_RAISED)

    error = queries.newest_error((engine.query,))
    assert error is not None
    assert error == api.JobError(
        query="delays",
        reason="QueryFailed",
        message="The query 'delays' failed at /job/delays.py:12 in process: ZeroDivisionError: division by zero",
        failed_at=error.failed_at,
        frames=(api.CodeFrame(file="/job/delays.py", line=12, function="process", source="mean = total / count"),),
        fault=Fault.REVISION,
    )


def test_a_source_that_is_out_of_reach_is_the_fault_of_the_surroundings() -> None:
    engine = Engine()

    engine.fails("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment")

    error = queries.newest_error((engine.query,))
    assert error is not None
    assert error.fault is Fault.SURROUNDINGS


def test_a_failure_that_passes_is_told_and_counted_although_the_query_runs_again() -> None:
    engine = Engine()

    engine.fails("Python worker failed to connect back")
    engine.query.refresh(_FACT)

    status, error = engine.query.status(), queries.newest_error((engine.query,))
    assert (status.restarts, status.active, status.error, engine.starts) == (1, True, None, 2)
    assert error is not None
    assert error.is_repeated


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[STREAM_FAILED] x: [STAGE_REPEATED] Batch 2 is not committed", id="found before the commit"),
        pytest.param("A shuffle map stage with indeterminate output was failed and retried.", id="found by Spark"),
    ],
)
def test_a_batch_whose_executor_was_lost_between_two_stages_runs_again_without_a_restart_of_the_job(text: str) -> None:
    engine = Engine()

    for _ in range(queries.MAX_REPEATED_STAGES):
        engine.fails(text)
        engine.query.refresh(_FACT)

    assert (engine.starts, engine.query.error) == (1 + queries.MAX_REPEATED_STAGES, None)
    engine.fails(text)
    assert engine.query.error == text


def test_a_query_that_has_lost_a_batch_goes_on_after_it_and_says_what_it_had_committed() -> None:
    engine = Engine()

    engine.fails(_LOST)

    assert (engine.starts, engine.query.error, engine.lost) == (2, None, [_FACT.last_committed])


def test_a_query_whose_function_remembers_the_batch_that_it_has_lost_ends() -> None:
    engine = Engine()
    engine.query.survives_lost_races = False

    engine.fails(_LOST)

    assert (engine.starts, engine.query.error, engine.lost) == (1, _LOST, [])


def test_a_commit_ends_the_count_of_lost_executors() -> None:
    engine = Engine()
    engine.fails("[STAGE_REPEATED]")
    engine.query.refresh(_FACT)

    engine.query.refresh(replace(_FACT, last_committed=4, last_offsets=4))

    assert engine.query.repeated_stages == 0


_EXPIRED = (
    "KafkaIllegalStateException: Some data may have been lost because they are not available in Kafka any more;\nx"
)


def test_a_query_whose_rows_kafka_does_not_have_is_restarted_once_to_be_sure() -> None:
    engine = Engine()
    engine.fails(_EXPIRED)
    waits_until_s = engine.query.starts_at_s or 0.0
    engine.query.starts_at_s = 0.0
    engine.query.refresh(_FACT)

    engine.fails(_EXPIRED)

    assert 0.0 < waits_until_s - time.monotonic() <= queries.LOST_INPUT_PAUSE_S
    assert (engine.starts, engine.query.is_starting, engine.query.active) == (2, False, False)
    assert engine.query.error == _EXPIRED


def test_a_query_that_got_its_rows_after_all_is_restarted_the_next_time_too() -> None:
    engine = Engine()
    engine.fails(_EXPIRED)
    engine.query.starts_at_s = 0.0
    engine.query.refresh(_FACT)
    engine.query.refresh(replace(_FACT, last_committed=4, last_offsets=4))

    engine.fails(_EXPIRED)

    assert engine.query.is_starting


def test_queries_are_stopped_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=10.0)

    late = queries.stop_all([_a_query_that_stops(uid, meeting.wait) for uid in ("a", "b", "c")], within_s=None)

    assert late == ()


def test_a_query_that_waits_for_a_silent_store_is_not_waited_for_when_the_job_has_failed() -> None:
    silence = threading.Event()

    late = queries.stop_all(
        [_a_query_that_stops("quick", lambda: None), _a_query_that_stops("stuck", silence.wait)], within_s=0.1
    )

    silence.set()
    assert late == ("stuck",)


def test_what_goes_wrong_in_a_stop_is_raised() -> None:
    def fail() -> None:
        raise ConnectionError("the JVM is gone")

    with pytest.raises(ConnectionError, match="the JVM is gone"):
        queries.stop_all([_a_query_that_stops("a", fail)], within_s=None)


def _a_query_that_stops(uid: str, stop: Callable[[], object]) -> queries.RunningQuery:
    handle = cast("StreamingQuery", SimpleNamespace(stop=stop))
    return queries.RunningQuery(queries.CheckpointLocation(uid, uid, uid), lambda: handle, handle, _FACT)


def test_the_newest_failure_of_several_queries_is_told() -> None:
    first, second = Engine().query, Engine().query
    first.last_error = _an_error(minute=5)
    second.last_error = _an_error(minute=4)

    assert queries.newest_error((second, first, Engine().query)) == _an_error(minute=5)


def _an_error(*, minute: int) -> api.JobError:
    return api.JobError(query="delays", reason="QueryFailed", message="", failed_at=NOON.replace(minute=minute))


def test_without_a_failure_nothing_is_told() -> None:
    assert queries.newest_error((Engine().query,)) is None


def test_a_query_tells_how_far_each_source_is_behind_and_of_which_it_cannot_tell() -> None:
    engine = Engine()

    for batch in (0, 1):
        kafka = _source("KafkaV2[Subscribe[clicks]]", end=batch, latest=batch + 5)
        engine.progress.append(_reported(batch, kafka, _source("RateStreamV2[1]")))
    engine.query.refresh_progress()

    assert engine.query.status().sources == (
        api.SourceStatus(name="Kafka clicks", input_rows=1, lag_rows=5),
        api.SourceStatus(name="RateStreamV2[1]", input_rows=1),
    )
    assert [batch.lag_rows for batch in engine.query.newest_batches.batches] == [5, 5]


@pytest.mark.parametrize(
    ("since", "takes_long"),
    [
        pytest.param(None, False, id="no batch runs"),
        pytest.param(NOON, False, id="it has just begun"),
        pytest.param(NOON - timedelta(seconds=10), False, id="ten seconds are usual"),
        pytest.param(NOON - timedelta(seconds=10.1), True, id="it takes longer than that"),
    ],
)
def test_a_batch_of_some_seconds_is_looked_into(since: datetime | None, takes_long: bool) -> None:
    assert queries.takes_long(since, NOON) is takes_long


def test_missing_input_files_add_up_over_restarts_of_a_query_and_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = Engine().query

    for fact in (_MISSING, _MISSING, replace(_MISSING, missing_files=5), replace(_MISSING, missing_files=1)):
        query.refresh(fact)

    told = [vars(record) for record in caplog.records if "gone before they were read" in record.getMessage()]
    assert query.status().missing_files == 6
    assert [(one["files"], one["last"]) for one in told] == [
        (2, "s3a://in/9.json"),
        (3, "s3a://in/9.json"),
        (1, "s3a://in/9.json"),
    ]
