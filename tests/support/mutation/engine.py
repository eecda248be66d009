"""mutmut, run inside a laid out folder: makes the mutants, runs the tests against each, and writes down their fates.

A process of its own, `python -m mutation.engine WORKERS`, since mutmut keeps everything in globals and forks per mutant.
Sentences are left as they are: a literal with a space in it is read by people, and its wording is no rule. A shorter one is
changed once, not in three ways. What a test module computes while it is imported, in a table for example, it computes
before any mutant is chosen: build the values inside the test, or nothing notices.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import libcst
from mutation.survivors import Fate, change_of
from mutmut import __main__ as mutmut
from mutmut.mutation import diff_apply, file_mutation, mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.utils import file_utils, format_utils

OUTCOME = Path("outcome.json")
_UNNOTICED = (0, 5, 33)
"""pytest: all passed, no test collected; mutmut: no test runs the function."""
_LATE = (-24, 24, 36, 152, 255)
"""mutmut's words for a test run that was ended by its limits."""


def run(workers: int) -> None:
    """Check every mutant of the folder this process works in; the outcome is in `OUTCOME`.

    Raises:
        SystemExit: The tests fail without a mutant, or the run was interrupted.
    """
    ours = {mutators.operator_string: _mutate_literal, mutators.operator_arg_removal: _mutate_arguments}
    file_mutation.mutation_operators = [
        (kind, ours.get(operator, operator)) for kind, operator in mutators.mutation_operators
    ]
    mutmut._run((), workers)
    OUTCOME.write_text(json.dumps([one for path in file_utils.walk_mutatable_files() for one in _fates(path)]))


def _mutate_literal(node: libcst.BaseString) -> Iterable[libcst.BaseString]:
    if isinstance(node, libcst.SimpleString) and " " not in node.value.strip("'\" "):
        yield from list(mutators.operator_string(node))[:1]


def _mutate_arguments(node: libcst.Call) -> Iterable[libcst.Call]:
    """Leave `cast` alone: it does nothing when it runs."""
    if not (isinstance(node.func, libcst.Name) and node.func.value == "cast"):
        yield from mutators.operator_arg_removal(node)


def _fates(path: Path) -> list[tuple[str, str, str, str]]:
    results = SourceFileMutationData(path=path)
    results.load()
    return [
        (_module(name), _function(name), change_of(diff_apply.get_diff_for_mutant(name, path=path)), _fate(name, code))
        for name, code in results.exit_code_by_key.items()
    ]


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _function(name: str) -> str:
    function, of_class = format_utils.orig_function_and_class_names_from_key(name)
    return f"{of_class}.{function}" if of_class else function


def _fate(name: str, code: int | None) -> Fate:
    if code is None:
        raise SystemExit(f"{name} was not checked: the run was interrupted.")
    if code in _UNNOTICED:
        return Fate.SURVIVED
    return Fate.SLOW if code in _LATE else Fate.KILLED


if __name__ == "__main__":
    run(int(sys.argv[1]))
