"""Handing open connections from one process to another, over a Unix socket that both inherited."""

from __future__ import annotations

import socket
from typing import Final

_MOST_BYTES, _MOST_CONNECTIONS = 1024, 2
DECLINED: Final = b"null\n"
"""The answer when there is no process for a task, which has not begun."""


def channel() -> tuple[socket.socket, socket.socket]:
    """Return two ends of a channel that keeps messages apart; many processes may send on one end."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(over: socket.socket, place: str, connections: list[socket.socket]) -> None:
    """Hand over the connections of a task, with what it works on; the sender still has them open.

    Raises:
        OSError: Nobody is at the other end.
    """
    socket.send_fds(over, [place.encode()], [connection.fileno() for connection in connections])


def receive(over: socket.socket) -> tuple[str, list[socket.socket]] | None:
    """Return what a task works on and its connections, None when nobody is at the other end any more."""
    message, descriptors, _, _ = socket.recv_fds(over, _MOST_BYTES, _MOST_CONNECTIONS)
    if not message:
        return None
    return message.decode(), [socket.socket(fileno=descriptor) for descriptor in descriptors]
