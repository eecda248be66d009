"""The operator's chart as tests use it: rendered by the Helm of the build tools, and the objects that come out."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import cast

import pytest
import yaml
from apiserver import ROOT, ApiServer
from statefulspark_operator.cluster.resources import Resource

HELM = ROOT / "build" / "bin" / "helm"
CHART = ROOT / "charts" / "statefulspark-operator"


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm and return how it ended."""
    if not HELM.exists():
        pytest.fail(f"{HELM} is missing; run `make build/bin/helm` first.", pytrace=False)
    return subprocess.run([str(HELM), *arguments], capture_output=True, text=True, timeout=60, check=False)


def render(*values: str) -> list[Resource]:
    """Render the chart with values as `--set` takes them, for all namespaces unless they name some; return its objects."""
    is_named = any(value.startswith("watchNamespaces=") for value in values)
    sets = [part for value in (*values, f"clusterWide={str(not is_named).lower()}") for part in ("--set", value)]
    done = helm("template", "statefulspark-operator", str(CHART), "--namespace", "default", *sets)
    assert done.returncode == 0, done.stderr
    return [cast("Resource", document) for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(objects: list[Resource], kind: str) -> list[Resource]:
    """Return the objects of a kind."""
    return [found for found in objects if found["kind"] == kind]


def bind(server: ApiServer, namespace: str, *values: str) -> None:
    """Give the account `<namespace>` in the namespace `default` the chart's rights in a namespace."""
    objects = render(f"watchNamespaces={{{namespace}}}", f"fullnameOverride={namespace}", *values)
    server.apply(*(found for kind in ("ServiceAccount", "Role", "RoleBinding") for found in of_kind(objects, kind)))


def log_in(server: ApiServer, account: str, folder: Path) -> Path:
    """Return a kubeconfig of a service account in the namespace `default`."""
    token = server.call("-n", "default", "create", "token", account).strip()
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    target = folder / "kubeconfig"
    target.write_text(yaml.safe_dump(config))
    return target
