"""The settings of the operator's chart, from the comments of its values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sitepages import markdown

_VALUES = Path(__file__).resolve().parents[3] / "charts/statefulspark-operator/values.yaml"


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "The operator's chart",
        "Every value of `charts/statefulspark-operator`, with its default. How to install it: "
        "[install the operator](../howto/install.md).",
    )
    lines.extend(
        markdown.table(("value", "default", "meaning"), _rows(_VALUES.read_text(encoding="utf-8").splitlines()))
    )
    return markdown.finish(lines)


def _rows(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each value with its default, and the comment above it or above those beside it."""
    path: list[str] = []
    comment: list[str] = []
    told_at, was_comment = 0, False
    for line in lines:
        text, depth = line.strip(), (len(line) - len(line.lstrip())) // 2
        if text.startswith("#"):
            comment = [*(comment if was_comment else []), text.lstrip("# ")]
            told_at, was_comment = depth, True
            continue
        was_comment = False
        if not text:
            comment = []
            continue
        name, _, default = text.partition(":")
        path = [*path[:depth], name]
        meaning = markdown.prose(" ".join(comment)) if depth == told_at else ""
        yield markdown.code(".".join(path)), markdown.code(default.strip()) if default.strip() else "", meaning
