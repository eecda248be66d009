"""What computes the truth shares no code with what is compared with it, so that no error is on both sides."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

_E2E = Path(__file__).resolve().parents[2] / "e2e"
_LOAD = sorted((_E2E / "load").glob("*.py"))
_ORACLE = [_E2E / "oracle" / name for name in ("compare.py", "results.py", "truth.py")]
_PRODUCT = {"statefulspark", "statefulspark_operator", "pyspark"}
_UNSEEN = {"importlib.import_module", "__import__"}
"""Calls that import what this test cannot see."""


def test_the_checker_is_where_it_is_looked_for() -> None:
    assert {"compare.py", "events.py", "outputs.py", "truth.py"} <= {file.name for file in _LOAD}


@pytest.mark.parametrize("file", [*_LOAD, *_ORACLE], ids=lambda file: f"{file.parent.name}/{file.name}")
def test_truth_knows_neither_the_product_nor_spark(file: Path) -> None:
    assert not known(file.read_text(encoding="utf-8"), file.parent.name)


@pytest.mark.parametrize(
    "line",
    [
        "import statefulspark",
        "import statefulspark.storage as storage",
        "from statefulspark import storage",
        "from pyspark.sql import functions",
        "def later():\n    from statefulspark_operator import api",
        "from load.jobs import ledger",
        "from load import jobs",
        "from faults import world",
        "from . import jobs",
        "import importlib\nimportlib.import_module('statefulspark')",
        "__import__('statefulspark')",
    ],
)
def test_a_planted_import_is_found(line: str) -> None:
    assert known(line, "load")


def known(source: str, package: str) -> set[str]:
    """Return what a module of a package imports of the product, of the jobs under test, or where it cannot be seen."""
    nodes = list(ast.walk(ast.parse(source)))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            named |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    return {name for name in named if _is_refused(name, package)} | called & _UNSEEN


def _is_refused(name: str, package: str) -> bool:
    first, *rest = name.split(".")
    if first == package:
        return "jobs" in rest
    return not first or first in _PRODUCT or (_E2E / first).is_dir()
