"""Text for people: aligned columns, name and value pairs. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from statefulspark import durations

GAP = "   "


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align rows below a header, as kubectl does.

    Args:
        header: Names of the columns, in capitals.
        rows: One text per column; an empty text is written as `-`.

    Returns:
        Lines without trailing blanks, ending with a newline.
    """
    lines = [tuple(header), *(tuple(cell or "-" for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    padded = (GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in padded)


def pairs(entries: Sequence[tuple[str, str | None]]) -> str:
    """Write one name and value per line, as `kubectl describe` does.

    Args:
        entries: Name and value; entries without a value are omitted.
    """
    shown = [(name, value) for name, value in entries if value is not None]
    width = max((len(name) for name, _ in shown), default=0) + 1
    return "".join(f"{name + ':':<{width}}{GAP}{value}\n" for name, value in shown)


def indent(text: str) -> str:
    """Indent every line by two spaces."""
    return "".join(f"  {line}" for line in text.splitlines(keepends=True))


def milliseconds(value: float) -> str:
    """Write a duration: `340ms` below one second, else `2.4s`, `2m26s` as ages are written."""
    return f"{value:.0f}ms" if value < 999.5 else durations.format_short(timedelta(milliseconds=value))
