"""kopf's lists and events, from a server that plays the API server: what is kept, and who is woken."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import json
from collections.abc import AsyncIterator, Callable, Collection
from datetime import timedelta
from pathlib import Path

import kopf
import pytest
from aiohttp import web
from jobworld import SPEC, JobWorld
from pydantic import JsonValue
from statefulspark_operator import handlers
from statefulspark_operator.cluster import cache, resources
from statefulspark_operator.cluster.cache import Cache, InitialSync
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import leadership, queue
from watchedobjects import KEY, a_shown_object

WITHIN_S = 20.0


class Server:
    """Lists and watches of three kinds, as the API server answers them.

    Attributes:
        refused: The plural that may not be listed; None if all may.
        objects: What is listed, by plural.
        events: What is still to be shown, by plural.
    """

    def __init__(self, *objects: Resource, refused: str | None = None) -> None:
        self.refused = refused
        self.objects: dict[str, list[Resource]] = {kind.plural: [] for kind in cache.KINDS}
        for found in objects:
            self.objects[resources.kind_of(found).plural].append(found)
        self.events: dict[str, asyncio.Queue[tuple[str, Resource]]] = {
            kind.plural: asyncio.Queue() for kind in cache.KINDS
        }

    def show(self, event: str, found: Resource) -> None:
        self.events[resources.kind_of(found).plural].put_nowait((event, found))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/")
        plural = path.rpartition("/")[2]
        if plural == self.refused:
            return web.json_response({"kind": "Status", "message": "forbidden", "code": 403}, status=403)
        if plural in self.objects and "namespaces" in path:
            return await (self._watch(request, plural) if "watch" in request.query else self._list(plural))
        return web.json_response(_discovery(path))

    async def _list(self, plural: str) -> web.Response:
        answer = {"metadata": {"resourceVersion": "1"}, "items": self.objects[plural]} | _kind(plural)
        return web.Response(body=_written(answer), content_type="application/json")

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            event, found = await self.events[plural].get()
            await response.write(_written({"type": event, "object": found}) + b"\n")


DEEP = "an object in an object, and so on"


def _written(answer: object) -> bytes:
    """Write an answer; in the place of `DEEP` as many objects in one another as the API server lets through."""
    nested = '{"a":' * 9000 + "1" + "}" * 9000
    return json.dumps(answer).replace(json.dumps(DEEP), nested).encode()


def _kind(plural: str) -> Resource:
    kind = next(kind for kind in cache.KINDS if kind.plural == plural)
    return {"apiVersion": kind.api_version, "kind": f"{kind.name}List"}


def _discovery(path: str) -> Resource:
    """Answer what is there: the groups, and the kinds in each."""
    group, _, version = resources.JOB.api_version.partition("/")
    if path == "api":
        return {"versions": ["v1"]}
    if path == "apis":
        only: Resource = {"groupVersion": f"{group}/{version}", "version": version}
        return {"groups": [{"name": group, "versions": [only], "preferredVersion": only}]}
    wanted = path.removeprefix("apis/").removeprefix("api/")
    verbs = ["list", "watch", "get", "patch"]
    found: list[Resource] = [
        {"name": kind.plural, "singularName": kind.name.lower(), "kind": kind.name, "namespaced": True, "verbs": verbs}  # type: ignore[dict-item]
        for kind in cache.KINDS
        if kind.api_version == wanted
    ]
    if path == "api/v1":  # kopf asks for namespaces before it watches anything in one.
        found.append(
            {"name": "namespaces", "singularName": "namespace", "kind": "Namespace", "namespaced": False, "verbs": []}
        )
    return {"resources": found}  # type: ignore[dict-item]


async def watch(
    server: Server,
    copies: Cache,
    act: Callable[[asyncio.Queue[JobKey]], object],
    awaited: Collection[str] = (),
    *,
    wake: Callable[[JobKey], None] | None = None,
) -> None:
    """Run kopf with the operator's registry against a server, while something is done with those who are woken."""
    woken: asyncio.Queue[JobKey] = asyncio.Queue()
    registry = handlers.build_registry(InitialSync(wake or woken.put_nowait, awaited), copies)
    settings = handlers.build_settings()
    handlers.watch_patiently()
    settings.networking.error_backoffs = ()
    settings.queueing.idle_timeout = 0.01  # Its workers end first when it is stopped.
    async with server.serving() as url:

        async def login(**_: object) -> kopf.ConnectionInfo:
            return kopf.ConnectionInfo(server=url)

        kopf.on.login(registry=registry, id="login")(login)
        running = asyncio.create_task(
            kopf.operator(
                registry=registry,
                settings=settings,
                standalone=True,
                namespaces=(KEY.namespace,),
            )
        )
        try:
            await asyncio.wait_for(act(woken), WITHIN_S)  # type: ignore[arg-type]
        finally:
            running.cancel()  # When it is told to stop, kopf waits five seconds for the server's tasks as well.
            await asyncio.gather(running, return_exceptions=True)


