"""Reads the header of a task without consuming it, so that the process that runs the task can read it again."""

from __future__ import annotations

import socket
import struct
from typing import Final

from pyspark import util

from statefulspark.sparkinternals import taskheader

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
_LENGTH: Final = struct.Struct("!i")
_MAX_HEADER_BYTES = 32 << 10
"""Bytes that the buffer of every connection can hold; the rest of a longer header is not read."""


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
        return self._bytes(self.read(_LENGTH)).decode()

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
        partition = taskheader.read_partition(reader)
        properties = taskheader.read_local_properties(reader)
        kind = taskheader.read_kind_of_function(reader) if properties is not None else None
    except EOFError:
        return None
    return f"{properties.get(_QUERY, '')}/{partition}" if properties is not None and kind in _STATEFUL else None
