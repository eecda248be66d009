"""Deletion ends also where an operator is limited to named namespaces, and has its rights in the one that goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from apiserver import ApiServer
from operatorscene import Operator, Scene, as_operator, serving
from s3server import S3Server
from statefulspark_operator.cluster import resources

pytestmark = [pytest.mark.api, pytest.mark.s3]

HOME = "limited"
NOTHING = '[{"op": "remove", "path": "/metadata/finalizers"}]'


def run_job(scene: Scene, policy: str) -> None:
    scene.apply(deletionPolicy=policy)
    scene.play_driver(1)
    scene.until_phase("Running")
    scene.until("checkpoint", lambda: resources.find(scene.status(), "lastCheckpoint") is not None)


@pytest.mark.parametrize("policy", ["Retain", "Savepoint"])
def test_a_namespace_that_a_limited_operator_watches_goes_unless_a_savepoint_is_waited_for(
    api_server: ApiServer, s3: S3Server, tmp_path: Path, policy: str
) -> None:
    """Its roles may go before the job, and then nobody but a person can take a finalizer off."""
    namespace = f"limited-{policy.lower()}"
    for name in (HOME, namespace):
        api_server.kubectl("create", "namespace", name)
    kubeconfig = as_operator(api_server, (namespace,), tmp_path, home=HOME)
    process = Operator(kubeconfig, (namespace,), tmp_path, endpoints=(s3.endpoint,))
    with serving() as port:
        scene = Scene(api_server, namespace, process, s3, port)
        process.start()
        try:
            run_job(scene, policy)
            api_server.call("delete", "namespace", namespace, "--wait=false")

            def is_let_go() -> bool:
                if policy == "Savepoint":  # Again and again: an operator that still has its rights holds it once more.
                    api_server.kubectl("-n", namespace, "patch", "ssj", "flights", "--type=json", "-p", NOTHING)
                return api_server.kubectl("get", "namespace", namespace).returncode != 0

            scene.until("namespace gone", is_let_go)
        finally:
            process.kill()
