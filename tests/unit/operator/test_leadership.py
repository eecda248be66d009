"""Of several operators one acts: whatever hangs, restarts or is cut off, never two at once, and soon another one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from fakecluster import FakeGateway
from hypothesis import given, settings
from hypothesis import strategies as st
from jobworld import START, JobWorld
from kubernetes.aio import client
from situations import a_pod
from statefulspark import errors
from statefulspark.contract.api import StopRequest
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import kubernetes_gateway, resources
from statefulspark_operator.cluster.driver_api import DriverAccess, HttpDriverApi
from statefulspark_operator.cluster.kubernetes_gateway import KubernetesGateway
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.cluster.shares import Limits
from statefulspark_operator.engine import leadership
from statefulspark_operator.engine.leadership import ACTS_FOR_S, LASTS_S, Leadership, LeaseName

WITHIN_S = 20.0


@dataclass
class Line(FakeGateway):
    """One operator's connection to the API server that all share, which can be cut."""

    server: FakeGateway | None = None
    is_cut: bool = False
    hangs: bool = False

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        if self.hangs:
            await asyncio.Event().wait()
        return await self._reach().get(kind, namespace, name)

    async def create(self, manifest: Resource) -> bool:
        return await self._reach().create(manifest)

    async def replace(self, manifest: Resource) -> Resource:
        return await self._reach().replace(manifest)

    def _reach(self) -> FakeGateway:
        if self.is_cut or self.server is None:
            raise errors.TransientError("ApiServerUnavailable", "The API server did not answer.")
        return self.server


@dataclass
class World:
    """An API server, and operators with clocks that differ."""

    time_s: float = 0.0
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = FakeGateway(lambda: START)

    def operator(self, identity: str) -> Leadership:
        line = Line(lambda: START, server=self.server)
        ahead_s = 1000.0 * len(self.lines)
        self.lines.append(line)
        return Leadership(line, LeaseName("system", "operator", identity), lambda: self.time_s + ahead_s)

    @property
    def holder(self) -> str:
        lease = self.server.objects[(resources.LEASE.name, "system", "operator")]
        return resources.text(lease, "spec", "holderIdentity")


def attempt(operator: Leadership) -> bool:
    return asyncio.run(operator.attempt())


def test_the_first_leads_and_the_second_stands_by() -> None:
    world = World()
    first, second = world.operator("a"), world.operator("b")

    assert (attempt(first), attempt(second)) == (True, False)
    assert (first.may_act, second.may_act) == (True, False)


def test_a_leader_that_renews_is_never_replaced() -> None:
    world = World()
    first, second = world.operator("a"), world.operator("b")

    for _ in range(30):
        assert (attempt(first), attempt(second)) == (True, False)
        world.time_s += 2


def test_a_leader_that_is_gone_is_replaced_after_ten_seconds() -> None:
    world = World()
    first, second = world.operator("a"), world.operator("b")
    attempt(first)
    attempt(second)

    world.time_s += LASTS_S - 0.1
    assert not attempt(second)
    world.time_s += 0.2
    assert attempt(second)
    assert world.holder == "b"
    assert not attempt(first), "it is back, and stands by"


def test_a_leader_that_is_cut_off_stops_before_another_starts() -> None:
    world = World()
    first, second = world.operator("a"), world.operator("b")
    attempt(first)
    attempt(second)
    world.lines[0].is_cut = True

    world.time_s += ACTS_FOR_S - 0.1
    assert attempt(first), "it goes on until its time is over"
    world.time_s += 0.2
    assert not first.may_act, "without having been told"
    assert not attempt(second)
    asyncio.run(asyncio.wait_for(first.hold(), 5))


def test_a_lease_that_is_given_back_is_taken_at_once() -> None:
    world = World()
    first, second = world.operator("a"), world.operator("b")
    attempt(first)
    attempt(second)

    asyncio.run(first.release())

    assert not first.may_act
    assert attempt(second)


def test_one_that_stands_by_gives_nothing_back() -> None:
    world = World()
    first, second = world.operator("a"), world.operator("b")
    attempt(first)

    asyncio.run(second.release())

    assert world.holder == "a"


