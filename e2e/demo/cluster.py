"""The Kubernetes and the S3 server that the demo runs on: one of our own, or the reader's."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from statefulspark import storage

from demo import failure, kubectl, process, settings

CLUSTER = Path("build", "bin", "cluster")
HELM = Path("build", "bin", "helm")
OWN_DIRECTORY = Path("build", "demo", "cluster")
OWN = (str(CLUSTER), "--dir", str(OWN_DIRECTORY))
OWN_BUCKET = "flights-demo"
UP_TIMEOUT_S = 400.0


@dataclass(frozen=True, slots=True)
class Connection:
    """How everything is reached.

    Attributes:
        kubeconfig: The cluster's kubeconfig.
        kubectl_command: How kubectl is started.
        s3_endpoint: The S3 server as this machine reaches it.
        s3_pod_endpoint: The same server as pods reach it.
        bucket: Bucket for input, output and state.
        folder: Folder in the bucket that is this run's alone.
        access_key: For the S3 server.
        secret_key: Belongs to `access_key`.
        region: For signing.
    """

    kubeconfig: Path
    kubectl_command: tuple[str, ...]
    s3_endpoint: str
    s3_pod_endpoint: str
    bucket: str
    folder: str
    access_key: str
    secret_key: str
    region: str

    def uri(self, name: str = "") -> str:
        """Return the URI of something in this run's folder."""
        return f"s3://{self.bucket}/{self.folder}" + (f"/{name}" if name else "")

    def open_store(self, name: str = "") -> storage.ObjectStore:
        """Open something in this run's folder from this machine."""
        options = storage.StorageOptions(
            endpoint=self.s3_endpoint, region=self.region, access_key=self.access_key, secret_key=self.secret_key
        )
        return storage.open_store(self.uri(name), options)

    def kubectl(self, namespace: str) -> kubectl.Kubectl:
        """Return kubectl for a namespace."""
        return kubectl.Kubectl(self.kubectl_command, self.kubeconfig, namespace)


def start_own(images: tuple[Path, ...], log: Path, *, nodes: int) -> Connection:
    """Start a cluster and an S3 server on this machine, in a folder of the demo's own, with images on its nodes.

    Raises:
        DemoFailedError: It does not start; the message says why.
    """
    loads = [part for image in images for part in ("--load", str(image))]
    process.run([*OWN, "up", "--nodes", str(nodes), "--bucket", OWN_BUCKET, *loads], timeout_s=UP_TIMEOUT_S, log=log)
    found = parse_environment(process.run([*OWN, "env"], timeout_s=10))
    return Connection(
        kubeconfig=Path(found["KUBECONFIG"]),
        kubectl_command=(str(CLUSTER), "kubectl"),
        s3_endpoint=found["S3_ENDPOINT"],
        s3_pod_endpoint=found["S3_POD_ENDPOINT"],
        bucket=OWN_BUCKET,
        folder="flights",
        access_key=found["AWS_ACCESS_KEY_ID"],
        secret_key=found["AWS_SECRET_ACCESS_KEY"],
        region=found["AWS_REGION"],
    )


def stop_own(log: Path) -> None:
    """Take our own cluster and its S3 server down, with everything they stored."""
    process.run([*OWN, "down"], timeout_s=UP_TIMEOUT_S, log=log)


def stop_command() -> str:
    """Return the command that does the same, as a person types it."""
    return shlex.join([*OWN, "down"])


def use_foreign(foreign: settings.ForeignCluster) -> Connection:
    """Use the reader's cluster and S3 server."""
    return Connection(
        kubeconfig=foreign.kubeconfig,
        kubectl_command=(str(CLUSTER), "kubectl"),
        s3_endpoint=foreign.s3_endpoint,
        s3_pod_endpoint=foreign.s3_pod_endpoint,
        bucket=foreign.bucket,
        folder=f"statefulspark-demo-{datetime.now(UTC):%Y%m%d-%H%M%S}",
        access_key=foreign.access_key,
        secret_key=foreign.secret_key,
        region=foreign.region,
    )


def parse_environment(lines: str) -> Mapping[str, str]:
    """Read shell lines of the form `export NAME=value`.

    Raises:
        DemoFailedError: One of the variables that the demo needs is not there.
    """
    words = [shlex.split(line.removeprefix("export ")) for line in lines.splitlines() if line.startswith("export ")]
    found = dict(word[0].split("=", 1) for word in words)
    needed = [
        "KUBECONFIG",
        "S3_ENDPOINT",
        "S3_POD_ENDPOINT",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
    ]
    missing = [name for name in needed if not found.get(name)]
    if missing:
        raise failure.DemoFailedError(f"`{CLUSTER} env` does not name {', '.join(missing)}; is the cluster up?")
    return found
