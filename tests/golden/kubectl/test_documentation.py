"""docs/kubectl.md shows what the plugin prints, and names every command and every exit code."""

from __future__ import annotations

import re
from pathlib import Path

from statefulspark_operator.kubectl import program
from statefulspark_operator.kubectl.codes import PluginExit

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "kubectl.md").read_text()


def test_the_page_that_is_shown_is_one_that_is_printed() -> None:
    assert (Path(__file__).parent / "pages" / "blocked.status.txt").read_text() in PAGE


def test_every_command_has_its_row() -> None:
    verbs = [f"savepoint {name}" for name in program.savepoint.commands]
    names = [name for command in program.program.commands for name in (verbs if command == "savepoint" else [command])]
    assert re.findall(r"^\| `((?:savepoint )?\w+)", PAGE, re.MULTILINE)[: len(names)] == names


def test_every_exit_code_has_its_row() -> None:
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == [str(code.value) for code in PluginExit]
