"""Handing open connections from one process to another, over a Unix socket that both inherited."""

from __future__ import annotations

import socket
import struct

_PARTITION = struct.Struct("!i")
_MOST_CONNECTIONS = 2


def channel() -> tuple[socket.socket, socket.socket]:
    """Return two ends of a channel that keeps messages apart; many processes may send on one end."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(over: socket.socket, partition: int, connections: list[socket.socket]) -> None:
    """Hand over the connections of a task; the sender still has them open.

    Raises:
        OSError: Nobody is at the other end.
    """
    socket.send_fds(over, [_PARTITION.pack(partition)], [connection.fileno() for connection in connections])


def receive(over: socket.socket) -> tuple[int, list[socket.socket]] | None:
    """Return the partition of a task and its connections, None when nobody is at the other end any more."""
    message, descriptors, _, _ = socket.recv_fds(over, _PARTITION.size, _MOST_CONNECTIONS)
    if not message:
        return None
    return _PARTITION.unpack(message)[0], [socket.socket(fileno=descriptor) for descriptor in descriptors]
