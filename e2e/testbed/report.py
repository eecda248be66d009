"""The report of `make e2e-full`: a row for each scenario, kept in a file, so that an interrupted run goes on where it was.

What passed with the same code is left out of the next run; what failed, or passed with other code, runs again.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

PASSED, FAILED = "passed", "FAILED"


@dataclass(frozen=True, slots=True)
class Row:
    """How a scenario ended.

    Attributes:
        scenario: Its node id.
        outcome: `PASSED` or `FAILED`.
        seconds: How long it took, with what was set up for it alone; that of the cluster is in the first one's.
        at: When it ended, ISO 8601, UTC.
        code: The code that ran, see `code_of`.
    """

    scenario: str
    outcome: str
    seconds: float
    at: str
    code: str


def code_of(repository: Path) -> str:
    """Return the commit of a work tree, and a checksum of what was changed since, if anything was."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(repository), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    names = git("status", "--porcelain")
    changed = names and names + git("diff", "HEAD")
    marked = f"+{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else ""
    return git("rev-parse", "--short=12", "HEAD").strip() + marked


def read(file: Path) -> tuple[Row, ...]:
    """Return the rows of a report in the order in which they were written; none without a file."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return tuple(Row(**json.loads(line)) for line in lines)


def newest(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the last row of each scenario, in the order of the first ones."""
    return tuple({row.scenario: row for row in rows}.values())


def done(rows: Iterable[Row], code: str) -> frozenset[str]:
    """Return the scenarios that need not run again: they have passed with this code."""
    return frozenset(row.scenario for row in newest(rows) if row.outcome == PASSED and row.code == code)


def table(rows: Iterable[Row], code: str) -> tuple[str, ...]:
    """Return lines for people: every scenario with its outcome, and how many have passed with this code."""
    last = newest(rows)
    lines = [
        f"{row.outcome:6}  {row.seconds:6.0f} s  {row.scenario}{'' if row.code == code else f'  (with {row.code})'}"
        for row in last
    ]
    minutes = sum(row.seconds for row in last) / 60
    return (*lines, f"{len(done(last, code))} of {len(last)} passed with {code}; {minutes:.0f} min in all.")


class Plugin:
    """Leaves out of a run of pytest what is done, writes a row after each scenario, and prints the table at the end.

    Args:
        file: The report.
        code: What runs now.
    """

    def __init__(self, file: Path, code: str) -> None:
        self._file, self._code = file, code
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what is done."""
        finished = done(read(self._file), self._code)
        left_out = [item for item in items if item.nodeid in finished]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.nodeid not in finished]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the phases of a scenario, and write its row after the last one."""
        name = report.nodeid
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if not report.passed:
            self._failed.add(name)
        if report.when == "teardown":
            self._write(
                Row(name, FAILED if name in self._failed else PASSED, self._seconds.pop(name), _now(), self._code)
            )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table."""
        terminalreporter.section(f"report: {self._file}")
        for line in table(read(self._file), self._code):
            terminalreporter.write_line(line)

    def _write(self, row: Row) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def is_chosen(node_id: str, chosen: Sequence[str]) -> bool:
    """Tell whether a scenario is one of some, by the ends of their node ids."""
    return any(node_id.endswith(end) for end in chosen)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
