"""Two small HTTP servers: health for the kubelet, metrics for Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from statefulspark import connections

Text = Callable[[], Awaitable[bytes]]


async def serve(path: str, port: int, text: Text) -> tuple[web.AppRunner, int]:
    """Answer GET on one path.

    Args:
        path: The path, for example `/healthz`.
        port: The port; 0 picks a free one.
        text: Returns what is answered, in UTF-8.

    Returns:
        The runner, which the caller cleans up at the end, and the port.
    """

    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=await text(), content_type="text/plain", charset="utf-8")

    application = web.Application()
    application.router.add_get(path, handle)
    runner = connections.LimitedRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "0.0.0.0", port)  # noqa: S104 - the kubelet and Prometheus connect from outside the pod
    await site.start()
    addresses = runner.addresses
    return runner, int(addresses[0][1]) if addresses else port


LEAST_KEPT_S = 1.0
KEPT_FOR_EACH_SECOND_S = 4.0
"""How long a text is kept for each second that it took to write: writing takes a fifth of the time at most."""


@dataclass(slots=True)
class KeptText:
    """A text that is current when it is written, and given to all who ask until it is written again.

    Attributes:
        write: Writes it, in another thread.
        clock: Seconds, which never go back.
    """

    write: Callable[[], str]
    clock: Callable[[], float] = time.monotonic
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _written: bytes = b""
    _kept_until_s: float = float("-inf")

    async def read(self) -> bytes:
        """Return the text in UTF-8; all who ask while it is kept get the same object."""
        async with self._lock:
            began_s = self.clock()
            if began_s >= self._kept_until_s:
                self._written = await asyncio.to_thread(lambda: self.write().encode())
                ended_s = self.clock()
                self._kept_until_s = ended_s + max(LEAST_KEPT_S, KEPT_FOR_EACH_SECOND_S * (ended_s - began_s))
            return self._written
