"""The report of the end-to-end scenarios: what is left out of the next run, and what people read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from testbed import report
from testbed.report import FAILED, PASSED, Row

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = """
import pytest

def test_one():
    pass

@pytest.fixture
def cluster():
    yield
    raise OSError("the cluster does not go away")

def test_two(cluster):
    pass

def test_three():
    assert False
"""


def row(scenario: str, outcome: str = PASSED, code: str = "new") -> Row:
    return Row(scenario, outcome, 90.0, "2026-01-01T00:00:00+00:00", code)


def test_the_last_row_of_a_scenario_counts_and_only_with_the_same_code() -> None:
    rows = [row("a"), row("b", FAILED), row("b"), row("c"), row("c", FAILED), row("d", code="old")]

    assert report.done(rows, "new") == {"a", "b"}
    assert report.done((), "new") == frozenset()


def test_the_table_says_what_ran_with_other_code_and_what_is_left() -> None:
    lines = report.table([row("a", FAILED), row("b", code="old"), row("a")], "new")

    assert lines == (
        "passed      90 s  a",
        "passed      90 s  b  (with old)",
        "1 of 2 passed with new; 3 min in all.",
    )


def run(pytester: pytest.Pytester, code: str = "new") -> dict[str, str]:
    """Run the scenarios with a report, and return the outcomes that this run has added."""
    file = pytester.path / "report" / "rows.jsonl"
    before = len(report.read(file))
    pytester.inline_run("-p", "no:cacheprovider", plugins=[report.Plugin(file, code)])
    return {row.scenario.partition("::")[2]: row.outcome for row in report.read(file)[before:]}


def test_a_second_run_goes_on_where_the_first_one_was(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SCENARIOS)

    assert run(pytester) == {"test_one": PASSED, "test_two": FAILED, "test_three": FAILED}
    assert run(pytester) == {"test_two": FAILED, "test_three": FAILED}
    assert run(pytester, "newer").keys() == {"test_one", "test_two", "test_three"}


def test_code_that_was_changed_is_other_code(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    committed = report.code_of(tmp_path)
    (tmp_path / "a").write_text("2")
    changed = report.code_of(tmp_path)
    (tmp_path / "b").write_text("new")

    assert len({committed, changed, report.code_of(tmp_path)}) == 3
    assert changed.startswith(f"{committed}+")


def test_every_representative_scenario_is_there() -> None:
    command = [sys.executable, "-m", "pytest", "e2e/scenarios", "--representative", "--collect-only", "-q"]

    assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode == 0
