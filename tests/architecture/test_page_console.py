"""Each command in a block for a console of the documentation is run by a test, or it is said why that cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import pageconsole
import pytest
from pagecode import ROOT
from pageconsole import OUTSIDE

_TESTS = (
    ROOT / "tests" / "api" / "test_page_console.py",
    ROOT / "tests" / "spark" / "testing" / "test_page_console.py",
)
_PAGES = sorted(
    file.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for file in ROOT.glob(pattern)
)
_ALL = {page: tuple(pageconsole.all_of(page)) for page in _PAGES}
_ASKED = pageconsole.asked_for(*_TESTS)
_RUN = frozenset(
    part
    for page, commands in _ALL.items()
    for number, one in commands
    if (page, number) in _ASKED
    for part in one.parts
)
_COMMANDS = r"kubectl|statefulspark|helm|pip|pytest|python3?|docker|make|export|curl|aws|SIM\w+=|PYTHONPATH="
_WITHOUT_A_PROMPT = re.compile(rf"^ *```(?:bash|sh|shell|)\n *(?:{_COMMANDS}) ?", re.MULTILINE)


@pytest.mark.parametrize("page", [page for page, commands in _ALL.items() if commands])
def test_every_command_of_a_page_is_run_by_a_test_or_cannot_be(page: str) -> None:
    left = {part for _, command in _ALL[page] if command.outside is None for part in command.parts}

    assert left - _RUN == set()


@pytest.mark.parametrize("page", _PAGES)
def test_commands_stand_behind_a_prompt(page: str) -> None:
    """A block without one would be run by nobody."""
    assert _WITHOUT_A_PROMPT.findall((ROOT / page).read_text(encoding="utf-8")) == []


def test_a_block_that_a_test_asks_for_is_there() -> None:
    there = {(page, number) for page, commands in _ALL.items() for number, _ in commands}

    assert _ASKED - there == frozenset()


def test_every_reason_not_to_run_a_command_is_needed() -> None:
    parts = {part for commands in _ALL.values() for _, command in commands for part in command.parts}
    unneeded = [begins for begins in OUTSIDE if not any(part.startswith(begins) for part in parts)]

    assert unneeded == []


def test_a_test_that_stands_in_for_a_command_is_there() -> None:
    named = re.findall(r"\b((?:tests|e2e)/[\w/]+(?:\.py)?)", " ".join(OUTSIDE.values()))

    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_a_block_is_read_command_by_command(tmp_path: Path) -> None:
    block = tmp_path / "page.md"
    block.write_text(
        "```console\n$ kubectl get \\\n    ssj   # all\nNAME\n"
        "$ for n in 1 2; do\n    aws a &\n  done; wait\n$ cd x && tar y .\n```\n"
    )

    commands = [command for _, command in pageconsole.all_of(str(block))]

    assert [command.parts for command in commands] == [
        ("kubectl get ssj",),
        ("for n in 1 2", "aws a", "wait"),
        ("cd x", "tar y ."),
    ]
    assert [command.outside is None for command in commands] == [True, False, True]
