"""`status`, `savepoint create` and `stop` against a driver's API over a real socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from coordination import a_checkpoint, a_savepoint
from fakecontrol import NOON, TOKEN, FakeControl, a_status, a_summary, served
from statefulspark import errors
from statefulspark.cli import main, status, waiting
from statefulspark.contract import api, config
from statefulspark.contract.manifest import SnapshotFormat, SnapshotKind
from statefulspark.coordinator import model
from statefulspark.server.tokens import FixedToken
from watched import Watched

_SAVEPOINT = a_summary(kind=SnapshotKind.SAVEPOINT, number=43)


class Job:
    """A served job and the command line pointed at it."""

    def __init__(self, control: FakeControl, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.control = control
        self.url = url
        self._capsys = capsys

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = main.main([*arguments, "--url", self.url])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def job(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setenv(config.ENV_TOKEN, TOKEN)
    control = FakeControl()
    with served(control) as url:
        yield Job(control, url, capsys)


def test_status_is_described(job: Job) -> None:
    job.control.current = a_status(last_checkpoint=a_summary())

    code, out, _ = job.run("status")

    assert code == 0
    assert "Job:               default/words\n" in out
    assert "Checkpoints:       3 completed, 0 in progress, 2 failed\n" in out
    assert out.splitlines()[-1].split() == ["counts", "12", "-", "500", "250", "0ms", "running"]


def test_ages_in_a_status_count_from_now() -> None:
    text = status.describe(a_status(last_checkpoint=a_summary()), now=NOON + timedelta(minutes=3))

    assert "Up:                3m\n" in text
    assert (
        "Last checkpoint:   41, 2m58s ago, 2.86 MiB, took 2.0s, s3://bucket/default/words/checkpoints/00000041\n"
        in text
    )


def test_a_status_says_how_far_each_sink_is() -> None:
    sinks = (
        api.SinkStatus(query="counts", uid="out", committed_batch=11, pending_transactions=2),
        api.SinkStatus(query="counts", uid="new", retrying="No broker."),
    )

    text = status.describe(a_status().model_copy(update={"sinks": sinks}), now=NOON)

    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["SINK", "QUERY", "COMMITTED", "PENDING", "RETRYING"],
        ["out", "counts", "batch", "11", "2", "-"],
        ["new", "counts", "-", "0", "No", "broker."],
    ]


def test_a_savepoint_is_waited_for_and_its_location_printed(job: Job) -> None:
    timer = threading.Timer(0.2, lambda: job.control.operations.complete("nightly-1", _SAVEPOINT))
    timer.start()

    code, out, err = job.run("savepoint", "create", "--request-id", "nightly-1", "--name", "nightly")

    timer.join()
    assert (code, out) == (0, f"{_SAVEPOINT.location}\n")
    assert err == "savepoint nightly-1: in progress\n"
    assert job.control.started == [api.SavepointRequest(request_id="nightly-1", name="nightly")]


def test_while_a_savepoint_is_copied_it_is_told_how_far_it_is(job: Job) -> None:
    copied = api.Progress(unit="files", done=3, total=12, done_bytes=3 * 1024**3, total_bytes=12 * 1024**3)

    def copy() -> None:
        job.control.operations.report("nightly-1", copied)
        time.sleep(1.5)  # Longer than a client waits between two looks.
        job.control.operations.complete("nightly-1", _SAVEPOINT)

    timer = threading.Timer(0.2, copy)
    timer.start()
    code, out, err = job.run("savepoint", "create", "--request-id", "nightly-1")

    timer.join()
    assert (code, out) == (0, f"{_SAVEPOINT.location}\n")
    assert err.splitlines() == [
        "savepoint nightly-1: in progress",
        "savepoint nightly-1 [######..................]  25%  3.00 GiB of 12.0 GiB, 3 of 12 files",
    ]


def test_what_was_not_waited_for_can_be_waited_for_later(job: Job) -> None:
    """A.157."""
    job.run("savepoint", "create", "--no-wait", "--quiet", "--request-id", "nightly-1")
    timer = threading.Timer(0.2, lambda: job.control.operations.complete("nightly-1", _SAVEPOINT))
    timer.start()

    ended = job.run("savepoint", "wait", "nightly-1", "--quiet")
    unknown = job.run("savepoint", "wait", "unheard-of")

    timer.join()
    assert ended == (0, f"{_SAVEPOINT.location}\n", "")
    assert (unknown[0], unknown[2].count("\n")) == (2, 1)
    assert "'unheard-of'" in unknown[2]


def test_a_canonical_savepoint_is_asked_for_by_its_format(job: Job) -> None:
    """A.158."""
    job.control.completes_with = _SAVEPOINT

    code, _, _ = job.run("savepoint", "create", "--request-id", "a", "--format", "canonical")

    assert code == 0
    assert job.control.started == [api.SavepointRequest(request_id="a", format=SnapshotFormat.CANONICAL)]


def test_a_checkpoint_can_be_asked_for(job: Job) -> None:
    job.control.completes_with = a_summary()

    code, out, _ = job.run("checkpoint", "create", "--request-id", "now", "-o", "name")

    assert (code, out) == (0, "checkpoint/41\n")
    assert job.control.started == [api.CheckpointRequest(request_id="now")]


def test_the_history_shows_how_long_each_part_took(job: Job) -> None:
    run = Watched()
    run.snapshot(a_checkpoint(), took_s=3)
    run.send(model.Declined(9, run.begin(a_checkpoint("b"), 8), "delays", "disk full"))
    run.begin(a_savepoint("c"), 10)
    job.control.stats = run.stats

    code, out, _ = job.run("checkpoint", "history", "-o", "wide")

    counts, header, *rows = out.splitlines()
    assert code == 0
    assert counts.startswith("1 completed, 1 failed, 1 in progress; end to end p50 3.0s")
    assert header.split()[:3] == ["ID", "KIND", "STATE"]
    assert [row.split()[:4] for row in rows] == [
        ["3", "Savepoint", "InProgress", "Manual"],
        ["2", "Checkpoint", "Failed", "Manual"],
        ["1", "Checkpoint", "Completed", "Manual"],
    ]
    assert rows[1].endswith("CHECKPOINT_DECLINED")
    assert rows[2].split()[5:] == ["3.0s", "1.0s", "2.0s", "10", "B", "100", "B", "7", "2/2", "500ms", "-"]


def test_one_snapshot_of_the_history_is_described(job: Job) -> None:
    run = Watched()
    run.begin(a_checkpoint())
    job.control.stats = run.stats
    waiting = job.run("checkpoint", "history", "1")
    run.ack(1, batches={"counts": 12, "delays": 41}, now_s=0.25)
    job.control.stats = run.stats

    code, out, _ = job.run("checkpoint", "history", "1")
    missing = job.run("checkpoint", "history", "9")

    assert [line.split() for line in waiting[1].splitlines()[-2:]] == [
        ["counts", "-", "waits"],
        ["delays", "-", "waits"],
    ]
    assert code == 0
    assert [line.split() for line in out.splitlines()[-2:]] == [["counts", "12", "250ms"], ["delays", "41", "250ms"]]
    assert (missing[0], missing[2].count("\n")) == (2, 1)


def test_a_savepoint_that_takes_longer_than_the_timeout_goes_on(job: Job) -> None:
    code, out, err = job.run("savepoint", "create", "--request-id", "slow", "--timeout", "100ms")

    assert (code, out) == (16, "")
    assert "--request-id slow" in err


def test_a_failed_savepoint_says_why(job: Job) -> None:
    job.control.operations.begin("nightly-1", api.OperationKind.SAVEPOINT)
    job.control.operations.fail("nightly-1", "CHECKPOINT_EXPIRED", "Not complete after 600 s.")

    code, out, err = job.run("savepoint", "create", "--request-id", "nightly-1")

    assert (code, out) == (1, "")
    assert err == "error: The savepoint failed with CHECKPOINT_EXPIRED: Not complete after 600 s.\n"


@pytest.mark.parametrize(
    ("flags", "savepoint"),
    [((), False), (("--savepoint",), True), (("--name", "final"), True), (("--location", "s3://b/sp"), True)],
    ids=["no flag", "savepoint", "its name", "its location"],
)
def test_a_stop_takes_a_savepoint_when_one_is_asked_for(job: Job, flags: tuple[str, ...], savepoint: bool) -> None:
    job.control.completes_with = _SAVEPOINT

    code, out, _ = job.run("stop", *flags)

    (request,) = job.control.started
    assert isinstance(request, api.StopRequest)
    assert (code, out, request.savepoint) == (0, f"{_SAVEPOINT.location}\n", savepoint)


@pytest.mark.parametrize(
    ("flags", "drain", "form"),
    [
        (("--drain",), True, SnapshotFormat.NATIVE),
        (("--format", "canonical"), False, SnapshotFormat.CANONICAL),
        (("--drain", "--format", "native"), True, SnapshotFormat.NATIVE),
    ],
    ids=["drain", "canonical", "both"],
)
def test_a_stop_can_drain_and_write_its_savepoint_in_either_form(
    job: Job, flags: tuple[str, ...], drain: bool, form: SnapshotFormat
) -> None:
    job.control.completes_with = _SAVEPOINT

    job.run("stop", *flags)

    (request,) = job.control.started
    assert isinstance(request, api.StopRequest)
    assert (request.savepoint, request.drain, request.format) == (True, drain, form)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(("savepoint", "create", "--name", "Big"), "'Big' of --name", id="a bad name"),
        pytest.param(("stop", "--request-id", "a b"), "'a b' of --request-id", id="a bad request id"),
        pytest.param(("status", "--token", "wrong"), "refuses the token", id="a wrong token"),
    ],
)
def test_a_wrong_request_is_one_sentence(job: Job, arguments: tuple[str, ...], named: str) -> None:
    code, out, err = job.run(*arguments)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err
    assert job.control.started == []


@pytest.mark.parametrize(
    ("url", "code", "named"),
    [
        pytest.param("http://127.0.0.1:9", 16, "http://127.0.0.1:9", id="nobody listens"),
        pytest.param("ftp://driver", 2, "'ftp://driver'", id="another scheme"),
        pytest.param("driver:8090", 2, "'driver:8090'", id="no scheme"),
        pytest.param("http://driver:80900", 2, "'http://driver:80900'", id="a port that is too large"),
        pytest.param("http://driver:port", 2, "'http://driver:port'", id="a port that is no number"),
        pytest.param("http://[::1", 2, "'http://[::1'", id="half an IPv6 address"),
        pytest.param("http://my driver:8090", 2, "'http://my driver:8090'", id="a blank"),
        pytest.param("http://driver:8090/wörter", 2, "'http://driver:8090/wörter'", id="a path that is not ASCII"),
        pytest.param(f"http://{'d' * 64}:8090", 2, "'http://ddd", id="a host longer than names are"),
    ],
)
def test_a_driver_that_cannot_be_reached_is_named(
    url: str, code: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["status", "--url", url, "--token", "x"]) == code

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert named in said


def test_a_token_with_a_line_break_is_refused(job: Job) -> None:
    code, _, err = job.run("status", "--token", f"{TOKEN}\n")

    assert (code, err.count("\n")) == (2, 1)
    assert "line break" in err


def test_a_token_of_any_alphabet_is_sent_as_the_driver_compares_it(capsys: pytest.CaptureFixture[str]) -> None:
    with served(FakeControl(), tokens=FixedToken("schlüssel-€")) as url:
        assert main.main(["status", "--url", url, "--token", "schlüssel-€"]) == 0


def test_a_failed_savepoint_is_written_for_programs_before_the_process_ends(job: Job) -> None:
    """The process ended without Python's own end, and with it went what was still buffered."""
    job.control.operations.begin("nightly-1", api.OperationKind.SAVEPOINT)
    job.control.operations.fail("nightly-1", "CHECKPOINT_EXPIRED", "Not complete after 600 s.")
    command = "import sys; from statefulspark.cli import entry; sys.exit(entry.main())"
    arguments = ("savepoint", "create", "--request-id", "nightly-1", "-o", "json", "--url", job.url)

    ended = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert json.loads(ended.stdout)["reason"] == "CHECKPOINT_EXPIRED"


