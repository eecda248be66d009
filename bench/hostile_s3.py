"""An S3 server that a tenant runs to harm who reads from it: each bucket is named after what it does.

It keeps no object. It answers with the forms of S3, so that a client goes as far as its own limits let it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

import processes
from aiohttp import web

_MIB = 1 << 20
_CHUNK = b"{}," * 21_845
_KEYS_IN_A_PAGE = 1000
_STALL_S = 3600.0
_DRIP_S = 1.0
_STARTS_WITHIN_S = 30.0
_HEADERS = {"ETag": '"0123456789abcdef0123456789abcdef"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}


async def _endless(request: web.Request) -> web.StreamResponse:
    """Send a body without end, of JSON that costs a parser twenty times its size."""
    response = await _begin(request)
    with contextlib.suppress(ConnectionResetError):
        await response.write(b'{"files": [')
        while True:
            await response.write(_CHUNK)
    return response


async def _drip(request: web.Request) -> web.StreamResponse:
    """Send one byte a second."""
    response = await _begin(request)
    with contextlib.suppress(ConnectionResetError):
        while True:
            await response.write(b" ")
            await asyncio.sleep(_DRIP_S)
    return response


async def _stall(request: web.Request) -> web.StreamResponse:
    """Accept the request and never answer."""
    await asyncio.sleep(_STALL_S)
    raise web.HTTPServiceUnavailable


async def _bomb(request: web.Request) -> web.StreamResponse:
    """Send 3 MiB of empty objects, of which each costs a parser some 600 bytes."""
    body = b'{"files": [' + b"{}," * _MIB + b"{}]}"
    return web.Response(body=body, headers=_HEADERS)


async def _begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    return response


def _page(request: web.Request) -> web.Response:
    """Return one page of a listing without end; every folder has a manifest."""
    prefix = request.query.get("prefix", "")
    number = int(request.query.get("continuation-token", "0"))
    modified = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    keys = [f"{prefix}{number:08}-{key:04}" for key in range(_KEYS_IN_A_PAGE)]
    contents = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified><ETag>&quot;e&quot;</ETag>"
        f"<Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for key in keys
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(keys)}</KeyCount><MaxKeys>{len(keys)}</MaxKeys>"
        f"<IsTruncated>true</IsTruncated><NextContinuationToken>{number + 1}</NextContinuationToken>{contents}"
        "</ListBucketResult>"
    )
    return web.Response(text=text, content_type="application/xml")


ATTACKS: Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
    "endless": _endless,
    "drip": _drip,
    "stall": _stall,
    "bomb": _bomb,
}
"""What a GET of an object meets, by bucket."""


async def _answer(request: web.Request) -> web.StreamResponse:
    bucket, _, key = request.path.lstrip("/").partition("/")
    attack = ATTACKS[bucket]
    if attack is _stall:
        return await _stall(request)
    if request.method == "GET":
        return await attack(request) if key else _page(request)
    if request.method == "HEAD":
        return web.Response(headers={**_HEADERS, "Content-Length": "1000"})
    await request.read()
    return web.Response(headers=_HEADERS)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run the server on loopback in a process that has what others leave of the processors; return its endpoint.

    Args:
        folder: Where its log goes.
    """
    process = processes.Process("the hostile server", folder / "hostile.log")
    try:
        process.launch(["nice", "-n", "19", sys.executable, "-m", "bench.hostile_s3"])
        process.wait_until(lambda: "\n" in process.output, "it has printed its endpoint", _STARTS_WITHIN_S)
        yield process.output.splitlines()[0]
    finally:
        process.stop()


async def _serve() -> None:
    application = web.Application(client_max_size=64 * _MIB)
    application.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
