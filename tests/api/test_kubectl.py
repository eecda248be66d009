"""`kubectl statefulspark` against a real API server, found and started by kubectl; the test plays operator and kubelet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import processes
import pytest
import yaml
from apiserver import CLUSTER, ApiServer
from kubectlworld import OLD_REVISION, OLD_SPEC, SAVEPOINT, SPEC, a_stored_status
from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

pytestmark = pytest.mark.api

WITHIN_S = 30.0


@dataclass(frozen=True)
class Desk:
    """A person with a kubeconfig, and kubectl with the plugin beside it.

    Attributes:
        server: The API server, as its administrator.
        namespace: Namespace of the job.
        folder: Has the plugin.
        kubeconfig: The person's.
    """

    server: ApiServer
    namespace: str
    folder: Path
    kubeconfig: Path

    @property
    def environment(self) -> dict[str, str]:
        """The person's environment, and where the sources are that the test imports."""
        sources = os.environ.get("PYTHONPATH", "")
        return {"PATH": f"{self.folder}:/usr/bin:/bin", "KUBECONFIG": str(self.kubeconfig), "PYTHONPATH": sources}

    def plugin(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(CLUSTER), "kubectl", "statefulspark", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def complete(self, *words: str) -> list[str]:
        """Return what kubectl offers for the last word, as its own completion asks it."""
        done = subprocess.run(
            [str(CLUSTER), "kubectl", "__complete", "statefulspark", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return [line.partition("\t")[0] for line in done.stdout.splitlines() if not line.startswith(":")]

    def apply(self, spec: Resource, status: StatefulSparkJobStatus) -> None:
        meta: Resource = {"name": "flights", "namespace": self.namespace}
        kind: Resource = {"apiVersion": resources.JOB.api_version, "kind": resources.JOB.name}
        self.server.apply({**kind, "metadata": meta, "spec": spec})
        self.say(status)

    def say(self, status: StatefulSparkJobStatus) -> None:
        self.server.patch_status(self.namespace, "ssj/flights", json.loads(status.to_json()))

    def answer_savepoint(self, status: Resource) -> threading.Thread:
        """Play the operator: as soon as a SparkSavepoint is there, write its status."""
        thread = threading.Thread(target=self._answer, args=(status,))
        thread.start()
        return thread

    def _answer(self, status: Resource) -> None:
        due = time.monotonic() + WITHIN_S
        while time.monotonic() < due:
            name = self.server.call("-n", self.namespace, "get", "ssp", "-o", "name").strip()
            if name:
                self.server.patch_status(self.namespace, name, status)
                return


@pytest.fixture
def desk(api_server: ApiServer, namespace: str, tmp_path: Path) -> Desk:
    plugin = ("-m", "statefulspark_operator.kubectl.main")
    processes.write_program(tmp_path / "kubectl-statefulspark", sys.executable, *plugin)
    completing = ("-m", "statefulspark_operator.kubectl.completion")
    processes.write_program(tmp_path / "kubectl_complete-statefulspark", sys.executable, *completing)
    return Desk(api_server, namespace, tmp_path, api_server.kubeconfig)


def as_reader(desk: Desk) -> Desk:
    """Return the desk of a person who may get and list jobs, and nothing else."""
    server, namespace = desk.server, desk.namespace
    server.call("-n", namespace, "create", "serviceaccount", "reader")
    rule = ("--verb=get,list", "--resource=statefulsparkjobs.statefulspark.io")
    server.call("-n", namespace, "create", "role", "reader", *rule)
    server.call(
        "-n", namespace, "create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader"
    )
    config = yaml.safe_load(server.kubeconfig.read_text())
    token = server.call("-n", namespace, "create", "token", "reader").strip()
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    kubeconfig = desk.folder / "reader"
    kubeconfig.write_text(yaml.safe_dump(config))
    return Desk(server, namespace, desk.folder, kubeconfig)


def a_first_generation() -> StatefulSparkJobStatus:
    return a_stored_status(observed_generation=1)


def test_kubectl_finds_the_plugin_and_it_shows_the_only_job_of_a_namespace(desk: Desk) -> None:
    desk.apply(SPEC, a_first_generation())

    shown = desk.plugin("status", "-n", desk.namespace, "-o", "json")

    assert shown.returncode == 0, shown.stderr
    report = json.loads(shown.stdout)
    assert (report["name"], report["ready"], report["lastCheckpoint"]["id"]) == ("flights", True, 51)


def test_a_savepoint_is_asked_for_and_waited_for(desk: Desk) -> None:
    desk.apply(SPEC, a_first_generation())

    operator = desk.answer_savepoint({"phase": "Completed", "location": SAVEPOINT})
    done = desk.plugin("savepoint", "create", "flights", "-n", desk.namespace, "--timeout", "30s", "-o", "json")
    operator.join()

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["snapshot"] == SAVEPOINT
    created = desk.server.call("-n", desk.namespace, "get", "ssp", "--show-managed-fields", "-o", "json")
    (asked,) = json.loads(created)["items"]
    assert asked["metadata"]["generateName"] == "flights-"
    assert "kubectl-statefulspark" in {entry["manager"] for entry in asked["metadata"]["managedFields"]}


def test_a_savepoint_that_was_requested_can_be_waited_for(desk: Desk) -> None:
    desk.apply(SPEC, a_first_generation())
    where = ("-n", desk.namespace)

    requested = desk.plugin("savepoint", "create", "flights", *where, "--name", "nightly", "--no-wait", "-o", "name")
    desk.server.patch_status(desk.namespace, "ssp/nightly", {"phase": "Completed", "location": SAVEPOINT})
    done = desk.plugin("savepoint", "wait", "nightly", *where, "--timeout", "30s")
    missing = desk.plugin("savepoint", "wait", "hourly", *where)

    assert (requested.returncode, requested.stdout) == (0, "sparksavepoint.statefulspark.io/nightly\n"), (
        requested.stderr
    )
    assert (done.returncode, done.stdout) == (0, f"Savepoint complete: {SAVEPOINT}\n"), done.stderr
    assert (missing.returncode, "'hourly'" in missing.stderr) == (15, True)


def test_kubectl_completes_commands_jobs_savepoints_and_revisions(desk: Desk) -> None:
    desk.apply(SPEC, a_first_generation())
    meta: Resource = {"name": "nightly", "namespace": desk.namespace}
    kind: Resource = {"apiVersion": resources.SAVEPOINT.api_version, "kind": resources.SAVEPOINT.name}
    desk.server.apply({**kind, "metadata": meta, "spec": {"jobName": "flights"}})
    where = ("-n", desk.namespace)

    assert desk.complete("sus") == ["suspend"]
    assert desk.complete("savepoint", "cr") == ["create"]
    assert desk.complete("status", *where, "fl") == ["flights"]
    assert desk.complete("status", *where, "x") == []
    assert desk.complete("savepoint", "wait", *where, "") == ["nightly"]
    assert desk.complete("savepoint", "create", "flights", *where, "--format", "c") == ["canonical"]
    assert OLD_REVISION in desk.complete("rollback", "flights", *where, "--to", "")


def test_without_an_api_server_nothing_is_completed_and_nothing_is_said(desk: Desk) -> None:
    nowhere = Desk(desk.server, desk.namespace, desk.folder, desk.folder / "none")

    assert nowhere.complete("status", "") == []


def test_a_rollback_writes_the_stored_spec_and_the_api_server_takes_it(desk: Desk) -> None:
    desk.apply({**SPEC, "sparkConf": {"spark.a": "1"}, "deletionPolicy": "Savepoint"}, a_first_generation())
    meta: Resource = {"name": f"flights-{OLD_REVISION}", "namespace": desk.namespace}
    stored: Resource = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta, "revision": 1}
    desk.server.apply({**stored, "data": {"spec": OLD_SPEC}})

    done = desk.plugin("rollback", "flights", "-n", desk.namespace, "--to", OLD_REVISION, "--no-wait")

    assert done.returncode == 0, done.stderr
    assert desk.server.get(desk.namespace, "ssj/flights")["spec"] == {**OLD_SPEC, "deletionPolicy": "Savepoint"}


def test_without_rights_a_page_says_what_is_missing_and_a_change_is_refused_with_the_right_to_grant(desk: Desk) -> None:
    desk.apply(SPEC, a_first_generation())
    reader = as_reader(desk)

    page = reader.plugin("status", "flights", "-n", desk.namespace)
    change = reader.plugin("suspend", "flights", "-n", desk.namespace)

    assert page.returncode == 0, page.stderr
    assert "create role statefulspark-user --verb=list --resource=pods" in page.stdout
    assert change.returncode == 2
    user = f"system:serviceaccount:{desk.namespace}:reader"
    assert change.stderr.startswith(
        f"error: {user} has no right to patch statefulsparkjobs in namespace {desk.namespace}."
    )
    assert "spec" in desk.server.get(desk.namespace, "ssj/flights")
    assert "suspend" not in resources.section(desk.server.get(desk.namespace, "ssj/flights"), "spec")


def test_a_job_that_is_not_there_lists_what_is(desk: Desk) -> None:
    desk.apply(SPEC, a_first_generation())

    missing = desk.plugin("why", "flihgts", "-n", desk.namespace)

    assert missing.returncode == 15
    assert missing.stderr.endswith(f"no job 'flihgts' in namespace {desk.namespace}; there are: flights.\n")


def test_the_log_of_a_pod_that_is_on_no_node_says_so(desk: Desk) -> None:
    desk.apply(SPEC, a_first_generation())
    labels: Resource = {
        "statefulspark.io/job": "flights",
        "statefulspark.io/role": "driver",
        "statefulspark.io/epoch": "7",
    }
    meta: Resource = {"name": "flights-driver-7", "namespace": desk.namespace, "labels": labels}
    spec: Resource = {"containers": [{"name": "driver", "image": "i:1"}]}
    desk.server.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    done = desk.plugin("logs", "flights", "-n", desk.namespace)

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "flights-driver-7: driver of epoch 7\nThe log is empty. To see what the driver waits for: kubectl statefulspark why "
        f"flights -n {desk.namespace}\n"
    )
