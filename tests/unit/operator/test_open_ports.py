"""The open ports of the operator: who holds all connections of one holds none of the other."""

from __future__ import annotations

import asyncio

from statefulspark_operator.telemetry import server

MOST_OF_AN_ADDRESS = 32
GET = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"


async def text() -> bytes:
    return b"ok"


async def answers(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(GET)
        return (await asyncio.wait_for(reader.read(12), 5)).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False
    finally:
        writer.close()


def test_who_holds_all_connections_of_the_metrics_holds_none_of_the_probes() -> None:
    async def scene() -> tuple[bool, bool]:
        runners, ports = zip(*[await server.serve("/x", 0, text) for _ in range(2)], strict=True)
        held = [await asyncio.open_connection("127.0.0.1", ports[0]) for _ in range(MOST_OF_AN_ADDRESS)]
        seen = await answers(ports[0]), await answers(ports[1])
        for _, writer in held:
            writer.close()
        for runner in runners:
            await runner.cleanup()
        return seen

    assert asyncio.run(scene()) == (False, True)
