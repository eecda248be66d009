"""Unneeded ConfigMaps and ControllerRevisions, removed from a real API server with the chart's rights."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from apiserver import ApiServer
from helmchart import bind, log_in
from jobworld import FakeDrivers, FakeStorage
from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.kubernetes_gateway import KubernetesGateway
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import reconcile
from statefulspark_operator.engine.ports import Ports

pytestmark = pytest.mark.api

SPEC: Resource = {
    "image": "i:1",
    "job": {"file": "/j.py"},
    "storage": {"uri": "s3://state/jobs"},
    "suspend": True,
}


def passes(kubeconfig: Path, key: JobKey, number: int) -> None:
    """Make passes of an operator that sees nothing but what the API server says."""

    async def run() -> None:
        gateway = await KubernetesGateway.connect(kubeconfig)
        try:
            ports = Ports(gateway, FakeDrivers(), FakeStorage())
            for _ in range(number):
                await reconcile.reconcile(ports, key)
        finally:
            await gateway.close()

    asyncio.run(run())


def labelled(api_version: str, kind: str, name: str, job: Resource) -> Resource:
    owner: Resource = {
        "apiVersion": resources.JOB.api_version,
        "kind": resources.JOB.name,
        "name": "flights",
        "uid": resources.text(job, "metadata", "uid"),
    }
    meta: Resource = {
        "name": name,
        "namespace": resources.text(job, "metadata", "namespace"),
        "labels": dict(names.labels("flights")),
        "ownerReferences": [owner],
    }
    content: Resource = {"data": {"spec": {"image": "i:0"}}, "revision": 1} if kind == "ControllerRevision" else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **content}


def test_what_nothing_names_any_more_is_removed_and_all_else_stays(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    bind(api_server, namespace, "rbac.executors=false")
    kubeconfig = log_in(api_server, namespace, tmp_path)
    meta: Resource = {"name": "flights", "namespace": namespace}
    api_server.apply(
        {"apiVersion": resources.JOB.api_version, "kind": resources.JOB.name, "metadata": meta, "spec": SPEC}
    )
    api_server.patch_status(namespace, "ssj/flights", {"epoch": 3, "internal": {"standbyCount": 1}})
    job = api_server.get(namespace, "ssj/flights")
    gone = ("flights-config-1", "flights-standby-1-config")
    api_server.apply(
        *(labelled("v1", "ConfigMap", name, job) for name in (*gone, "flights-config-3", "flights-code-1")),
        labelled("apps/v1", "ControllerRevision", "flights-0123456789", job),
    )

    passes(kubeconfig, JobKey(namespace, "flights"), 3)

    kept = set(api_server.names(namespace, "configmaps")) - {"kube-root-ca.crt"}
    assert kept == {"flights-config-3", "flights-code-1"}
    assert api_server.names(namespace, "controllerrevisions") == []
    assert "ObjectsPruned" in api_server.events(namespace)
