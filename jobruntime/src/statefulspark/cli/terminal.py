"""Where results and progress go: results to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from enum import StrEnum


class OutputFormat(StrEnum):
    """How a command writes its result."""

    TABLE = "table"
    """Columns for people; may change between releases."""
    WIDE = "wide"
    """More columns."""
    JSON = "json"
    """For programs; names are those of the API and the manifest."""
    YAML = "yaml"
    """The same as YAML."""
    NAME = "name"
    """`kind/name`, one per line, for scripts."""


def write(text: str) -> None:
    """Write a part of the result."""
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")


def note(text: str) -> None:
    """Tell a person something that is no result."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class Progress:
    """One line that says how far something is; rewritten in place on a terminal, and otherwise written when it changes.

    Use it as a context manager; leaving it ends the line.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        """Show nothing yet, and nothing at all if it is to be quiet."""
        self._quiet = quiet
        self._in_place = sys.stderr.isatty()
        self._shown = ""

    def show(self, what: str, *, elapsed: str) -> None:
        """Show what is going on and for how long."""
        if self._quiet:
            return
        if self._in_place:
            sys.stderr.write(f"\r\033[K{what} ({elapsed})")
            sys.stderr.flush()
        elif what != self._shown:
            note(what)
        self._shown = what

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._in_place and self._shown:
            sys.stderr.write("\n")
