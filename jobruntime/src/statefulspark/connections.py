"""Limits of an HTTP server's connections, so that nobody without a token can hold what the job and its probes need.

Every pod of a cluster may reach these ports, and a connection costs its holder nothing. aiohttp keeps an idle one for an
hour, and counts none.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.log import server_logger

KEEPALIVE_S = 30.0
"""How long a connection may be idle between two requests, or take for the head of its next one."""
FIRST_HEAD_S = 10.0
"""How long a new connection may take for the head of its first request."""
MOST = 256
MOST_OF_AN_ADDRESS = 32


@dataclass(slots=True)
class Connections:
    """The open connections of a server.

    Attributes:
        first_head_s: As `FIRST_HEAD_S`.
        most: Of all addresses.
        most_of_an_address: Of one.
    """

    first_head_s: float = FIRST_HEAD_S
    most: int = MOST
    most_of_an_address: int = MOST_OF_AN_ADDRESS
    _open: Counter[str] = field(default_factory=Counter)
    _silent: dict[asyncio.BaseTransport, asyncio.TimerHandle] = field(default_factory=dict)

    def admit(self, transport: asyncio.Transport, address: str) -> bool:
        """Count a connection, and close it if no request comes; tell whether there is room for it."""
        if self._open.total() >= self.most or self._open[address] >= self.most_of_an_address:
            return False
        self._open[address] += 1
        loop = asyncio.get_running_loop()
        self._silent[transport] = loop.call_later(self.first_head_s, transport.abort)
        return True

    def has_asked(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that the head of a request has arrived."""
        if transport is not None and (timer := self._silent.pop(transport, None)) is not None:
            timer.cancel()

    def leave(self, transport: asyncio.BaseTransport, address: str) -> None:
        """Count a connection no more."""
        self.has_asked(transport)
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]


class LimitedRunner(web.AppRunner):
    """Runs an application whose connections are limited."""

    def __init__(
        self,
        application: web.Application,
        connections: Connections | None = None,
        *,
        keepalive_s: float = KEEPALIVE_S,
        shutdown_s: float = 60.0,
        logger: logging.Logger = server_logger,
    ) -> None:
        """Prepare to run an application, without a log of its requests.

        Args:
            application: The application; it is not running yet.
            connections: The limits; the usual ones when omitted.
            keepalive_s: As `KEEPALIVE_S`.
            shutdown_s: How long running requests may take when it is closed.
            logger: Where its failures are logged.
        """
        self._connections = connections or Connections()
        application.middlewares.insert(0, self._noticing)
        super().__init__(
            application, access_log=None, keepalive_timeout=keepalive_s, shutdown_timeout=shutdown_s, logger=logger
        )

    @property
    def server(self) -> Callable[[], asyncio.Protocol] | None:  # type: ignore[override]  # a site only calls it
        """What makes the protocol of each connection."""
        server = super().server
        return None if server is None else lambda: _Admission(self._connections, server())

    @web.middleware
    async def _noticing(self, request: web.Request, handler: Callable[[web.Request], object]) -> web.StreamResponse:
        self._connections.has_asked(request.transport)
        return await handler(request)  # type: ignore[misc, no-any-return]  # aiohttp's handlers are coroutines


class _Admission(asyncio.Protocol):
    """Passes a connection on to the protocol of the server, if there is room for it."""

    def __init__(self, connections: Connections, protocol: asyncio.Protocol) -> None:
        self._connections, self._protocol = connections, protocol
        self._transport: asyncio.Transport | None = None
        self._address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or close it."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - it is a stream
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if peer else ""
        if not self._connections.admit(transport, self._address):
            transport.abort()
            return
        self._transport = transport
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what arrives."""
        if self._transport is not None:
            self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that the other side sends no more."""
        return self._protocol.eof_received() if self._transport is not None else None

    def connection_lost(self, error: Exception | None) -> None:
        """Free its place."""
        if self._transport is not None:
            self._connections.leave(self._transport, self._address)
            self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        """Pass on that the other side reads too slowly."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the other side reads again."""
        self._protocol.resume_writing()
