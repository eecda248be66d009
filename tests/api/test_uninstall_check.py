"""What the chart runs before it is uninstalled, with its arguments and the rights of its account."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from apiserver import ApiServer
from helmchart import bind, log_in, of_kind, render
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

pytestmark = pytest.mark.api

SPEC: Resource = {"image": "i:1", "job": {"file": "/j.py"}, "storage": {"uri": "s3://state/jobs"}}


def check(kubeconfig: Path, namespace: str) -> subprocess.CompletedProcess[str]:
    """Run the container of the chart's hook as a process."""
    (hook,) = of_kind(render(f"watchNamespaces={{{namespace}}}"), "Job")
    assert resources.text(hook, "metadata", "annotations", "helm.sh/hook") == "pre-delete"
    (container,) = resources.items(hook, "spec", "template", "spec", "containers")
    arguments = container["args"]
    assert isinstance(arguments, list)
    command = [sys.executable, "-m", "statefulspark_operator.cli", *map(str, arguments)]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_it_names_the_jobs_and_savepoints_that_only_an_operator_can_end(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    bind(api_server, namespace)
    kubeconfig = log_in(api_server, namespace, tmp_path)
    assert check(kubeconfig, namespace).returncode == 0
    for kind, name, spec in ((resources.JOB, "flights", SPEC), (resources.SAVEPOINT, "mine", {"jobName": "flights"})):
        meta: Resource = {"name": name, "namespace": namespace}
        api_server.apply({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec})

    done = check(kubeconfig, namespace)

    assert done.returncode == 1
    assert done.stdout.split("\n")[:2] == [f"StatefulSparkJob {namespace}/flights", f"SparkSavepoint {namespace}/mine"]
    assert "--no-hooks" in done.stderr


def test_without_its_rights_it_fails_and_says_how_to_uninstall_all_the_same(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    """Its Role may have gone with the namespace."""
    bind(api_server, namespace)
    kubeconfig = log_in(api_server, namespace, tmp_path)
    api_server.call("-n", namespace, "delete", "role,rolebinding", "--all")

    done = check(kubeconfig, namespace)

    assert done.returncode == 1
    assert namespace in done.stderr
    assert "--no-hooks" in done.stderr
