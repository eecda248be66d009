"""What a dry run prints: sentences for people, one document for tools."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from statefulspark import errors, launch, storage
from statefulspark.contract import config
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import check, start, start_parts
from statefulspark.job import Job
from statefulspark.operators import functions
from statefulspark.recovery.plan import StartMode, StartPlan
from statefulspark.testing import stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOVED = check.Report(
    fits=True,
    restored_from="checkpoint 41",
    new_generation=True,
    changes=("query 'q': operator 'b' is new and starts empty",),
    queries=(
        check.QueryReport(uid="q", batch_id=6, kept=("a",), added=("b",)),
        check.QueryReport(uid="r", batch_id=-1),
    ),
)


def test_a_job_that_fits_is_told_what_happens_to_its_state() -> None:
    assert check.sentences(MOVED).splitlines() == [
        "This job can start from checkpoint 41.",
        "  query 'q' continues after batch 6",
        "    keeps operator 'a'",
        "  query 'r' starts empty",
        "  query 'q': operator 'b' is new and starts empty",
        "The state is copied first.",
    ]


def test_a_savepoint_that_is_not_continued_in_place_is_told_with_the_reason() -> None:
    why = "query 'q' is at batch 8, and the savepoint at batch 6"
    built = start_parts.Built((), functions.JobFunctions(), hooks.JobHooks())
    root = start_parts.JobRoot(stores.MemoryStore(), storage.StorageOptions())
    found = StartPlan(StartMode.COPY, 2, restored_from="s3://bucket/nightly", why_copied=why)

    report = check.report_of(start_parts.Comparison(root, cast("SparkSession", None), found, built, {}))

    assert (report.new_generation, report.copied_because) == (True, why)
    assert check.sentences(report).splitlines()[-1] == f"The state is copied first, since {why}."


def test_a_job_that_does_not_fit_is_told_why() -> None:
    refused = check.Report(fits=False, reason="KeyChanged", message="The state of operator 'a' ...")

    assert check.sentences(refused).splitlines() == [
        "This job cannot start.",
        "KeyChanged: The state of operator 'a' ...",
    ]


@pytest.mark.parametrize("form", check.ReportFormat)
def test_a_refusal_ends_with_the_exit_code_of_the_start(
    form: check.ReportFormat, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job_config = config.JobConfig(name="empty", storage=config.StorageConfig(uri=f"file://{tmp_path}"))

    code = check.check(Job("empty").definition, job_config, form)

    printed = capsys.readouterr().out
    assert code == 13
    assert "NoQueries" in printed
    if form is check.ReportFormat.JSON:
        assert json.loads(printed)["fits"] is False
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", check.ReportFormat)
def test_a_terminal_gets_no_command_from_the_names_in_a_report(
    form: check.ReportFormat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", screen)
    job_config = config.JobConfig(name="empty", storage=config.StorageConfig(uri=f"file://{tmp_path}"))

    def refused(*_: object) -> None:
        raise errors.SpecRejectedError("KeyChanged", "a\x9b2Jb")

    monkeypatch.setattr(start, "check", refused)
    check.check(Job("empty").definition, job_config, form)

    assert "KeyChanged" in screen.getvalue()
    assert "\x9b" not in screen.getvalue()


def test_a_job_file_is_asked_for_the_report_and_only_then(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(
        "from statefulspark import launch\n"
        f"open({str(tmp_path / 'asked')!r}, 'a').write(str(launch.requested_report()))\n"
        "raise launch.DriverEnded(0)\n"
    )
    job_config = config.JobConfig(name="empty", storage=config.StorageConfig(uri=f"file://{tmp_path}"))

    launch.run_file(file, job_config, report="json")
    launch.run_file(file, job_config)

    assert (tmp_path / "asked").read_text() == "jsonNone"
    assert launch.requested_report() is None


def test_a_restore_that_would_not_be_done_again_is_a_warning() -> None:
    found = StartPlan(StartMode.CONTINUE, 1, restore_skipped="The restore of x was done before")

    built = start_parts.Built((), functions.JobFunctions(), hooks.JobHooks())
    root = start_parts.JobRoot(stores.MemoryStore(), storage.StorageOptions())

    report = check.report_of(start_parts.Comparison(root, cast("SparkSession", None), found, built, {}))

    assert report.warnings == ("The restore of x was done before",)
    assert "  warning: The restore of x was done before" in check.sentences(report).splitlines()
