"""A sink is a folder and a row; what cannot read the row is compared with it."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest
import statefulspark as ss
from statefulspark.sinks import base, kinds

ROOT = Path(__file__).resolve().parents[2]
SINKS = ROOT / "jobruntime/src/statefulspark/sinks"
SENTENCES = [kind.name for kind in kinds.KINDS]


def test_every_folder_of_a_sink_has_one_row() -> None:
    folders = [path.parent.name for path in SINKS.glob("*/__init__.py")]

    assert sorted(kind.folder for kind in kinds.KINDS) == sorted(folders)


@pytest.mark.parametrize("kind", kinds.KINDS, ids=SENTENCES)
def test_the_folder_exports_the_sink_that_job_files_write(kind: kinds.SinkKind) -> None:
    exported = getattr(importlib.import_module(kind.module), kind.name)

    assert getattr(ss.sinks, kind.name) is exported
    assert issubclass(exported, base.Sink)


@pytest.mark.parametrize("kind", [kind for kind in kinds.KINDS if kind.client], ids=lambda kind: kind.name)
def test_a_client_comes_with_the_extra_and_is_imported_in_the_folder_alone(kind: kinds.SinkKind) -> None:
    project = tomllib.loads((ROOT / "jobruntime/pyproject.toml").read_text())
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (one for one in linter["contracts"] if kind.client in one.get("forbidden_modules", ()))
    allowed = [one.split(" -> ")[0] for one in contract["ignore_imports"] if one.endswith(f" -> {kind.client}")]

    assert any(
        need.replace("-", "_").startswith(kind.client)
        for need in project["project"]["optional-dependencies"][kind.extra]
    )
    assert allowed != []
    assert [module for module in allowed if not module.startswith(f"{kind.module}.")] == []


@pytest.mark.parametrize("kind", kinds.KINDS, ids=SENTENCES)
def test_the_page_about_sinks_has_a_row_for_each(kind: kinds.SinkKind) -> None:
    needs = f"`statefulspark[{kind.extra}]` " if kind.extra else ""

    assert f"| `{kind.name}` | {needs}|" in (ROOT / "docs/sinks.md").read_text()
