"""The page of a driver, `/ui`: its files, and the headers that keep a browser from loading or running anything else.

The files are part of the package and held in memory. Every reference in them is relative, so the page works behind a
forwarded port and below any path. The page asks the read-only routes of the API; this module answers nothing about the job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import resources

from aiohttp import web

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

INDEX = "index.html"
CONTENT_TYPES: Mapping[str, str] = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
"""Kinds of files that the page consists of."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # The next driver behind the same address may be of another release.
    "Cache-Control": "no-cache",
}
"""Headers of every file: own scripts and styles from files only, no frames, nothing of other origins."""


@cache
def files() -> Mapping[str, bytes]:
    """Return the files of the page by name."""
    folder = resources.files("statefulspark.server") / "ui"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if _content_type(entry.name) is not None}


def routes() -> tuple[web.RouteDef, ...]:
    """Return the routes of the page. Redirects are relative, so that they hold below any path."""
    return (
        web.get("/", _redirect),
        web.get("/ui", _redirect),
        web.get("/ui/", _serve(INDEX)),
        *(web.get(f"/ui/{name}", _serve(name)) for name in sorted(files())),
    )


async def _redirect(_: web.Request) -> web.Response:
    return web.Response(status=307, headers={"Location": "ui/"})


def _serve(name: str) -> _Handler:
    async def serve(_: web.Request) -> web.Response:
        return web.Response(
            body=files()[name], headers=HEADERS, content_type=_content_type(name) or "", charset="utf-8"
        )

    return serve


def _content_type(name: str) -> str | None:
    return CONTENT_TYPES.get(name[name.rfind(".") :])
