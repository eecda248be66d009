"""Who has no token cannot hold the connections that the job and its probes need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from statefulspark.connections import Connections, LimitedRunner

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def a_server(connections: Connections, keepalive_s: float = 30.0) -> AsyncIterator[int]:
    application = web.Application()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    application.router.add_get("/", answer)
    runner = LimitedRunner(application, connections, keepalive_s=keepalive_s)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def opened(port: int, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    return reader, writer


async def is_closed(reader: asyncio.StreamReader, within_s: float = 5.0) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), within_s) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


async def answers(port: int) -> bool:
    reader, writer = await opened(port, GET)
    try:
        return (await asyncio.wait_for(reader.read(15), 5)).startswith(b"HTTP/1.1 200")
    except ConnectionResetError:
        return False
    finally:
        writer.close()


def test_more_connections_of_one_address_than_allowed_are_closed_and_a_free_place_is_used_again() -> None:
    async def case() -> None:
        async with a_server(Connections(most_of_an_address=3)) as port:
            held = [await opened(port, GET) for _ in range(3)]
            for reader, _ in held:
                await reader.readuntil(b"ok")
            assert not await answers(port)

            held[0][1].close()
            await asyncio.sleep(0.05)
            assert await answers(port)
            for _, writer in held:
                writer.close()

    asyncio.run(case())


def test_more_connections_than_allowed_are_closed() -> None:
    async def case() -> None:
        async with a_server(Connections(most=2)) as port:
            held = [await opened(port, GET) for _ in range(2)]
            for reader, _ in held:
                await reader.readuntil(b"ok")
            assert not await answers(port)
            for _, writer in held:
                writer.close()

    asyncio.run(case())


def test_who_sends_nothing_or_half_a_head_is_closed_and_who_asked_is_not() -> None:
    async def case() -> None:
        async with a_server(Connections(first_head_s=0.2)) as port:
            silent, half, whole = await opened(port), await opened(port, GET[:-3]), await opened(port, GET)
            await whole[0].readuntil(b"ok")
            assert await is_closed(silent[0])
            assert await is_closed(half[0])
            assert not await is_closed(whole[0], 0.3)
            for _, writer in (silent, half, whole):
                writer.close()

    asyncio.run(case())


def test_who_is_idle_after_a_request_is_closed() -> None:
    async def case() -> None:
        async with a_server(Connections(), keepalive_s=0.2) as port:
            reader, writer = await opened(port, GET)
            await reader.readuntil(b"ok")
            assert await is_closed(reader)
            writer.close()

    asyncio.run(case())
