"""What a scenario ends as: one row, and how rows become a report that a run can go on from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from load import compare

from faults.s3proxy import Passed

_LOG_ENTRY = re.compile(r"/(?:generations/(\d+)|checkpoints)/([^/]+)/(offsets|commits)/(\d+)$")
_CLAIM = re.compile(r"/epochs/\d+\.json$")


@dataclass(frozen=True, slots=True)
class Row:
    """How a scenario ended.

    Attributes:
        scenario: Its name.
        seed: With which it can be run again.
        passed: Whether it ended as it has to.
        lost: Rows and values that must be there and are not.
        repeated: Rows that are there once more.
        wrong: Rows out of order, rows and values that are not the truth's.
        first_commit_s: From the end of the fault to the first commit of a batch; None if there was none.
        all_commit_s: From the end of the fault until every query has committed; None if one has not.
        fault_s: How long the fault lasted.
        replayed: Batches that ran again, by query.
        starts: How often a driver was started.
        exits: How drivers ended, in that order.
        rows: How many rows were compared.
        took_s: How long the scenario took.
        at: When it ended, ISO 8601.
        findings: The first few differences, or why there is no comparison.
        outputs: For each output with differences, how many of each kind.
        stuck: With which error the job could not go on by itself; empty if it could.
        person: What a person did then.
        pause_s: The longest time for which a query has committed nothing, from the fault on; None if one has not again.
    """

    scenario: str
    seed: int
    passed: bool
    lost: int = 0
    repeated: int = 0
    wrong: int = 0
    first_commit_s: float | None = None
    all_commit_s: float | None = None
    fault_s: float = 0.0
    replayed: str = ""
    starts: int = 0
    exits: tuple[str, ...] = ()
    rows: int = 0
    took_s: float = 0.0
    at: str = ""
    findings: tuple[str, ...] = ()
    outputs: tuple[tuple[str, int, int, int], ...] = ()
    stuck: str = ""
    person: str = ""
    pause_s: float | None = None


def replayed(passed: Iterable[Passed], hurt_s: float) -> str:
    """Tell which batches ran again: planned by one driver and committed by the next, or committed in two generations.

    A driver that claims an epoch after the fault began is the next one; a batch that was only held up by a fault is none.

    Args:
        passed: Requests of the whole run.
        hurt_s: When the fault began, by the same clock.
    """
    planned: dict[tuple[str, int], float] = {}
    generations: dict[tuple[str, int], set[str | None]] = {}
    again: set[tuple[str, int]] = set()
    claimed_s = 0.0
    for one in passed:
        if one.method == "PUT" and one.is_done and one.at_s > hurt_s and _CLAIM.search(one.path):
            claimed_s = one.at_s
        entry = _LOG_ENTRY.search(one.path)
        if one.method != "PUT" or not one.is_done or entry is None:
            continue
        batch = (entry[2], int(entry[4]))
        if entry[3] == "offsets":
            planned.setdefault(batch, one.at_s)
            continue
        generations.setdefault(batch, set()).add(entry[1])
        if planned.get(batch, one.at_s) < claimed_s or len(generations[batch]) > 1:
            again.add(batch)
    queries = sorted({query for query, _ in again})
    return ", ".join(f"{query} {sum(name == query for name, _ in again)}" for query in queries)


def first_commit_s(passed: Iterable[Passed], healed_s: float) -> float | None:
    """Return the time from the end of a fault to the first commit after it."""
    for one in passed:
        entry = _LOG_ENTRY.search(one.path)
        if entry is not None and entry[3] == "commits" and one.method == "PUT" and one.is_done and one.at_s > healed_s:
            return one.at_s - healed_s
    return None


def all_commit_s(passed: Iterable[Passed], hurt_s: float, healed_s: float) -> float | None:
    """Return the time from the end of a fault until every query that had committed before the fault has committed again."""
    before: set[str] = set()
    after: dict[str, float] = {}
    for one in passed:
        entry = _LOG_ENTRY.search(one.path)
        if entry is None or entry[3] != "commits" or one.method != "PUT" or not one.is_done:
            continue
        if one.at_s < hurt_s:
            before.add(entry[2])
        elif one.at_s > healed_s:
            after.setdefault(entry[2], one.at_s)
    return max(after[query] for query in before) - healed_s if before and before <= set(after) else None


def pause_s(passed: Iterable[Passed], hurt_s: float) -> float | None:
    """Return the longest time between commits of one query, from its last one before a fault on."""
    newest: dict[str, float] = {}
    longest: dict[str, float] = {}
    for one in passed:
        entry = _LOG_ENTRY.search(one.path)
        if entry is None or entry[3] != "commits" or one.method != "PUT" or not one.is_done:
            continue
        if one.at_s > hurt_s and entry[2] in newest:
            longest[entry[2]] = max(longest.get(entry[2], 0.0), one.at_s - newest[entry[2]])
        if one.at_s <= hurt_s or entry[2] in newest:
            newest[entry[2]] = one.at_s
    return max(longest.values()) if newest and set(newest) == set(longest) else None


def by_output(findings: Iterable[compare.Finding]) -> tuple[tuple[str, int, int, int], ...]:
    """Return for each output with differences how many rows are lost, repeated and wrong."""
    counts: dict[str, list[int]] = {}
    for finding in findings:
        kind = {compare.Fault.LOST: 0, compare.Fault.REPEATED: 1}.get(finding.fault, 2)
        counts.setdefault(finding.output, [0, 0, 0])[kind] += 1
    return tuple((name, lost, repeated, wrong) for name, (lost, repeated, wrong) in sorted(counts.items()))


class Report:
    """Rows on disk: a line of JSON for each as soon as it is known, and a table of the newest of each scenario.

    Attributes:
        path: The file of JSON lines; the table is beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def table(self) -> Path:
        """The same as a page of Markdown."""
        return self.path.with_suffix(".md")

    def rows(self) -> tuple[Row, ...]:
        """Return all rows, the oldest first."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return tuple(_row(line) for line in lines)

    def has_passed(self, scenario: str) -> bool:
        """Tell whether the newest row of a scenario says that it passed."""
        return any(row.passed for row in newest(self.rows()) if row.scenario == scenario)

    def add(self, row: Row) -> None:
        """Write a row, and the table anew."""
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        self.table.write_text(markdown(newest(self.rows())))


def newest(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the last row of each scenario, in the order in which scenarios first came."""
    return tuple({row.scenario: row for row in rows}.values())


