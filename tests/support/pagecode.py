"""The blocks of Python in the pages of the documentation, for the tests that run them.

A block runs where a test asks for it by `block(page, number)`. `tests/architecture/test_page_code.py` has the blocks that
need no Spark, `tests/spark/testing/test_page_code.py` those that do; the first fails for a block that nobody asks for.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = r"^(?P<indent> *)```{language}\n(?P<code>.*?)^(?P=indent)```$"
_ASKED = re.compile(r"""\b(?:block|harness_of)\(\s*["'](?P<page>[\w./-]+\.md)["'],\s*(?P<number>\d+)""")


def blocks(page: str, *, language: str = "python") -> tuple[str, ...]:
    """Return the blocks of a language in a page, by its path in the repository."""
    found = re.finditer(_BLOCK.format(language=language), (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    return tuple(textwrap.dedent(match["code"]) for match in found)


def block(page: str, number: int, *, language: str = "python") -> str:
    """Return the block of a language in a page that has this number, from 1."""
    return blocks(page, language=language)[number - 1]


def asked_for(*tests: Path) -> Iterator[tuple[str, int]]:
    """Yield the blocks that tests ask for, as page and number."""
    for test in tests:
        for match in _ASKED.finditer(test.read_text(encoding="utf-8")):
            yield match["page"], int(match["number"])


def an_output_of_files(folder: Path) -> None:
    """Write what a files sink leaves: two committed files with a name each, and one that nobody has committed."""
    import pyarrow as pa
    from pyarrow import parquet

    (folder / "_commits").mkdir()
    (folder / "data").mkdir()
    for name in ("first", "second", "of-a-dead-driver"):
        parquet.write_table(pa.table({"name": [name]}), folder / "data" / f"{name}.parquet")
    commits = ([{"path": "data/first.parquet"}], [], [{"path": "data/second.parquet"}])
    for number, files in enumerate(commits):
        (folder / "_commits" / f"{number:08}.json").write_text(json.dumps({"batchId": number, "files": files}))
