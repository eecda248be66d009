"""Passes open connections from one process to another, over a Unix socket that both inherited."""

from __future__ import annotations

import socket
from typing import Final

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
