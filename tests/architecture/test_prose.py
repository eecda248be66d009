"""The prose of the documentation: no page has a sentence that the table `docs/hooks/prose.toml` refuses."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "docs/hooks/prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prose = _hook()
_PAGES = {page.relative_to(ROOT).as_posix(): page for page in prose.pages()}


@pytest.mark.parametrize("name", _PAGES)
def test_no_sentence_needs_a_second_reading(name: str) -> None:
    assert list(prose.violations(_PAGES[name].read_text(encoding="utf-8"), name)) == []


def test_generated_pages_and_decisions_are_left_out() -> None:
    assert {"README.md", "STYLE.md", "docs/sinks.md", "docs/howto/upgrade.md"} <= set(_PAGES)
    assert not {"docs/trouble/exit-codes.md", "docs/reference/python.md", "docs/adr/0002-dependencies.md"} & set(_PAGES)


def test_a_planted_sentence_is_found_with_its_line_and_code_is_left_out() -> None:
    text = "# Title\n\n`whoever` may do it.\n\n```\nwhoever\n```\nIt is kept, but\nfor the last one.\n"

    (violation,) = prose.violations(text, "page.md")

    assert violation.startswith("page.md:8: 'but for'")


def test_a_long_sentence_is_found_and_a_long_list_is_not() -> None:
    text = "One.\n\n" + "word " * 41 + "ends.\n\n" + "- an item of a list\n" * 30

    (violation,) = prose.violations(text, "page.md")

    assert violation.startswith("page.md:3: 'word word")
    assert not list(prose.violations(text, "docs/semantics.md"))


def test_every_rule_says_why_and_what_instead() -> None:
    assert [rule.pattern.pattern for rule in prose.rules() if not (rule.why and rule.instead)] == []


def test_the_build_of_the_site_warns_of_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    page = ROOT / "README.md"
    monkeypatch.setattr(prose, "pages", lambda: (page,))
    monkeypatch.setattr(prose, "violations", lambda text, name: iter((f"{name}:1: planted",)))

    with caplog.at_level(logging.WARNING, logger="mkdocs.hooks.prose"):
        prose.on_pre_build(config=None)

    assert [record.getMessage() for record in caplog.records] == ["README.md:1: planted"]