def test_a_job_is_woken_when_everything_that_is_listed_is_kept() -> None:
    job, pod = a_shown_object(resources.JOB, "flights", 3), a_shown_object(resources.POD, "flights-driver-1", 4)
    copies = Cache()

    async def act(woken: asyncio.Queue[JobKey]) -> None:
        assert await woken.get() == KEY
        assert cache.version_of(copies.get(resources.JOB, "demo", "flights") or {}) == "3"
        assert [cache.version_of(found) for found in copies.pods(KEY)] == ["4"]

    asyncio.run(watch(Server(job, pod), copies, act, {cache.uid_of(job), cache.uid_of(pod)}))


def test_an_event_wakes_unless_it_shows_what_the_operator_wrote() -> None:
    server, copies = Server(a_shown_object(resources.JOB, "flights", 3)), Cache()

    async def act(woken: asyncio.Queue[JobKey]) -> None:
        await woken.get()
        copies.update_written(a_shown_object(resources.JOB, "flights", 4))
        server.show("MODIFIED", a_shown_object(resources.JOB, "flights", 4))
        server.show("MODIFIED", a_shown_object(resources.JOB, "flights", 5))
        await woken.get()
        assert cache.version_of(copies.get(resources.JOB, "demo", "flights") or {}) == "5"
        assert woken.empty()

        server.show("ADDED", a_shown_object(resources.POD, "flights-driver-1", 6))
        assert await woken.get() == KEY
        assert len(copies.pods(KEY)) == 1
        server.show("DELETED", a_shown_object(resources.POD, "flights-driver-1", 7))
        assert await woken.get() == KEY
        assert copies.pods(KEY) == ()

    asyncio.run(watch(server, copies, act))


def test_a_savepoint_object_wakes_the_job_that_it_names_and_is_kept() -> None:
    copies = Cache()

    async def act(woken: asyncio.Queue[JobKey]) -> None:
        assert await woken.get() == JobKey("demo", "trains")
        assert [found.version for found in copies.entries(resources.SAVEPOINT, "demo")] == ["5"]

    asyncio.run(
        watch(Server(a_shown_object(resources.SAVEPOINT, "nightly", 5, spec={"jobName": "trains"})), copies, act)
    )


def test_savepoint_objects_that_may_not_be_listed_hold_up_no_job_and_end_no_other_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, copies = Server(a_shown_object(resources.JOB, "flights", 3), refused=resources.SAVEPOINT.plural), Cache()

    async def act(woken: asyncio.Queue[JobKey]) -> None:
        assert await woken.get() == KEY
        while "not watched" not in caplog.messages:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # Kopf needs less to end all watches.
        server.show("MODIFIED", a_shown_object(resources.JOB, "flights", 4))
        assert await woken.get() == KEY

    asyncio.run(watch(server, copies, act))


def test_a_job_that_nests_what_no_parser_reads_ends_nobodys_watch() -> None:
    """`podTemplate` may have any JSON, and Python reads a thousand objects in one another at most."""
    template: Resource = {"podTemplate": {"spec": {"x": DEEP}}}
    listed = a_shown_object(resources.JOB, "abuse", 3, spec=template)
    server, copies = Server(listed, a_shown_object(resources.JOB, "flights", 3)), Cache()

    async def act(woken: asyncio.Queue[JobKey]) -> None:
        assert {await woken.get(), await woken.get()} == {KEY, JobKey("demo", "abuse")}
        server.show("MODIFIED", a_shown_object(resources.JOB, "abuse", 4, spec=template))
        assert await woken.get() == JobKey("demo", "abuse")
        server.show("MODIFIED", a_shown_object(resources.JOB, "flights", 5))
        assert await woken.get() == KEY
        assert cache.version_of(copies.get(resources.JOB, "demo", "abuse") or {}) == "4"

    asyncio.run(watch(server, copies, act))


