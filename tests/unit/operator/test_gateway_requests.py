"""What a request to the API server costs beside itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp.client
import pytest
import yaml
from aiohttp import web
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.kubernetes_gateway import KubernetesGateway


def test_a_request_does_not_look_for_passwords_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[None] = []
    monkeypatch.setattr(aiohttp.client, "netrc_from_env", lambda: looked.append(None))

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Pod"})

    async def scene() -> object:
        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        kubeconfig = tmp_path / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {}}
        everything = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
        kubeconfig.write_text(yaml.safe_dump(everything))
        gateway = await KubernetesGateway.connect(kubeconfig)
        try:
            return await gateway.get(resources.POD, "demo", "one")
        finally:
            await gateway.close()
            await runner.cleanup()

    assert asyncio.run(scene()) == {"kind": "Pod"}
    assert looked == []
