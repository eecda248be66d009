"""The index of the examples, from their first sentences."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from sitepages import markdown

_ROOT = Path(__file__).resolve().parents[3]


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Examples",
        "Every example with what it shows. The text at the top of each file has the command that runs it: `--dev` keeps its "
        "state beside the file, and `--storage s3://bucket/prefix` where it survives the machine.",
    )
    lines.extend(markdown.table(("example", "what it shows", "more"), _rows()))
    return markdown.finish(lines)


def _rows() -> Iterator[tuple[str, str, str]]:
    """Yield each Python file of an example with a docstring, and each notebook, folder by folder."""
    files = [path for path in (_ROOT / "examples").glob("*/*") if path.suffix in (".py", ".ipynb")]
    for file in sorted(files):
        shown = _shown(file)
        if shown is None:
            continue
        readme = file.parent / "README.md"
        more = f"[{file.parent.name}]({_link(readme)})" if readme.is_file() else ""
        yield f"[`{file.parent.name}/{file.name}`]({_link(file)})", markdown.prose(_first_sentence(shown)), more


def _shown(file: Path) -> str | None:
    """Return what a file says of itself: its docstring, or the title of a notebook."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        return "".join(json.loads(text)["cells"][0]["source"]).partition("\n")[0].removeprefix("# ") + "."
    return ast.get_docstring(ast.parse(text))


def _link(file: Path) -> str:
    return f"../{file.relative_to(_ROOT).as_posix()}"


def _first_sentence(text: str) -> str:
    return text.split("\n\n", maxsplit=1)[0]
