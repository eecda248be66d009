"""The page about tests, and the tests of a new project: they run as a user runs them, with the plugin."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from statefulspark.cli import main

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page_and_the_tests_of_a_new_project_are_green(tmp_path: Path) -> None:
    project = tmp_path / "orders"
    assert main.main(["init", str(project)]) == 0
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    (project / "test_page.py").write_text("\n\n".join(blocks), encoding="utf-8")

    ended = _pytest(project)

    told = sum(block.count("def test_") for block in blocks)
    of_project = (project / "test_job.py").read_text(encoding="utf-8").count("def test_")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{told + of_project} passed" in ended.stdout


def _pytest(folder: Path) -> subprocess.CompletedProcess[str]:
    is_installed = bool(metadata.entry_points(group="pytest11", name="statefulspark"))
    plugin = () if is_installed else ("-p", "statefulspark.testing.plugin")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", *plugin]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
