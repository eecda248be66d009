"""What people get wrong, and what `statefulspark run` prints at a terminal: the cause last, and nothing of Spark's."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mistakes
import pytest
from mistakes import Mistake
from statefulspark import launch
from statefulspark.cli import main
from statefulspark.contract import config
from statefulspark.engine import gateway, session

_TIME = re.compile(r"^\d\d:\d\d:\d\d ", re.MULTILINE)
_NOTED = re.compile(r"^INFO sparklogfile: Spark logs to a file .*\n", re.MULTILINE)
_JAVA = '#!/bin/sh\n: > "$0.started"\nexec cat > /dev/null\n'
"""Waits for the end of its input, as Spark's JVM does."""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that only notes that it was started; returns the note."""
    command = tmp_path / "java-home" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(_JAVA)
    command.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(command.parents[1]))
    return command.with_name("java.started")


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The process as it was: handlers of signals, and the search path."""
    for name in (config.ENV_CONFIG, "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "TERMINATION_LOG", tmp_path / "none")
    signals = {number: signal.getsignal(number) for number in launch.STOP_SIGNALS}
    path = sys.path[:]
    yield
    end_spark()
    for number, handler in signals.items():
        signal.signal(number, handler)
    sys.path[:] = path
    sys.modules.pop("helpers", None)


def end_spark() -> None:
    """End the start of Spark that a job had begun and nobody waits for: the next test would have its log, and its Java."""
    begun, session._begun.session = session._begun.session, None
    while begun is not None and not begun.done():
        gateway.abandon()
        time.sleep(0.01)


def run(mistake: Mistake, folder: Path) -> tuple[int, Path]:
    file = folder / "job.py"
    if mistake.source is not None:
        file.write_text(mistake.source)
    if mistake.neighbour is not None:
        (folder / "helpers.py").write_text(mistake.neighbour)
    try:
        return main.main(["run", str(file), "--log-format", "text", *mistake.flags]), file
    except SystemExit as ended:
        return int(ended.code or 0), file


@pytest.mark.parametrize("mistake", mistakes.WITHOUT_SPARK, ids=lambda mistake: mistake.what)
def test_a_mistake_is_told_with_its_cause_last(
    mistake: Mistake, tmp_path: Path, java: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, file = run(mistake, tmp_path)

    told = _NOTED.sub("", _TIME.sub("", capsys.readouterr().err))
    told = told.replace(str(file), "FILE").replace(str(tmp_path / "helpers.py"), "HELPERS")
    assert (told, code) == (mistake.printed, mistake.code)
    assert java.exists() <= mistake.starts_java


def test_a_check_is_refused_before_spark_starts_in_the_words_of_the_command(
    tmp_path: Path, java: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file:// location was refused once the JVM was up, in words of the resource."""
    local = next(mistake for mistake in mistakes.WITHOUT_SPARK if mistake.what == "a local folder as storage")

    code, _ = run(replace(local, flags=("--check", *local.flags)), tmp_path)

    assert (_TIME.sub("", capsys.readouterr().err), code) == (local.printed, 2)
    assert not java.exists()


def test_a_check_that_refuses_the_job_says_why_last(
    tmp_path: Path, java: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = run(Mistake("", mistakes.NO_QUERY, "", 13, flags=("--check", *mistakes.STORAGE)), tmp_path)

    assert code == 13
    assert capsys.readouterr().out.splitlines() == [
        "This job cannot start.",
        "NoQueries: The job words declares no query; decorate one with @job.query.",
    ]


def test_the_page_shows_what_is_printed() -> None:
    assert mistakes.page(mistakes.PAGE.read_text()) == mistakes.PAGE.read_text()
