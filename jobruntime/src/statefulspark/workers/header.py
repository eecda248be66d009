"""Reads the header of a task without consuming it, so that the process that runs the task can read it again.

The header has this order, as PySpark's `worker.main` reads it: partition, Python version, the task's context, files,
broadcast variables and the kind of function.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Final

from pyspark import util

_STATEFUL = frozenset(
    {
        util.PythonEvalType.SQL_TRANSFORM_WITH_STATE_PANDAS_UDF,
        util.PythonEvalType.SQL_TRANSFORM_WITH_STATE_PANDAS_INIT_STATE_UDF,
        util.PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF,
        util.PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_INIT_STATE_UDF,
    }
)
_QUERY: Final = "sql.streaming.queryId"
"""Spark's local property with the id of a streaming query; the id stays the same after a restart."""
_MAX_HEADER_BYTES = 32 << 10
"""Bytes that the buffer of every connection can hold; the rest of a longer header is not read."""
_INT: Final = struct.Struct("!i")
_LONG: Final = struct.Struct("!q")
_BOOL: Final = struct.Struct("!?")


class _PeekReader:
    """Reads bytes of a connection without consuming them.

    Raises:
        EOFError: Raised by each method: the connection has no more bytes, or the position is too far.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._position = 0

    def read(self, layout: struct.Struct) -> int:
        """Return a number."""
        [number] = layout.unpack(self._bytes(layout.size))
        return int(number)

    def text(self) -> str:
        """Return a text, which is preceded by its length."""
        return self._bytes(self.read(_INT)).decode()

    def _bytes(self, size: int) -> bytes:
        end = self._position + size
        seen = b"" if end > _MAX_HEADER_BYTES else self._connection.recv(end, socket.MSG_PEEK | socket.MSG_WAITALL)
        if len(seen) < end:
            raise EOFError
        part, self._position = seen[self._position :], end
        return part


def partition_of_state(connection: socket.socket) -> str | None:
    """Wait for a task and return the partition of keyed state that it works on.

    Returns:
        `<query id>/<partition>`. None for a task without keyed state, and for a task that cannot be identified: the
        connection is closed, the header is too long, or Spark encrypts broadcast variables, so that only Spark's own
        worker can read them.
    """
    reader = _PeekReader(connection)
    try:
        partition, _version = reader.read(_INT), reader.text()
        query = json.loads(reader.text()).get("localProperties", {}).get(_QUERY, "")
        kind = _kind_of_function(reader)
    except EOFError:
        return None
    return f"{query}/{partition}" if kind in _STATEFUL else None


def _kind_of_function(reader: _PeekReader) -> int | None:
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