def test_a_missing_token_is_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(config.ENV_TOKEN, raising=False)

    assert main.main(["status"]) == 2
    assert config.ENV_TOKEN in capsys.readouterr().err


class _FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float, /) -> None:
        self.now_s += seconds


class _Flaky:
    """A driver that is unreachable for some calls."""

    def __init__(self, answer: Callable[[int], api.Operation]) -> None:
        self._answer = answer
        self._calls = 0

    def operation(self, request_id: str, *, wait_s: int) -> api.Operation:
        self._calls += 1
        return self._answer(self._calls)


def _operation(kind: api.OperationKind, state: api.OperationState = api.OperationState.IN_PROGRESS) -> api.Operation:
    return api.Operation(request_id="a", kind=kind, state=state)


def _unreachable(_: int) -> api.Operation:
    raise errors.TransientError("DriverUnreachable", "No driver answers.")


def test_a_short_interruption_of_the_connection_is_waited_out() -> None:
    def answer(call: int) -> api.Operation:
        return _unreachable(call) if call < 5 else _operation(api.OperationKind.SAVEPOINT, api.OperationState.COMPLETED)

    ended = waiting.wait_until_ended(
        _Flaky(answer), _operation(api.OperationKind.SAVEPOINT), timeout_s=60, clock=_FakeTime()
    )

    assert ended.state is api.OperationState.COMPLETED


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        pytest.param(api.OperationKind.SAVEPOINT, "DriverUnreachable", id="a savepoint's driver is unreachable"),
        pytest.param(
            api.OperationKind.STOP, "StopUnseen", id="a stopped driver is gone, and how the stop ended is not known"
        ),
    ],
)
def test_a_driver_that_stays_away_is_given_up(kind: api.OperationKind, reason: str) -> None:
    with pytest.raises(errors.StatefulSparkError) as raised:
        waiting.wait_until_ended(_Flaky(_unreachable), _operation(kind), timeout_s=60, clock=_FakeTime())

    assert raised.value.reason == reason
