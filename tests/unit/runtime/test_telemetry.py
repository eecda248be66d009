"""Log lines: text for people, JSON for programs, the same values in both."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from statefulspark import telemetry


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("restored_logging")
def test_json_lines_carry_every_extra_field() -> None:
    stream = io.StringIO()
    telemetry.configure(telemetry.LogFormat.JSON, stream)

    logging.getLogger("statefulspark.spark.loop").info("snapshot completed", extra={"id": 42, "where": {"a"}})

    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "id": 42,
        "where": "{'a'}",
        "level": "INFO",
        "logger": "statefulspark.spark.loop",
        "message": "snapshot completed",
    }


@pytest.mark.usefixtures("restored_logging")
def test_text_lines_have_the_fields_behind_the_message() -> None:
    stream = io.StringIO()
    telemetry.configure(telemetry.LogFormat.TEXT, stream)

    logging.getLogger("statefulspark.spark.loop").warning("snapshot aborted", extra={"id": 42, "why": "too slow"})

    assert stream.getvalue()[8:] == " WARNING loop: snapshot aborted id=42 why=too slow\n"


@pytest.mark.usefixtures("restored_logging")
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


@pytest.mark.usefixtures("restored_logging")
def test_what_is_no_terminal_gets_json() -> None:
    stream = io.StringIO()
    telemetry.configure(stream=stream)

    logging.getLogger("x").info("hello")

    assert json.loads(stream.getvalue())["message"] == "hello"
