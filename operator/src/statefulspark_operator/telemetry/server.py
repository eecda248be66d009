"""Two small HTTP servers: health for the kubelet, metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from statefulspark import connections

Text = Callable[[], Awaitable[bytes]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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
