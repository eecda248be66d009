"""Writes results to standard output, and everything else to standard error."""

from __future__ import annotations

import sys
from enum import StrEnum


class OutputFormat(StrEnum):
    """The output format of a result."""

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
    """Write a message for people that is not part of the result."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
