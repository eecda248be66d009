"""Every page of `kubectl statefulspark`, compared whole with the file beside this test.

A wanted change is written with `UPDATE_GOLDEN=1 pytest tests/golden/kubectl` and read in the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import kubectlcases
import pytest
from statefulspark_operator.kubectl import pages, reports
from statefulspark_operator.kubectl.view import View

FOLDER = Path(__file__).parent / "pages"
PAGES: dict[str, Callable[[View], str]] = {
    "status": lambda view: pages.status(reports.status(view)),
    "why": lambda view: pages.why(reports.why(view)),
    "history": lambda view: pages.history(reports.history(view)),
    "status.json": lambda view: reports.status(view).to_json(indent=2) + "\n",
}
CASES = [(case, page) for case in kubectlcases.CASES for page in ("status", "why")]
CASES += [("running", "history"), ("blocked", "history"), ("nobody-looks", "history"), ("blocked", "status.json")]


@pytest.mark.parametrize(("case", "page"), CASES, ids=lambda part: part)
def test_a_page_is_exactly_the_committed_one(case: str, page: str) -> None:
    name = f"{case}.{page}" if page.endswith(".json") else f"{case}.{page}.txt"
    written = PAGES[page](kubectlcases.CASES[case])
    if os.environ.get("UPDATE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / name).write_text(written)

    assert written == (FOLDER / name).read_text()


def test_no_page_is_committed_of_a_case_that_is_gone() -> None:
    names = {f"{case}.{page}" if page.endswith(".json") else f"{case}.{page}.txt" for case, page in CASES}

    assert {path.name for path in FOLDER.iterdir()} == names
