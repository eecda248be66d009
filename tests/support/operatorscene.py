"""The operator as a process with the chart's rights, a real API server and a real S3 server; the driver is played."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import processes
import pytest
import yaml
from apiserver import ROOT, ApiServer
from loopbackdriver import DriverPort, LoopbackDriver
from s3server import ACCESS_KEY, SECRET_KEY, S3Server
from statefulspark import errors
from statefulspark.storage import open_store
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

WITHIN_S = 60.0


def as_operator(server: ApiServer, namespaces: tuple[str, ...], folder: Path, *, home: str | None = None) -> Path:
    """Give the operator an account with the chart's roles, and return its kubeconfig.

    Args:
        server: The API server.
        namespaces: What it looks after; empty means all namespaces.
        folder: Has the kubeconfig afterwards.
        home: The namespace of its account; the first of the others when omitted.
    """
    home = home or namespaces[0]
    helm = [
        str(ROOT / "build" / "bin" / "helm"),
        "template",
        "operator",
        str(ROOT / "charts" / "statefulspark-operator"),
    ]
    values = ["--namespace", home]
    values += ["--set", f"watchNamespaces={{{','.join(namespaces)}}}" if namespaces else "clusterWide=true"]
    rendered = subprocess.run([*helm, *values], capture_output=True, text=True, timeout=60, check=True)
    wanted = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    objects = [found for found in yaml.safe_load_all(rendered.stdout) if found and found["kind"] in wanted]
    server.apply(*objects)
    account = next(found["metadata"]["name"] for found in objects if found["kind"] == "ServiceAccount")
    token = server.call("-n", home, "create", "token", account).strip()
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    target = folder / "kubeconfig"
    target.write_text(yaml.safe_dump(config))
    return target


class Operator(processes.Process):
    """One operator process for all tests of this module, since its start takes longest.

    Attributes:
        log: Its log file.
        unused: Namespaces that it watches and no test has used.
    """

    def __init__(
        self, kubeconfig: Path, namespaces: tuple[str, ...], folder: Path, *options: str, endpoints: tuple[str, ...]
    ) -> None:
        super().__init__("the operator", folder / "operator.log", environment={"KUBECONFIG": str(kubeconfig)})
        self.unused = iter(namespaces)
        self._command = [sys.executable, "-m", "statefulspark_operator.cli", "run"]
        self._command += [part for namespace in namespaces for part in ("--namespace", namespace)]
        self._command += ["--health-port", "0", "--metrics-port", "0", *options]
        self._command += [part for endpoint in endpoints for part in ("--storage-endpoint", endpoint)]

    def start(self) -> None:
        self.launch(self._command)

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self.stop()

    def metrics(self) -> str:
        """Return its metrics."""
        served = [json.loads(line) for line in self.log.read_text().splitlines() if '"/metrics"' in line]
        with urllib.request.urlopen(f"http://127.0.0.1:{served[-1]['port']}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
        return text


class Scene:
    """A job, its operator, and what is needed to play its driver."""

    def __init__(self, server: ApiServer, namespace: str, operator: Operator, s3: S3Server, port: DriverPort) -> None:
        self.server, self.namespace, self.operator, self.port = server, namespace, operator, port
        bucket = s3.new_bucket("operator")
        self.store = open_store(f"s3://{bucket}/jobs/{namespace}/flights", s3.options())
        self.spec: Resource = {
            "image": "registry.example/flights:1",
            "job": {"file": "/opt/job/flights.py"},
            "storage": {
                "uri": f"s3://{bucket}/jobs",
                "s3": {"endpoint": s3.endpoint, "credentialsSecretRef": {"name": "s3"}},
            },
            "upgrade": {"strategy": "Cold"},
        }

    @property
    def job(self) -> Resource:
        """The job as its user writes it."""
        meta: Resource = {"name": "flights", "namespace": self.namespace}
        return {
            "apiVersion": resources.JOB.api_version,
            "kind": resources.JOB.name,
            "metadata": meta,
            "spec": self.spec,
        }

    def apply(self, **changes: object) -> None:
        self.spec = {**self.spec, **changes}  # type: ignore[dict-item]
        self.apply_credentials()
        self.server.apply(self.job)

    def apply_credentials(self) -> None:
        """Apply the Secret that the job names."""
        keys: Resource = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        meta: Resource = {"name": "s3", "namespace": self.namespace}
        self.server.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": keys})

    def status(self) -> Resource:
        return resources.section(self.server.get(self.namespace, "ssj/flights"), "status")

    def events(self) -> Counter[str]:
        """Return how often each event was posted in the namespace.

        Each is posted after the status that it tells of, at most once: one that died with its operator never comes.
        """
        return self.server.events(self.namespace)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until something is true; the failure shows what the operator did."""
        deadline_s = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline_s:
            if condition():
                return
            time.sleep(0.3)
        log = self.operator.log.read_text()[-4000:]
        pytest.fail(f"not within {WITHIN_S} s: {what}\nstatus: {json.dumps(self.status(), indent=1)}\n{log}")

    def until_phase(self, phase: str) -> None:
        self.until(f"phase {phase}", lambda: self.status().get("phase") == phase)

    def play_driver(self, epoch: int) -> LoopbackDriver:
        """Wait for the pod of an epoch and be its driver; one that refuses its state ends, and its error is raised."""
        pod = f"flights-driver-{epoch}"
        self.until(f"pod {pod}", lambda: pod in self.server.names(self.namespace, "pods"))
        found = self.server.get(self.namespace, f"pod/{pod}")
        driver = LoopbackDriver(self.server, self.namespace, found, self.store, port=self.port.port)
        try:
            driver.start()
        except errors.SpecRejectedError as error:
            driver.refuse(error)
            raise
        self.port.driver = driver
        return driver

    def play_standby(self, number: int, port: DriverPort) -> LoopbackDriver:
        """Wait for a standby pod and be its process, at a port of its own."""
        pod = f"flights-standby-{number}"
        self.until(f"pod {pod}", lambda: pod in self.server.names(self.namespace, "pods"))
        found = self.server.get(self.namespace, f"pod/{pod}")
        standby = LoopbackDriver(self.server, self.namespace, found, self.store, port=port.port)
        standby.stand_by()
        port.driver = standby
        return standby


@contextmanager
def serving() -> Iterator[DriverPort]:
    port = DriverPort()
    try:
        yield port
    finally:
        port.close()
