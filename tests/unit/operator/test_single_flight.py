"""Work that many ask for at once is done once for all of them, after the last of them has asked."""

from __future__ import annotations

import asyncio
import dataclasses

from fakecluster import FakeGateway
from jobworld import START, JobWorld
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.engine import savepoints
from statefulspark_operator.engine.memory import SingleFlight

MANY = 100


class Work:
    """Work that is done when it is released."""

    def __init__(self) -> None:
        self.begun = 0
        self.started, self.released = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> bool:
        self.begun += 1
        number = self.begun
        self.started.set()
        await self.released.wait()
        return number == self.begun


def test_whoever_asks_while_a_round_runs_gets_the_next_one_together_with_all_others() -> None:
    async def scene() -> int:
        work, rounds = Work(), SingleFlight()
        first = asyncio.create_task(rounds.join("demo", work))
        await work.started.wait()
        later = [asyncio.create_task(rounds.join("demo", work)) for _ in range(MANY)]
        await asyncio.sleep(0)
        assert work.begun == 1
        work.released.set()
        assert await first
        assert all(await asyncio.gather(*later))
        return work.begun

    assert asyncio.run(scene()) == 2


def test_rounds_of_different_names_do_not_wait_for_each_other() -> None:
    async def scene() -> None:
        hung, quick, rounds = Work(), Work(), SingleFlight()
        waiting = asyncio.create_task(rounds.join("demo", hung))
        quick.released.set()
        await rounds.join("other", quick)
        hung.released.set()
        await waiting

    asyncio.run(scene())


def test_a_round_that_fails_fails_for_those_who_waited_for_it_and_not_for_the_next() -> None:
    async def scene() -> bool:
        rounds = SingleFlight()

        async def fail() -> bool:
            raise ValueError("no")

        for found in await asyncio.gather(*(rounds.join("demo", fail) for _ in range(3)), return_exceptions=True):
            assert isinstance(found, ValueError)

        async def work() -> bool:
            return True

        return await rounds.join("demo", work)

    assert asyncio.run(scene())


class CountingGateway(FakeGateway):
    """Counts lists, each of which takes a while."""

    lists = 0

    async def list_all(self, kind: Kind, namespace: str) -> tuple[Resource, ...] | None:
        self.lists += 1
        await asyncio.sleep(0)
        return await super().list_all(kind, namespace)


def test_all_jobs_of_a_namespace_that_start_together_list_its_savepoint_objects_once() -> None:
    gateway = CountingGateway(lambda: START)
    ports = dataclasses.replace(JobWorld().world, gateway=gateway)

    async def scene() -> None:
        assert set(await asyncio.gather(*(savepoints.list_objects(ports, "elsewhere") for _ in range(MANY)))) == {()}

    asyncio.run(scene())

    assert gateway.lists == 1
