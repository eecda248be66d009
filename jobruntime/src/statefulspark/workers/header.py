"""What Spark says at the start of a task, looked at and left in the connection for whoever runs the task.

In this order, as PySpark's `worker.main` reads it: partition, version of Python, the task's context, files, broadcast
variables and the kind of function.
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
"""Spark's local property with the id of a streaming query, which is the same after a restart."""
_FURTHEST = 32 << 10
"""Bytes that a connection has room for in any case; what has a longer header is not looked at any further."""
_INT: Final = struct.Struct("!i")
_LONG: Final = struct.Struct("!q")
_BOOL: Final = struct.Struct("!?")


class _Ahead:
    """Reads what lies ahead in a connection, and leaves it there.

    Raises:
        EOFError: By each method: there is no more, or it is too far ahead.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._position = 0

    def read(self, layout: struct.Struct) -> int:
        """Return a number."""
        [number] = layout.unpack(self._bytes(layout.size))
        return int(number)

    def text(self) -> str:
        """Return a text, which has its length before it."""
        return self._bytes(self.read(_INT)).decode()

    def _bytes(self, size: int) -> bytes:
        end = self._position + size
        seen = b"" if end > _FURTHEST else self._connection.recv(end, socket.MSG_PEEK | socket.MSG_WAITALL)
        if len(seen) < end:
            raise EOFError
        part, self._position = seen[self._position :], end
        return part


def place_of_state(connection: socket.socket) -> str | None:
    """Wait for a task and return whose state it works on: the query and the partition.

    Returns:
        None for a task that has no keyed state, and where that cannot be told: there is no task any more, the header is
        too long, or Spark encrypts broadcast variables, which only the worker that was asked can read then.
    """
    ahead = _Ahead(connection)
    try:
        partition, _version = ahead.read(_INT), ahead.text()
        query = json.loads(ahead.text()).get("localProperties", {}).get(_QUERY, "")
        kind = _kind_of_function(ahead)
    except EOFError:
        return None
    return f"{query}/{partition}" if kind in _STATEFUL else None


def _kind_of_function(ahead: _Ahead) -> int | None:
    _folder_of_files = ahead.text()
    for _ in range(ahead.read(_INT)):
        ahead.text()
    is_encrypted, variables = ahead.read(_BOOL), ahead.read(_INT)
    if is_encrypted:
        return None
    for _ in range(variables):
        is_new = ahead.read(_LONG) >= 0
        if is_new:
            ahead.text()
    return ahead.read(_INT)
