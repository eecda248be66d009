"""Watches of ConfigMaps: who is woken, what becomes of them when the API server ends or refuses them, and who has none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from statefulspark import errors
from statefulspark_operator.cluster import config_map_watches
from statefulspark_operator.cluster.config_map_watches import OpenWatches
from statefulspark_operator.cluster.gateway import JobKey

FLIGHTS, WORDS = JobKey("demo", "flights"), JobKey("demo", "words")
END = "the API server ends the watch"


class Server:
    """Plays the API server: each opened watch takes what it shows from a queue."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, str]] = []
        self.open_now = 0
        self.shown: asyncio.Queue[str | Exception] = asyncio.Queue()
        self.woken: list[JobKey] = []
        self.refusal: errors.StatefulSparkError | None = None

    async def open(self, namespace: str, name: str) -> AsyncIterator[str]:
        self.opened.append((namespace, name))
        if self.refusal is not None:
            raise self.refusal
        self.open_now += 1
        try:
            yield ""
            while True:
                shown = await self.shown.get()
                if isinstance(shown, Exception):
                    raise shown
                if shown == END:
                    return
                yield shown
        finally:
            self.open_now -= 1


def with_watches(work: Callable[[Server, OpenWatches], Coroutine[Any, Any, None]]) -> None:
    async def scene() -> None:
        server = Server()
        watches = OpenWatches(server.open, server.woken.append)
        try:
            await asyncio.wait_for(work(server, watches), 20)
        finally:
            await watches.close()
        await asyncio.sleep(0)
        assert server.open_now == 0

    asyncio.run(scene())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_map_watches, "SHORTEST_WAIT_S", 0.01)


def test_every_job_that_names_a_config_map_is_woken_by_its_changes() -> None:
    async def work(server: Server, watches: OpenWatches) -> None:
        assert watches.follow(FLIGHTS, "code") is None, "it is not open yet"
        watches.follow(WORDS, "code")
        await until(lambda: len(server.woken) == 2)
        before = watches.follow(FLIGHTS, "code")

        server.shown.put_nowait("7")
        await until(lambda: len(server.woken) == 4)

        assert server.opened == [("demo", "code")]
        assert set(server.woken) == {FLIGHTS, WORDS}
        assert before is not None
        assert watches.follow(FLIGHTS, "code") == before + 1

    with_watches(work)


def test_a_watch_that_is_opened_again_wakes_once_since_something_may_have_been_missed() -> None:
    async def work(server: Server, watches: OpenWatches) -> None:
        watches.follow(FLIGHTS, "code")
        server.shown.put_nowait("7")
        await until(lambda: len(server.woken) == 2)

        server.shown.put_nowait(END)
        server.shown.put_nowait("7")
        await until(lambda: len(server.woken) == 3)
        await asyncio.sleep(0.05)

        assert server.woken == [FLIGHTS] * 3

    with_watches(work)


def test_a_watch_that_is_lost_wakes_its_jobs_and_is_none_until_it_is_open_again() -> None:
    async def work(server: Server, watches: OpenWatches) -> None:
        watches.follow(FLIGHTS, "code")
        await until(lambda: len(server.woken) == 1)

        server.refusal = errors.TransientError("ApiServerUnavailable", "away")
        server.shown.put_nowait(errors.TransientError("ApiServerUnavailable", "away"))
        await until(lambda: len(server.woken) == 2)
        assert watches.follow(FLIGHTS, "code") is None

        server.refusal = None
        await until(lambda: watches.follow(FLIGHTS, "code") is not None)

    with_watches(work)


def test_a_right_that_is_missing_is_not_asked_for_again_and_again() -> None:
    async def work(server: Server, watches: OpenWatches) -> None:
        server.refusal = errors.StateUnknownError("ApiServerRefused", "no permission")

        watches.follow(FLIGHTS, "code")
        await asyncio.sleep(0.1)

        assert server.opened == [("demo", "code")]
        assert watches.follow(FLIGHTS, "code") is None
        assert server.woken == []

    with_watches(work)


def test_a_watch_ends_with_the_last_job_that_names_it() -> None:
    async def work(server: Server, watches: OpenWatches) -> None:
        watches.follow(FLIGHTS, "code")
        watches.follow(WORDS, "code")
        await until(lambda: server.open_now == 1)

        watches.follow(WORDS, None)
        await asyncio.sleep(0.05)
        assert server.open_now == 1

        watches.follow(FLIGHTS, "other")
        await until(lambda: server.opened[-1] == ("demo", "other"))
        await until(lambda: server.open_now == 1)

    with_watches(work)


def test_more_config_maps_than_connections_are_looked_at_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_map_watches, "MOST", 1)

    async def work(server: Server, watches: OpenWatches) -> None:
        watches.follow(FLIGHTS, "code")
        await until(lambda: server.open_now == 1)

        assert watches.follow(WORDS, "other") is None
        watches.follow(FLIGHTS, None)
        await until(lambda: watches.follow(WORDS, "other") is not None)

    with_watches(work)