def test_a_container_that_was_started_again_in_its_pod_leads_at_once() -> None:
    world = World()
    attempt(world.operator("a"))

    assert attempt(world.operator("a"))


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from(["wait", "try", "cut", "mend", "release"]), st.integers(0, 2), st.floats(0.1, 9)),
        max_size=40,
    )
)
def test_two_never_act_at_once(steps: list[tuple[str, int, float]]) -> None:
    world = World()
    operators = [world.operator(name) for name in "abc"]
    for step, number, seconds in steps:
        match step:
            case "wait":
                world.time_s += seconds
            case "try":
                attempt(operators[number])
            case "cut" | "mend":
                world.lines[number].is_cut = step == "cut"
            case _:
                asyncio.run(operators[number].release())
        assert sum(operator.may_act for operator in operators) <= 1


@pytest.mark.parametrize("change", [{"image": "registry.example/flights:2"}, {"suspend": True}])
def test_an_operator_that_leads_no_longer_changes_nothing(change: Resource) -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    world.lead(may_act=False)
    written = len(world.cluster.writes)
    world.change(change)

    world.run(60)

    assert world.cluster.writes[written:] == []
    assert world.driver.operations == {}

    world.lead(may_act=True)
    world.run_until(lambda: world.driver.operations != {})


def test_a_leader_whose_renewal_hangs_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "TRY_EVERY_S", 0.0)
    world = World()
    leader = world.operator("a")
    attempt(leader)
    world.time_s = ACTS_FOR_S - 0.01
    world.lines[0].hangs = True

    asyncio.run(asyncio.wait_for(leader.hold(), WITHIN_S))


class Permission:
    """The right to act, until it is taken."""

    def __init__(self) -> None:
        self.is_taken = False

    def __call__(self) -> None:
        if self.is_taken:
            raise errors.TransientError("NotLeading", "Another operator leads.")


class SlowServer:
    """Answers every request with an empty object, but not before it is released.

    Attributes:
        methods: Of the requests that it has received.
    """

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.asked, self.released = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.methods.append(head.decode().split()[0])
        self.asked.set()
        await self.released.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()


def test_a_write_that_waited_for_its_turn_while_the_lease_was_lost_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_gateway, "AT_ONCE", Limits(1, 1, leaves_half=False))

    async def scene() -> list[str]:
        permission, server = Permission(), SlowServer()
        async with server.serving() as url:
            gateway = KubernetesGateway(client.ApiClient(client.Configuration(host=url)), permit=permission)
            read = asyncio.create_task(gateway.get(resources.POD, "demo", "one"))
            await asyncio.wait_for(server.asked.wait(), WITHIN_S)
            written = asyncio.create_task(gateway.delete(resources.POD, "demo", "one"))
            await asyncio.sleep(0)
            permission.is_taken = True
            server.released.set()
            await read
            with pytest.raises(errors.TransientError, match="Another operator leads"):
                await written
            await gateway.close()
        return server.methods

    assert asyncio.run(scene()) == ["GET"]


def test_a_driver_is_asked_to_stop_by_the_leader_only() -> None:
    async def scene() -> list[str]:
        permission, server = Permission(), SlowServer()
        permission.is_taken = True
        server.released.set()
        async with server.serving() as url:
            drivers = HttpDriverApi(lambda _pod: url, permit=permission)
            with pytest.raises(errors.TransientError, match="Another operator leads"):
                await drivers.stop(a_pod(), DriverAccess("token"), StopRequest(request_id="r", savepoint=True))
            await drivers.status(a_pod(), DriverAccess("token"))
            await drivers.close()
        return server.methods

    assert asyncio.run(scene()) == ["GET"]


def test_a_lease_is_renewed_while_the_loop_of_the_passes_is_blocked() -> None:
    renewed = threading.Event()

    async def renew() -> None:
        await asyncio.sleep(0)
        renewed.set()

    async def scene() -> bool:
        async with leadership.run_loop_thread("lease") as loop:
            renewing = loop.start(renew())
            has_renewed = renewed.wait(WITHIN_S)  # Nothing else runs in this loop meanwhile.
            renewing.result(WITHIN_S)
            assert await loop.run(asyncio.sleep(0, "an answer")) == "an answer"
            return has_renewed

    assert asyncio.run(scene())
