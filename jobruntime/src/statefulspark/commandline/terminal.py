"""Writes results to standard output, and everything else to standard error."""

from __future__ import annotations

import sys
from typing import TextIO

from statefulspark import outgoing


def write(text: str) -> None:
    """Write a part of the result."""
    _write(sys.stdout, text if text.endswith("\n") or not text else f"{text}\n")


def note(text: str) -> None:
    """Write a message for people that is not part of the result."""
    _write(sys.stderr, f"{text}\n")


def _write(stream: TextIO, text: str) -> None:
    """Write for a person what has no command of their terminal, and elsewhere what it is.

    It is flushed, because a command that fails after its result ends its process without Python's own end.
    """
    stream.write(outgoing.printable(text) if stream.isatty() else text)
    stream.flush()