def test_many_jobs_and_their_pods_arrive_in_seconds() -> None:
    names = [f"flights-{number}" for number in range(1500)]
    jobs = [a_shown_object(resources.JOB, name, 1) for name in names]
    pods = [a_shown_object(resources.POD, f"{name}-driver-1", 2, job=name) for name in names]
    awaited = {cache.uid_of(found) for found in (*jobs, *pods)}
    copies = Cache()

    async def act(woken: asyncio.Queue[JobKey]) -> None:
        first = await woken.get()
        assert len(copies.pods(first)) == 1
        assert {first, *[await woken.get() for _ in names[1:]]} == {JobKey("demo", name) for name in names}

    asyncio.run(watch(Server(*jobs, *pods), copies, act, awaited))


MANAGED: JsonValue = [{"manager": "somebody"}]


class Sent(dict[str, JsonValue]):
    """An object of the server, told from what the operator has read of it."""


def test_nothing_of_an_event_but_its_copy_is_kept_once_it_is_dealt_with() -> None:
    job = a_shown_object(resources.JOB, "flights", 3)
    meta = Sent(resources.section(job, "metadata"))
    meta["managedFields"] = MANAGED
    server, copies = Server(), Cache()

    async def one_pass(_key: JobKey) -> timedelta | None:
        return timedelta(hours=1)

    async def act(_woken: asyncio.Queue[JobKey]) -> None:
        server.show("ADDED", {**job, "metadata": meta})
        server.show(
            "ADDED", a_shown_object(resources.JOB, "trains", 4)
        )  # A watch holds the event that it has shown last.
        while work.passes < 2 or whole_objects():
            await asyncio.sleep(0.05)
        assert work.jobs == 2, "both jobs still have their workers"
        await work.close()

    def whole_objects() -> list[object]:
        gc.collect()
        return [found for found in gc.get_objects() if type(found) is dict and found.get("managedFields") == MANAGED]

    work = queue.WorkQueue(one_pass)
    assert whole_objects() == []
    asyncio.run(watch(server, copies, act, wake=work.wake))


ONE, TWO = JobKey("demo", "one"), JobKey("demo", "two")


def test_nobody_is_woken_before_everything_that_is_awaited_has_arrived() -> None:
    woken: list[JobKey] = []
    sync = InitialSync(woken.append, {"a", "b"})

    for uid in ("a", "a", "newer"):
        sync.wake(ONE)
        sync.arrived(uid)
    assert woken == []

    sync.wake(TWO)
    sync.arrived("b")
    assert woken == [ONE, TWO]
    sync.wake(ONE)
    assert woken == [ONE, TWO, ONE]


def test_what_never_arrives_is_waited_for_a_limited_time_only() -> None:
    woken: list[JobKey] = []
    sync = InitialSync(woken.append, {"deleted before the watches began"})
    sync.wake(ONE)

    sync.end()

    assert woken == [ONE]
    sync.wake(TWO)
    assert woken == [ONE, TWO]


def test_an_operator_that_ends_does_not_wait_for_the_watches_of_config_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kopf waits five seconds for every task that is not its own."""
    spec: Resource = {**SPEC, "job": {"source": {"configMap": {"name": "code", "key": "flights.py"}}}}
    world = JobWorld(spec=spec)
    job = world.cluster.objects[resources.JOB.name, KEY.namespace, KEY.name]

    async def scene() -> float:
        stop, here = asyncio.Event(), asyncio.get_running_loop()
        async with leadership.run_loop_thread(
            "server"
        ) as elsewhere:  # kopf waits for the tasks of a server in its own loop, too.
            serving = Server(job).serving()
            url = await elsewhere.run(serving.__aenter__())
            monkeypatch.setenv("KUBECONFIG", str(kubeconfig_of(tmp_path, url)))
            ports = dataclasses.replace(world.world, cache=Cache())
            running = asyncio.create_task(handlers.operate(ports, namespaces=(KEY.namespace,), stop=stop))
            while not world.cluster.watches:
                await asyncio.sleep(0.05)
            begun_s = here.time()
            stop.set()
            await running
            took_s = here.time() - begun_s
            await elsewhere.run(serving.__aexit__(None, None, None))
            await elsewhere.run(end_the_rest())
        return took_s

    assert asyncio.run(asyncio.wait_for(scene(), WITHIN_S)) < 4


async def end_the_rest() -> None:
    """End all other tasks of this loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def kubeconfig_of(folder: Path, url: str) -> Path:
    cluster, user = {"name": "c", "cluster": {"server": url}}, {"name": "u", "user": {"token": "t"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    everything = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    file = folder / "kubeconfig"
    file.write_text(json.dumps(everything))
    return file
