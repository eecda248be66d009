"""The page about Flink's promises is complete, and what it says is proven exists."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "semantics.md"
_LAST = 178
_KINDS = ("same", "better", "different", "not applicable", "not yet")
_UNPROVEN = ("not applicable", "not yet")
_QUOTE = re.compile(r"\bA\.(\d{1,3})\b|def test_a(\d{1,3})_")
_ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| \*\*([a-z ]+)\*\*(?:: ([^|]+))? \| ([^|]*) ?\|$")


@dataclass(frozen=True)
class Row:
    number: int
    promise: str
    kind: str
    why: str
    tests: tuple[str, ...]


@cache
def _rows() -> tuple[Row, ...]:
    lines = [line for line in _PAGE.read_text().splitlines() if re.match(r"^\| \d+ ", line)]
    found = []
    for line in lines:
        match = _ROW.match(line)
        assert match is not None, f"this row has another form: {line}"
        number, promise, kind, why, tests = match.groups()
        found.append(Row(int(number), promise, kind, why or "", tuple(re.findall(r"`([^`]+)`", tests))))
    return tuple(found)


@cache
def _functions(path: str) -> frozenset[str]:
    tree = ast.parse((_ROOT / path).read_bytes())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_number_has_one_row_in_order() -> None:
    assert [row.number for row in _rows()] == list(range(1, _LAST + 1))


def test_every_row_says_how_it_stands() -> None:
    assert {row.kind for row in _rows()} <= set(_KINDS)
    assert [row.number for row in _rows() if row.kind != "same" and len(row.why) < 20] == []


def test_only_what_does_not_exist_goes_without_proof() -> None:
    assert [row.number for row in _rows() if not row.tests and row.kind not in _UNPROVEN] == []


def test_what_is_not_applicable_claims_no_proof() -> None:
    assert [row.number for row in _rows() if row.tests and row.kind == "not applicable"] == []


@pytest.mark.parametrize("row", _rows(), ids=lambda row: f"A.{row.number}")
def test_the_tests_that_a_row_names_exist(row: Row) -> None:
    for name in row.tests:
        path, _, function = name.partition("::")
        assert (_ROOT / path).is_file(), name
        assert function in _functions(path), name


def test_a_number_that_tests_quote_is_not_called_missing() -> None:
    """A test that proves a promise and a row that says it is not kept cannot both be right."""
    quoted: Counter[int] = Counter()
    for path in (_ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            quoted.update(int(next(filter(None, found))) for found in _QUOTE.findall(path.read_text()))

    assert max(quoted) <= _LAST
    assert [row.number for row in _rows() if row.kind in _UNPROVEN and quoted[row.number]] == []
