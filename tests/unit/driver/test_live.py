"""A person at a terminal sees that the job works; nobody else is shown anything."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import signal
import struct
import sys
import termios
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from smallterminal import SmallTerminal
from statefulspark import clock, launch, telemetry
from statefulspark.contract import api, observations
from statefulspark.driver.terminal import live

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
) -> None:
    stream = _Terminal(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    telemetry.configure(log_format, stream)

    assert live.is_watched() is is_shown


def test_the_last_batch_is_shown_although_the_job_ends_right_after_it() -> None:
    shown, now = io.StringIO(), [_status(IDLE)]

    job = SimpleNamespace(status=lambda: now[0], state=observations.StateSizes)
    with live.watching(job, shown, look_s=3600):
        now[0] = _status(FIRST)

    assert shown.getvalue() == "  counts: 60 rows, batch 0 in 4.8s (12 rows/s), 60 rows since the start\n"


def _job(*queries: api.QueryStatus) -> SimpleNamespace:
    status = _status(*queries)
    return SimpleNamespace(status=lambda: status, state=observations.StateSizes)


@pytest.mark.parametrize("coloured", [True, False])
def test_the_display_is_drawn_below_the_log_and_is_gone_at_the_end(coloured: bool) -> None:
    terminal = SmallTerminal(90, 16)
    terminal.write("12:00:01 INFO loop: started\n")

    display = live.LiveDisplay(_job(FOURTH), terminal, terminal.size, coloured=coloured)
    display.look()
    assert terminal.rows[0] == "12:00:01 INFO loop: started"
    assert terminal.rows[-4:-2] == [
        "query   batch  took  rate          rows read  behind",
        "counts  3      0.4s  2,500 rows/s  5,060",
    ]
    display.end()

    assert [line for line in terminal.rows if line] == [
        "12:00:01 INFO loop: started",
        "  counts: 5,060 rows since the start, the last batch is 3",
    ]


def test_the_display_follows_the_size_of_the_terminal() -> None:
    terminal = SmallTerminal(90, 30)
    display = live.LiveDisplay(_job(FOURTH), terminal, terminal.size, coloured=False)
    display.look()

    terminal.resize(40, 12)
    display.look()

    assert [len(line) for line in terminal.rows if line.startswith("──")] == [40]
    assert terminal.rows[-1].startswith("checkpoints 0 completed")


@pytest.mark.parametrize(
    ("environment", "display", "rows", "is_kept"),
    [
        pytest.param({"TERM": "xterm-256color"}, None, 24, True, id="a terminal"),
        pytest.param({"TERM": "xterm-256color"}, launch.Display.PLAIN, 24, False, id="--plain"),
        pytest.param({"TERM": "xterm-256color", telemetry.ENV_PLAIN: "1"}, None, 24, False, id="the environment"),
        pytest.param({"TERM": "dumb"}, None, 24, False, id="an editor's shell"),
        pytest.param({}, None, 24, False, id="a terminal that does not tell what it is"),
        pytest.param({"TERM": "xterm-256color"}, None, 8, False, id="too low"),
    ],
)
def test_only_a_terminal_that_can_keep_rows_gets_the_display(
    environment: dict[str, str],
    display: launch.Display | None,
    rows: int,
    is_kept: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TERM", telemetry.ENV_PLAIN):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
    token = launch._display.set(display)

    with open(terminal, "w", closefd=True) as stream:
        assert live.keeps_rows(stream) is is_kept
    launch._display.reset(token)
    os.close(controller)


def test_a_file_gets_no_display(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")

    with (tmp_path / "log").open("w") as stream:
        assert not live.keeps_rows(stream)


@pytest.mark.parametrize(("value", "coloured"), [(None, True), ("", True), ("1", False)])
def test_no_color_is_honoured(value: str | None, coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv(telemetry.ENV_PLAIN, raising=False)
    if value is not None:
        monkeypatch.setenv("NO_COLOR", value)
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    with open(terminal, "w") as stream, live.watching(_job(FOURTH), stream, look_s=0.01):
        written = b""
        while b"checkpoints" not in written:
            written += os.read(controller, 65536)
    os.close(controller)

    assert b"counts" in written
    assert (b"\x1b[32mRunning" in written) is coloured


def test_a_new_size_of_the_terminal_is_answered_at_once() -> None:
    looks: list[int] = []
    looked = threading.Event()

    def status() -> api.JobStatus:
        looks.append(1)
        looked.set()
        return _status(FOURTH)

    before = signal.getsignal(signal.SIGWINCH)
    with live.watching(SimpleNamespace(status=status, state=observations.StateSizes), io.StringIO(), look_s=3600):
        assert not looks
        os.kill(os.getpid(), signal.SIGWINCH)
        assert looked.wait(10)

    assert signal.getsignal(signal.SIGWINCH) is before
