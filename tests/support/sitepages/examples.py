"""The index of the examples, from their first sentences."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from sitepages import markdown

_ROOT = Path(__file__).resolve().parents[3]


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Examples",
        "Every example with what it shows. The text at the top of each file has the command that runs it. Without S3: "
        "`--storage file:///tmp/anything --allow-local-files`.",
    )
    lines.extend(markdown.table(("example", "what it shows", "more"), _rows()))
    return markdown.finish(lines)


def _rows() -> Iterator[tuple[str, str, str]]:
    """Yield each Python file of an example with a docstring, folder by folder."""
    for file in sorted((_ROOT / "examples").glob("*/*.py")):
        shown = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        if shown is None:
            continue
        readme = file.parent / "README.md"
        more = f"[{file.parent.name}]({_link(readme)})" if readme.is_file() else ""
        yield f"[`{file.parent.name}/{file.name}`]({_link(file)})", markdown.prose(_first_sentence(shown)), more


def _link(file: Path) -> str:
    return f"../{file.relative_to(_ROOT).as_posix()}"


def _first_sentence(text: str) -> str:
    return text.split("\n\n", maxsplit=1)[0]
