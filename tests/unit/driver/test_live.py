"""A person at a terminal sees that the job works; nobody else is shown anything."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from statefulspark import clock, telemetry
from statefulspark.contract import api
from statefulspark.driver import live

IDLE = api.QueryStatus(uid="counts", active=True, batch_id=-1)
FIRST = IDLE.model_copy(update={"batch_id": 0, "input_rows": 60, "rows_per_second": 12.5, "batch_duration_ms": 4800})
FOURTH = FIRST.model_copy(
    update={"batch_id": 3, "input_rows": 5060, "rows_per_second": 2500.4, "batch_duration_ms": 400}
)
EMPTY = FOURTH.model_copy(update={"batch_id": 4, "rows_per_second": 0.0, "batch_duration_ms": 300})


def _status(*queries: api.QueryStatus) -> api.JobStatus:
    now = clock.utc_now()
    return api.JobStatus(job="w", namespace="n", state=api.JobState.RUNNING, epoch=1, started_at=now, queries=queries)


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        pytest.param(None, IDLE, (), id="before the first batch"),
        pytest.param(
            IDLE, FIRST, ("counts: 60 rows, batch 0 in 4.8s (12 rows/s), 60 rows since the start",), id="a batch"
        ),
        pytest.param(FIRST, FIRST, (), id="no batch since"),
        pytest.param(
            FIRST,
            FOURTH,
            ("counts: 5,000 rows, batch 3 in 0.4s (2,500 rows/s), 5,060 rows since the start",),
            id="several batches in one line",
        ),
        pytest.param(FOURTH, EMPTY, ("counts: 0 rows, batch 4 in 0.3s, 5,060 rows since the start",), id="no rows"),
        pytest.param(
            FOURTH, FOURTH.model_copy(update={"batch_id": 4}), (), id="a batch that Spark has not measured yet"
        ),
    ],
)
def test_a_batch_is_told_once(before: api.QueryStatus | None, now: api.QueryStatus, shown: tuple[str, ...]) -> None:
    assert live.news(before and _status(before), _status(now)) == shown


@dataclass
class _Terminal(io.StringIO):
    """A stream that is a terminal, or is none."""

    is_terminal: bool = field(default=True)

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = before


@pytest.mark.parametrize(
    ("log_format", "is_terminal", "is_shown"),
    [
        pytest.param(telemetry.LogFormat.TEXT, True, True, id="text at a terminal"),
        pytest.param(telemetry.LogFormat.TEXT, False, False, id="text into a file"),
        pytest.param(telemetry.LogFormat.JSON, True, False, id="JSON at a terminal"),
    ],
)
def test_only_a_person_is_shown_something(
    log_format: telemetry.LogFormat,
    is_terminal: bool,
    is_shown: bool,
    monkeypatch: pytest.MonkeyPatch,
    root_logger: None,
) -> None:
    stream = _Terminal(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    telemetry.configure(log_format, stream)

    assert live.is_watched() is is_shown


def test_the_last_batch_is_shown_although_the_job_ends_right_after_it() -> None:
    shown, now = io.StringIO(), [_status(IDLE)]

    with live.watching(lambda: now[0], shown, look_s=3600):
        now[0] = _status(FIRST)

    assert shown.getvalue() == "  counts: 60 rows, batch 0 in 4.8s (12 rows/s), 60 rows since the start\n"
