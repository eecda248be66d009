"""The beginning of what Spark sends to a Python worker: which task it is, before the function and its rows.

In all releases it has the partition, Python's version, the task's context, files, broadcast variables and the kind of
function, in this order.
"""

from __future__ import annotations

import json
import struct
from typing import Final, Protocol

from statefulspark.sparkinternals import releases

_INT: Final = struct.Struct("!i")
_LONG: Final = struct.Struct("!q")
_BOOL: Final = struct.Struct("!?")


class Reader(Protocol):
    """Reads numbers and texts one after the other.

    Raises:
        EOFError: Raised by each method: there are no more bytes.
    """

    def read(self, layout: struct.Struct) -> int:
        """Return a number."""

    def text(self) -> str:
        """Return a text, which is preceded by its length."""


def read_partition(reader: Reader) -> int:
    """Return the partition of a task.

    4.3 sends a header as a message, with its kind and length before it (SPARK-56324).
    """
    if releases.installed() >= (4, 3):
        _message, _length = reader.read(_INT), reader.read(_INT)
    partition = reader.read(_INT)
    _version = reader.text()
    return partition


def read_local_properties(reader: Reader) -> dict[str, str] | None:
    """Return the local properties of a task; None for a task of a barrier stage, which has no keyed state.

    4.2 sends the context as JSON (SPARK-55040), and older releases field by field.
    """
    if releases.installed() >= (4, 2):
        properties: dict[str, str] = json.loads(reader.text()).get("localProperties", {})
        return properties
    if reader.read(_BOOL):
        return None
    for layout in (_INT, _INT, _INT, _LONG, _INT):  # stage, partition, attempt, id of the attempt, cores
        reader.read(layout)
    for _ in range(reader.read(_INT)):
        _key, _name = reader.text(), reader.text()
        for _ in range(reader.read(_INT)):
            reader.text()
    return {reader.text(): reader.text() for _ in range(reader.read(_INT))}


def read_kind_of_function(reader: Reader) -> int | None:
    """Return the kind of a task's function; None if broadcast variables are encrypted, for Spark's own worker alone."""
    _folder_of_files = reader.text()
    for _ in range(reader.read(_INT)):
        reader.text()
    is_encrypted, variables = reader.read(_BOOL), reader.read(_INT)
    if is_encrypted:
        return None
    for _ in range(variables):
        is_new = reader.read(_LONG) >= 0
        if is_new:
            reader.text()
    return reader.read(_INT)
