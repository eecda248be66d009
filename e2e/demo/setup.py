"""Brings everything up before the story begins, and takes it down after it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo import cluster, failure, process, resources, settings

CHART = Path("charts", "statefulspark-operator")
RELEASE = "statefulspark-operator"
OPERATOR_NAMESPACE = "statefulspark-system"
OPERATOR = f"deployment/{RELEASE}"
INSTALL_TIMEOUT_S = 180
PREPARE_TIMEOUT_S = 600.0
DELETE_TIMEOUT_S = 120.0


def connect(chosen: settings.Settings) -> cluster.Connection:
    """Start a cluster of our own, or use the reader's.

    Raises:
        DemoFailedError: It does not start, or the namespace in the reader's cluster is in use.
    """
    if chosen.foreign is None:
        nodes = 2 if chosen.executors else 1
        return cluster.start_own(chosen.image_archives, chosen.logs / "commands.log", nodes=nodes)
    connection = cluster.use_foreign(chosen.foreign)
    kube = connection.kubectl(chosen.namespace)
    if kube.call("get", "namespace", chosen.namespace, "--ignore-not-found", "--output", "name"):
        raise failure.DemoFailedError(
            f"The namespace {chosen.namespace} exists already, and the demo removes its namespace at the end; "
            "name another one with --namespace."
        )
    return connection


def install_operator(connection: cluster.Connection, chosen: settings.Settings) -> bool:
    """Install the chart and wait until the operator is ready.

    Returns:
        False if the reader's cluster has the operator already; that one is used and left alone.
    """
    kube = connection.kubectl(OPERATOR_NAMESPACE)
    if kube.call("get", OPERATOR, "--ignore-not-found", "--output", "name"):
        return False
    configure_operator(connection, chosen, {})
    return True


def configure_operator(connection: cluster.Connection, chosen: settings.Settings, values: Mapping[str, object]) -> None:
    """Install the chart, or bring it to other values, and wait until the operator that has them is ready.

    Args:
        connection: The cluster.
        chosen: The image.
        values: Of the chart, by their path with dots; all others are as the chart has them.
    """
    repository, _, tag = chosen.operator_image.rpartition(":")
    image: dict[str, object] = {"image.repository": repository, "image.tag": tag, "image.pullPolicy": "IfNotPresent"}
    # The store of these tests may be on the node's own machine.
    image["jobs.storage.endpoints"] = [connection.s3_pod_endpoint]
    image["clusterWide"] = True
    sets = [
        part for name, value in {**image, **values}.items() for part in ("--set-json", f"{name}={json.dumps(value)}")
    ]
    install = ["upgrade", "--install", RELEASE, str(CHART), "--create-namespace", "--wait"]
    _helm(connection, chosen, [*install, "--timeout", f"{INSTALL_TIMEOUT_S}s", *sets])


def uninstall_operator(connection: cluster.Connection, chosen: settings.Settings) -> None:
    """Remove what `install_operator` installed; the CRDs stay, as Helm leaves them."""
    _helm(connection, chosen, ["uninstall", RELEASE, "--wait"])


def upload_input(connection: cluster.Connection, chosen: settings.Settings) -> str:
    """Put the flights on S3 and return what was put there, in words."""
    prepare = [sys.executable, str(resources.EXAMPLE / "prepare.py"), connection.uri(resources.INPUT)]
    credentials = {
        "AWS_ACCESS_KEY_ID": connection.access_key,
        "AWS_SECRET_ACCESS_KEY": connection.secret_key,
        "AWS_REGION": connection.region,
    }
    command = [*prepare, "--endpoint", connection.s3_endpoint]
    log = chosen.logs / "commands.log"
    return process.run(command, timeout_s=PREPARE_TIMEOUT_S, env=credentials, log=log).strip()


def apply_job(connection: cluster.Connection, chosen: settings.Settings) -> None:
    """Apply namespace, secret and job."""
    connection.kubectl(chosen.namespace).apply(resources.fill_in(resources.load(), connection, chosen))


def take_down(connection: cluster.Connection | None, chosen: settings.Settings, *, operator_is_ours: bool) -> None:
    """Leave nothing running and nothing stored: our own cluster as a whole, in the reader's what the demo put there.

    The CRDs stay in the reader's cluster, as Helm leaves them: deleting them would delete every job of that cluster.
    """
    if chosen.foreign is None:
        cluster.stop_own(chosen.logs / "commands.log")
        return
    if connection is None:
        return
    kube = connection.kubectl(chosen.namespace)
    kube.delete(resources.RESOURCE, DELETE_TIMEOUT_S)
    kube.delete(f"namespace/{chosen.namespace}", DELETE_TIMEOUT_S)
    if operator_is_ours:
        uninstall_operator(connection, chosen)
    store = connection.open_store()
    store.delete_many([found.key for found in store.list("")])


def how_to_look(connection: cluster.Connection, chosen: settings.Settings) -> str:
    """Say how to look around in what was left running, and how to stop it."""
    kube = connection.kubectl(chosen.namespace)
    stop = cluster.stop_command() if chosen.foreign is None else kube.shown("delete", f"namespace/{chosen.namespace}")
    return "\n".join(
        (
            "Look:  " + kube.shown("get", "statefulsparkjobs,pods"),
            "       " + kube.shown("describe", resources.RESOURCE),
            f"State: {connection.uri(resources.STATE)} on {connection.s3_endpoint}",
            f"Stop:  {stop}",
        )
    )


def _helm(connection: cluster.Connection, chosen: settings.Settings, arguments: Sequence[str]) -> None:
    helm = [str(cluster.HELM), "--kubeconfig", str(connection.kubeconfig), "--namespace", OPERATOR_NAMESPACE]
    process.run([*helm, *arguments], timeout_s=INSTALL_TIMEOUT_S + 30, log=chosen.logs / "commands.log")
