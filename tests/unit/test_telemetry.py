"""Log lines: text for people, JSON for programs, the same values in both."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable

import pytest
from statefulspark import telemetry
from statefulspark_operator.telemetry import logs


def test_json_lines_carry_every_extra_field() -> None:
    stream = io.StringIO()
    telemetry.configure(telemetry.LogFormat.JSON, stream)

    logging.getLogger("statefulspark.driver.loop").info("snapshot completed", extra={"id": 42, "where": {"a"}})

    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "id": 42,
        "where": "{'a'}",
        "level": "INFO",
        "logger": "statefulspark.driver.loop",
        "message": "snapshot completed",
    }


_GOLDEN = (
    '{"time": "2026-11-22T17:00:00.250+00:00", "level": "ERROR", "logger": "statefulspark.driver.loop", '
    '"message": "it failed", "id": 42, "where": "{\'é\'}", "stack": "ValueError: broken"}\n'
)


def _by_driver() -> None:
    telemetry.configure(telemetry.LogFormat.JSON)


def _by_operator() -> None:
    logs.configure("json")


@pytest.mark.parametrize("configure", [_by_driver, _by_operator], ids=["driver", "operator"])
def test_a_line_of_the_driver_and_of_the_operator_has_the_same_fields(
    configure: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure()
    fields = {"levelno": logging.ERROR, "levelname": "ERROR", "name": "statefulspark.driver.loop", "msg": "it failed"}
    extra = {"id": 42, "where": {"é"}, "nothing": None}
    failure = (ValueError, ValueError("broken"), None)
    record = logging.makeLogRecord({**fields, **extra, "created": 1795366800.25, "exc_info": failure})

    logging.getLogger().handle(record)

    assert stream.getvalue() == _GOLDEN


def test_text_lines_have_the_fields_behind_the_message() -> None:
    stream = io.StringIO()
    telemetry.configure(telemetry.LogFormat.TEXT, stream)

    logging.getLogger("statefulspark.driver.loop").warning("snapshot aborted", extra={"id": 42, "why": "too slow"})

    assert stream.getvalue()[8:] == " WARNING loop: snapshot aborted id=42 why=too slow\n"


@pytest.mark.parametrize("log_format", telemetry.LogFormat)
def test_a_stack_trace_is_kept(log_format: telemetry.LogFormat) -> None:
    stream = io.StringIO()
    telemetry.configure(log_format, stream)

    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("x").exception("it failed")

    assert "ValueError: broken" in stream.getvalue()
    assert stream.getvalue().count("\n") == 1 or log_format is telemetry.LogFormat.TEXT


def test_what_is_no_terminal_gets_json() -> None:
    stream = io.StringIO()
    telemetry.configure(stream=stream)

    logging.getLogger("x").info("hello")

    assert json.loads(stream.getvalue())["message"] == "hello"


def test_a_stack_that_a_record_carries_is_below_its_line() -> None:
    stream = io.StringIO()
    telemetry.configure(telemetry.LogFormat.TEXT, stream)

    logging.getLogger("statefulspark.driver.running.queries").error(
        "it raised", extra={"query": "q", "stack": "  File x\nbad"}
    )

    assert stream.getvalue()[8:] == " ERROR queries: it raised query=q\n  File x\nbad\n"


@pytest.mark.parametrize(
    ("detail", "lines"), [(telemetry.Detail.BRIEF, 0), (telemetry.Detail.VERBOSE, 1)], ids=["brief", "verbose"]
)
def test_why_nothing_changes_is_logged_when_that_is_wanted(detail: telemetry.Detail, lines: int) -> None:
    stream = io.StringIO()
    telemetry.configure(telemetry.LogFormat.TEXT, stream, detail=detail)

    logging.getLogger("statefulspark.driver.loop").debug("nothing to do")
    logging.getLogger("botocore").debug("chatter")

    assert len(stream.getvalue().splitlines()) == lines
    assert telemetry.is_verbose() is bool(lines)


def test_loggers_that_the_jobs_configuration_disabled_are_enabled_again() -> None:
    ours, others = logging.getLogger("statefulspark.launch"), logging.getLogger("other.library")
    ours.disabled = others.disabled = True
    try:
        telemetry.enable_loggers()
        assert (ours.disabled, others.disabled) == (False, True)
    finally:
        ours.disabled = others.disabled = False
