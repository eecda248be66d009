"""The pytest plugin is there for who has the package, and costs nothing to who tests something else."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from statefulspark import testing
from statefulspark.testing import keyed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = {"keyed_harness", "query_harness", "job_harness", "spark_session"}


def test_the_package_names_the_plugin_and_does_not_ask_for_pytest() -> None:
    project = tomllib.loads((ROOT / "jobruntime/pyproject.toml").read_text(encoding="utf-8"))["project"]

    module = importlib.import_module(project["entry-points"]["pytest11"]["statefulspark"])

    assert set(vars(module)) >= FIXTURES
    assert [name for name in project["dependencies"] if "pytest" in name] == []


def test_the_plugin_imports_nothing_until_a_fixture_is_used() -> None:
    imported = _modules_after("import statefulspark.testing.plugin")

    assert imported & {"pyspark", "pyarrow", "pydantic", "statefulspark.state", "statefulspark.driver"} == set()


def test_a_test_of_a_function_needs_no_spark() -> None:
    imported = _modules_after("from statefulspark.testing import KeyedHarness")

    assert "statefulspark.testing.keyed" in imported
    assert imported & {"pyspark", "py4j"} == set()


def _modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(ended.stdout.split())


def test_the_fixture_of_functions_is_the_harness(keyed_harness: type[keyed.KeyedHarness]) -> None:
    assert keyed_harness is testing.KeyedHarness


def test_what_the_package_of_tests_has_is_listed_and_nothing_else_is_found() -> None:
    listed = [name for name in dir(testing) if not name.startswith("_")]

    assert listed == ["JobHarness", "JobTestError", "KeyedHarness", "KillPoint", "QueryHarness", "TwoPhaseSinkContract"]
    assert [getattr(testing, name).__name__ for name in listed] == listed
    with pytest.raises(AttributeError, match="has no attribute 'SparkHarness'"):
        _ = getattr(testing, "SparkHarness")  # noqa: B009 - type checkers know it, too
