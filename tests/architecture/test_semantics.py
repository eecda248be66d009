"""The page about Flink's promises is complete, and what it says is proven exists."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "semantics.md"
_LAST = {"A": 178, "B": 20}
_KINDS = ("same", "better", "different", "not applicable", "not yet")
_UNPROVEN = ("not applicable", "not yet")
_ROW = re.compile(r"^\| ([AB]\.\d+) \| ([^|]+) \| \*\*([a-z ]+)\*\*(?:: ([^|]+))? \| ([^|]*) ?\|$")
_CITED = re.compile(r"\b[AB]\.\d{1,3}\b")
_IN_A_NAME = re.compile(r"def test_((?:[ab]\d{1,3}_)+)")
_FOLDERS = ("jobruntime/src", "jobruntime/jvm", "operator/src", "charts", "tests", "e2e", "bench", "examples", "docs")
_TEXTS = (".py", ".java", ".go", ".md", ".mk", ".toml", ".yaml", ".sh")
_ELSEWHERE = re.compile(r"§|\bDESIGN\b|\bflink-semantics\b|/work/")


@dataclass(frozen=True)
class Row:
    number: str
    promise: str
    kind: str
    why: str
    tests: tuple[str, ...]


@cache
def _rows() -> tuple[Row, ...]:
    lines = [line for line in _PAGE.read_text().splitlines() if re.match(r"^\| [AB0-9]", line)]
    found = []
    for line in lines:
        match = _ROW.match(line)
        assert match is not None, f"this row has another form: {line}"
        number, promise, kind, why, tests = match.groups()
        found.append(Row(number, promise, kind, why or "", tuple(re.findall(r"`([^`]+)`", tests))))
    return tuple(found)


@cache
def _functions(path: str) -> frozenset[str]:
    tree = ast.parse((_ROOT / path).read_bytes())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@cache
def _sources() -> dict[str, str]:
    """Return the text of everything that a reader of the repository reads, by path; not this file."""
    files = [path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*") if path.suffix in _TEXTS]
    files += [*_ROOT.glob("*.md")]
    return {path.relative_to(_ROOT).as_posix(): path.read_text() for path in files if path != Path(__file__)}


def _cited(text: str) -> set[str]:
    """Return the promises that a text cites: `A.99`, or a test named `test_a99_a100_...`."""
    named = {number for names in _IN_A_NAME.findall(text) for number in names.strip("_").split("_")}
    return {*_CITED.findall(text)} | {f"{name[0].upper()}.{name[1:]}" for name in named}


def test_every_number_has_one_row_in_order() -> None:
    assert [row.number for row in _rows()] == [
        f"{part}.{number}" for part, last in _LAST.items() for number in range(1, last + 1)
    ]


def test_every_promise_that_is_cited_has_a_row() -> None:
    promised = {row.number for row in _rows()}
    cited = {(path, number) for path, text in _sources().items() for number in _cited(text)}

    assert {(path, number) for path, number in cited if number not in promised} == set()
    assert len({number for path, number in cited if path.startswith("tests/")}) > 100, "the search finds citations"


def test_nothing_refers_to_a_document_that_is_not_in_the_repository() -> None:
    assert {(path, word) for path, text in _sources().items() for word in _ELSEWHERE.findall(text)} == set()


def test_every_row_says_how_it_stands() -> None:
    assert {row.kind for row in _rows()} <= set(_KINDS)
    assert [row.number for row in _rows() if row.kind != "same" and len(row.why) < 20] == []


def test_only_what_does_not_exist_goes_without_proof() -> None:
    assert [row.number for row in _rows() if not row.tests and row.kind not in _UNPROVEN] == []


def test_what_is_not_applicable_claims_no_proof() -> None:
    assert [row.number for row in _rows() if row.tests and row.kind == "not applicable"] == []


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row.number)
def test_the_tests_that_a_row_names_exist(row: Row) -> None:
    for name in row.tests:
        path, _, function = name.partition("::")
        assert (_ROOT / path).is_file(), name
        assert function in _functions(path), name


def test_a_promise_that_tests_cite_is_not_called_missing() -> None:
    """A test that proves a promise and a row that says it is not kept cannot both be right."""
    tests = (text for path, text in _sources().items() if Path(path).name.startswith("test_"))
    cited = {number for text in tests for number in _cited(text)}

    assert [row.number for row in _rows() if row.kind in _UNPROVEN and row.number in cited] == []