def markdown(rows: Sequence[Row]) -> str:
    """Return a table of rows, and below it what was found."""
    head = "| scenario | seed | ended | lost | repeated | wrong | fault, s | first commit, s | replayed | drivers |\n"
    lines = [head, "| --- " * 10 + "|\n", *map(_line, rows)]
    found = [f"- {row.scenario}: {sentence}\n" for row in rows for sentence in row.findings]
    return "".join(lines) + ("\n" + "".join(found) if found else "")


def _line(row: Row) -> str:
    commit = "none" if row.first_commit_s is None else f"{row.first_commit_s:.1f}"
    ended = "as it must" if row.passed else "**otherwise**"
    drivers = f"{row.starts}: {', '.join(row.exits)}" if row.exits else str(row.starts)
    counts = f"{row.lost} | {row.repeated} | {row.wrong}"
    figures = f"{row.fault_s:.1f} | {commit} | {row.replayed or 'none'}"
    return f"| {row.scenario} | {row.seed} | {ended} | {counts} | {figures} | {drivers} |\n"


def _row(line: str) -> Row:
    document = json.loads(line)
    tuples = {name: tuple(document[name]) for name in ("exits", "findings")}
    return Row(**{**document, **tuples, "outputs": tuple(tuple(one) for one in document.get("outputs", ()))})
