"""What processes pass to each other: open connections, over a Unix socket that both inherited, and broadcast variables.

Spark sends a broadcast variable once to each of its workers; processes share them by the names of their files.
"""

from __future__ import annotations

import socket
from typing import Final

from pyspark.core import broadcast

_MOST_BYTES, _MOST_CONNECTIONS = 1024, 2
DECLINED: Final = b"null\n"
"""The answer when no process can run a task; the task was not started."""


def channel() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a channel that keeps message boundaries; several processes may send on one end."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(over: socket.socket, partition: str, connections: list[socket.socket]) -> None:
    """Send the partition and the connections of a task; they stay open in the sender, too.

    Raises:
        OSError: The other end is closed.
    """
    socket.send_fds(over, [partition.encode()], [connection.fileno() for connection in connections])


def receive(over: socket.socket) -> tuple[str, list[socket.socket]] | None:
    """Return the partition and the connections of a task; None when the other end is closed."""
    message, descriptors, _, _ = socket.recv_fds(over, _MOST_BYTES, _MOST_CONNECTIONS)
    if not message:
        return None
    return message.decode(), [socket.socket(fileno=descriptor) for descriptor in descriptors]


Files = dict[str, str]
"""The file of each variable, by its id; the ids are text, as JSON has them."""


def registered_broadcasts() -> Files:
    """Return the variables of this process, without those that Spark has encrypted, which have no file."""
    return {str(number): variable._path for number, variable in _registry().items() if hasattr(variable, "_path")}


def replace_broadcasts(files: Files) -> None:
    """Register exactly these variables; those that were registered before keep their loaded values."""
    registry, current = _registry(), registered_broadcasts()
    for stale in [number for number in registry if current.get(str(number)) != files.get(str(number))]:
        del registry[stale]
    for number, file in files.items():
        if int(number) not in registry:
            registry[int(number)] = broadcast.Broadcast(path=file)


def _registry() -> dict[int, broadcast.Broadcast[object]]:
    return broadcast._broadcastRegistry
