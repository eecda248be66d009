"""A real Kubernetes API server for tests: `build/bin/cluster api up`, on loopback, without root, ended by the tool itself.

Fixtures: `api_server` is one server for the whole run with the CRDs installed, `namespace` a new namespace in it. Who needs
every namespace runs a server with `running(folder)`.
Nothing runs pods there; a test that needs a driver plays kubelet and driver.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import processes
import pytest
import yaml
from statefulspark_operator.cluster.resources import Resource

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "build" / "bin" / "cluster"
CRDS = ROOT / "crds"
_COMMAND_TIMEOUT_S = 90
_numbers = itertools.count(1)


class ApiServer:
    """The server, as seen with kubectl.

    Attributes:
        kubeconfig: For an administrator.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl and return how it ended."""
        command = self._command(*arguments)
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
        )

    def call(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it prints; it has to succeed."""
        done = self.kubectl(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def watch(self, log: Path, *arguments: str) -> processes.Process:
        """Start `kubectl get --watch`, which prints into a log; whoever reads that ends it."""
        watching = processes.Process("`kubectl get --watch`", log)
        watching.launch(self._command("get", "--watch", *arguments))
        return watching

    def apply(self, *manifests: Resource) -> None:
        """Apply manifests as a user does."""
        self.call("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def get(self, namespace: str, what: str) -> Resource:
        """Return an object, for example `ssj/flights`."""
        return cast("Resource", json.loads(self.call("-n", namespace, "get", what, "-o", "json")))

    def names(self, namespace: str, kind: str) -> list[str]:
        """Return the names of all objects of a kind."""
        printed = self.call("-n", namespace, "get", kind, "-o", "jsonpath={.items[*].metadata.name}")
        return printed.split()

    def events(self, namespace: str) -> Counter[str]:
        """Return how often each event was posted, by its reason."""
        return Counter(self.call("-n", namespace, "get", "events", "-o", "jsonpath={.items[*].reason}").split())

    def patch_status(self, namespace: str, what: str, status: Resource) -> None:
        """Set an object's status, as its controller or a kubelet does."""
        patch = json.dumps({"status": status})
        self.call("-n", namespace, "patch", what, "--subresource=status", "--type=merge", "-p", patch)

    def _command(self, *arguments: str) -> list[str]:
        return [str(CLUSTER), "kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]


@contextmanager
def running(folder: Path) -> Iterator[ApiServer]:
    """Run a server of its own, with the CRDs, while the block runs.

    Args:
        folder: New; has the server's files, and its log.
    """
    processes.require(CLUSTER, "build/bin/cluster")
    tool = processes.Process("`cluster api`", folder / "tool.log")
    try:
        tool.launch([str(CLUSTER), "api", "up", "--dir", str(folder / "server")])
        assert tool.wait_end(_COMMAND_TIMEOUT_S) == 0, f"the API server did not start: {tool.tail}"
        server = ApiServer(Path(tool.output.splitlines()[-1]))  # what it prints is the kubeconfig's path
        server.call("apply", "--server-side", "-f", str(CRDS))
        server.call("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
        yield server
    finally:
        tool.launch([str(CLUSTER), "api", "down", "--dir", str(folder / "server")])
        tool.wait_end(_COMMAND_TIMEOUT_S)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One API server for the whole run."""
    with running(tmp_path_factory.mktemp("api-server")) as server:
        yield server


@pytest.fixture
def namespace(api_server: ApiServer) -> str:
    """A new namespace."""
    name = f"test-{next(_numbers)}"
    api_server.call("create", "namespace", name)
    return name
