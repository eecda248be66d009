"""What a request to the API server costs beside itself, and how a watch is asked for and read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp.client
import pytest
import yaml
from aiohttp import web
from statefulspark import errors
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.kubernetes_gateway import KubernetesGateway

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def connected(folder: Path, answer: Answer) -> AsyncIterator[KubernetesGateway]:
    """Connect to a server that plays the API server."""
    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    kubeconfig = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {}}
    everything = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    kubeconfig.write_text(yaml.safe_dump(everything))
    gateway = await KubernetesGateway.connect(kubeconfig)
    try:
        yield gateway
    finally:
        await gateway.close()
        await runner.cleanup()


def test_a_request_does_not_look_for_passwords_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[None] = []
    monkeypatch.setattr(aiohttp.client, "netrc_from_env", lambda: looked.append(None))

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Pod"})

    async def scene() -> object:
        async with connected(tmp_path, answer) as gateway:
            return await gateway.get(resources.POD, "demo", "one")

    assert asyncio.run(scene()) == {"kind": "Pod"}
    assert looked == []


@pytest.mark.parametrize(
    "name",
    ["../../billing/secrets/db", "..", ".", "", "a/b", "%2e%2e%2fdb", "..\\db", "db?watch=true", "db#x"],
)
def test_a_name_that_a_tenant_chooses_does_not_lead_to_the_objects_of_another(tmp_path: Path, name: str) -> None:
    """HTTP clients take `..` out of a path, so `configmaps/../../billing/secrets/db` would be a Secret of `billing`."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"kind": "Secret", "data": {"password": "c2VjcmV0"}})

    async def scene() -> tuple[object, object]:
        async with connected(tmp_path, answer) as gateway:
            return await gateway.get(resources.CONFIG_MAP, "shop", name), await gateway.read_secret("shop", name)

    assert asyncio.run(scene()) == (None, None)
    assert asked == []
    with pytest.raises(errors.SpecRejectedError) as refused:
        resources.CONFIG_MAP.path("shop", name)
    assert refused.value.reason == "ObjectNameInvalid"


def test_what_is_nested_deeper_than_any_parser_reads_is_read_without_that(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        nested = '{"a":[' * 4000 + "1" + "]}" * 4000
        body = f'{{"kind":"Pod","spec":{{"x":{nested},"y":"]}}"}},"status":{{"phase":"Running"}}}}'
        return web.Response(body=body.encode(), content_type="application/json")

    async def scene() -> resources.Resource:
        async with connected(tmp_path, answer) as gateway:
            return await gateway.get(resources.POD, "demo", "one") or {}

    read = asyncio.run(scene())

    assert (read["kind"], read["status"]) == ("Pod", {"phase": "Running"})
    assert resources.text(read, "spec", "y") == "]}"


def test_an_answer_that_is_no_json_is_waited_out(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<html>the proxy is being restarted</html>")

    async def scene() -> None:
        async with connected(tmp_path, answer) as gateway:
            await gateway.get(resources.POD, "demo", "one")

    with pytest.raises(errors.TransientError, match="cannot be read"):
        asyncio.run(scene())


def test_a_namespace_that_floods_the_api_server_does_not_keep_another_one_waiting(tmp_path: Path) -> None:
    """One place at a time becomes free; the flood holds all of them, and has many requests in front."""
    flood, others = 200, 5
    answered: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(0.01)
        answered.append(request.path.split("/")[4])
        return web.json_response({"kind": "Pod"})

    async def scene() -> None:
        async with connected(tmp_path, answer) as gateway:
            asked = [asyncio.create_task(gateway.get(resources.POD, "abuse", f"{number}")) for number in range(flood)]
            await asyncio.sleep(0.02)
            asked += [asyncio.create_task(gateway.get(resources.POD, "demo", f"{number}")) for number in range(others)]
            await asyncio.gather(*asked)

    asyncio.run(scene())

    last = max(position for position, namespace in enumerate(answered) if namespace == "demo")
    assert (len(answered), answered.count("demo")) == (flood + others, others)
    assert last < flood / 2


def event(kind: str, version: str) -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"resourceVersion": version}}}).encode() + b"\n"


async def watched(folder: Path, answer: Answer) -> list[str]:
    async with connected(folder, answer) as gateway:
        watch = gateway.watch(resources.CONFIG_MAP, "demo", "code")
        return [version async for version in watch]


def test_a_watch_is_of_one_name_and_without_content_and_ends_with_an_error_event(tmp_path: Path) -> None:
    asked: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        response = web.StreamResponse()
        await response.prepare(request)
        body = event("ADDED", "3") + event("MODIFIED", "4") + event("ERROR", "") + event("MODIFIED", "5")
        await response.write(body[:50])
        await response.write(body[50:])
        return response

    assert asyncio.run(watched(tmp_path, answer)) == ["", "3", "4"]
    (request,) = asked
    assert request.path == "/api/v1/namespaces/demo/configmaps"
    assert dict(request.query) == {"watch": "true", "fieldSelector": "metadata.name=code", "timeoutSeconds": "300"}
    assert "as=PartialObjectMetadata;" in request.headers["Accept"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, errors.StateUnknownError), (500, errors.TransientError), (429, errors.TransientError)],
)
def test_a_watch_that_is_not_opened_says_why(
    tmp_path: Path, status: int, kind: type[errors.StatefulSparkError]
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"message": "no"}, status=status)

    with pytest.raises(kind):
        asyncio.run(watched(tmp_path, answer))


@pytest.mark.parametrize("rest", [b"{ no json\n", b'{"type": "ADD'], ids=["no JSON", "cut off"])
def test_a_watch_that_breaks_off_is_opened_again_later(tmp_path: Path, rest: bytes) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("ADDED", "3") + rest)
        return response

    with pytest.raises(errors.TransientError, match="has ended"):
        asyncio.run(watched(tmp_path, answer))


def test_who_stops_watching_closes_the_connection(tmp_path: Path) -> None:
    closed: list[bool] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(event("MODIFIED", "3"))
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            closed.append(True)
            raise

    async def scene() -> None:
        async with connected(tmp_path, answer) as gateway:
            async with contextlib.aclosing(gateway.watch(resources.CONFIG_MAP, "demo", "code")) as watch:
                assert [await anext(watch), await anext(watch)] == ["", "3"]
            while not closed:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(scene(), 20))
