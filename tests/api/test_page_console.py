"""The commands of the documentation that speak to a cluster, run as they stand there against a real API server.

It is a server of its own, since pages name namespaces. Nothing runs pods in it; the operator is played, and says of each
spec at once that it is so.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apiserver
import processes
import pytest
import yaml
from apiserver import ROOT, ApiServer
from certificates import issue
from fakecontrol import TOKEN, FakeControl, a_summary, served
from helmchart import HELM
from kubectlworld import HISTORY, OLD_REVISION, OLD_SPEC, SPEC, a_recorded_driver, a_stored_status, revision
from pagecode import blocks
from pageconsole import Console
from statefulspark.contract import config
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

pytestmark = pytest.mark.api

NAMESPACES = ("demo", "shop", "flights", "statefulspark")
MONITORS = ("ServiceMonitor", "PodMonitor", "PrometheusRule")
OLDEST_SPEC: Resource = {**OLD_SPEC, "image": "registry.example/flights:0"}
_LOOKS_EVERY_S = 0.2
_PLACE_AND_NAME = r'jsonpath={.metadata.namespace} {.metadata.name}{"\n"}'
_PLACES = r'jsonpath={range .items[*]}{.metadata.namespace}{"\n"}{end}'


class PlayedOperator:
    """Watches all jobs, and says of every job that it is as its spec asks, as often as that changes."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self._server = server
        self._watch = server.watch(folder / "watch.log", "ssj", "--all-namespaces", "-o", _PLACE_AND_NAME)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._watch.stop()

    def _run(self) -> None:
        seen = 0
        while not self._ended.wait(_LOOKS_EVERY_S):
            assert self._watch.runs, self._watch.tail
            whole_lines, _, _ = self._watch.output.rpartition("\n")
            lines = whole_lines.splitlines()
            for place, name in {tuple(line.split()) for line in lines[seen:]}:
                self._look_at(place, name)
            seen = len(lines)

    def _look_at(self, place: str, name: str) -> None:
        found = self._server.call("-n", place, "get", f"ssj/{name}", "--ignore-not-found", "-o", "json")
        job: Resource = json.loads(found or "{}")  # It may have been deleted meanwhile.
        generation, observed = ("metadata", "generation"), ("status", "observedGeneration")
        if resources.number(job, *generation) != resources.number(job, *observed):
            self._say(job)

    def _say(self, job: Resource) -> None:
        spec = resources.section(job, "spec")
        runs = revision({field: spec[field] for field in SPEC})
        status = a_stored_status(
            observed_generation=resources.number(job, "metadata", "generation"),
            phase=Phase.SUSPENDED if spec.get("suspend") else Phase.RUNNING,
            revision=runs,
            driver=a_recorded_driver(revision=runs),
            history=(*HISTORY, HISTORY[-1].model_copy(update={"revision": revision(OLDEST_SPEC)})),
        )
        place, name = (resources.text(job, "metadata", field) for field in ("namespace", "name"))
        status_patch = json.dumps({"status": json.loads(status.to_json())})
        # It may fail: a job that was deleted meanwhile needs no status.
        self._server.kubectl(
            "-n", place, "patch", f"ssj/{name}", "--subresource=status", "--type=merge", "-p", status_patch
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with apiserver.running(tmp_path_factory.mktemp("pages")) as server:
        for namespace in NAMESPACES:
            server.call("create", "namespace", namespace)
        server.apply(*(_crd_of_prometheus(kind) for kind in MONITORS))
        yield server


def _crd_of_prometheus(kind: str) -> Resource:
    group, plural = "monitoring.coreos.com", f"{kind.lower()}s"
    anything: Resource = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: Resource = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    spec: Resource = {
        "group": group,
        "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
        "scope": "Namespaced",
        "versions": [version],
    }
    meta: Resource = {"name": f"{plural}.{group}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": spec,
    }


@pytest.fixture
def desk(server: ApiServer, tmp_path: Path) -> Iterator[Console]:
    """A person's shell with kubectl, the plugin and Helm, in a folder with the repository's charts and examples."""
    programs = tmp_path / "bin"
    programs.mkdir()
    processes.write_program(programs / "kubectl", apiserver.CLUSTER, "kubectl")
    processes.write_program(programs / "helm", HELM)
    for name in ("charts", "examples", "crds"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    yield Console(tmp_path, {"PATH": path, "KUBECONFIG": str(server.kubeconfig)})
    for kinds in ("ssj,ssp", "pods,secrets,configmaps,roles,rolebindings,controllerrevisions"):
        left_in = server.call("get", kinds, "--all-namespaces", "-o", _PLACES).split()
        for namespace in {"default", *NAMESPACES}.intersection(left_in):
            server.call("-n", namespace, "delete", kinds, "--all", "--force", "--grace-period=0")


@pytest.fixture
def operator(server: ApiServer, tmp_path: Path) -> Iterator[PlayedOperator]:
    played = PlayedOperator(server, tmp_path)
    yield played
    played.stop()


@pytest.fixture
def chart(desk: Console) -> Iterator[Console]:
    """The desk; the chart is uninstalled at the end, without the check, because no kubelet runs its pod."""
    yield desk
    desk.script("helm uninstall statefulspark --namespace statefulspark --ignore-not-found --no-hooks")


def manifest_of(kind: str, namespace: str, name: str, api_version: str = "v1", **content: object) -> Resource:
    meta: Resource = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **content}  # type: ignore[dict-item]


def manifest_of_job(namespace: str, name: str, spec: Resource = SPEC) -> Resource:
    return manifest_of(resources.JOB.name, namespace, name, resources.JOB.api_version, spec=spec)


def spec_of(server: ApiServer, namespace: str, name: str) -> Resource:
    return resources.section(server.get(namespace, f"ssj/{name}"), "spec")


def test_the_page_of_a_job_is_shown(server: ApiServer, desk: Console, operator: PlayedOperator) -> None:
    server.apply(manifest_of_job("demo", "flights"))
    _until_observed(server, "demo", "flights")

    assert "State:       Running" in desk.run("docs/kubectl.md", 1)
    assert "Queries:     as of" in desk.run("docs/kubectl.md", 2)


def test_savepoints_are_listed_and_waited_for(server: ApiServer, desk: Console) -> None:
    wished: Resource = {"jobName": "flights"}
    server.apply(
        manifest_of(resources.SAVEPOINT.name, "demo", "before-the-move", resources.SAVEPOINT.api_version, spec=wished)
    )
    complete: Resource = {
        "type": "Complete",
        "status": "True",
        "reason": "Completed",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    server.patch_status("demo", "ssp/before-the-move", {"phase": "Completed", "conditions": [complete]})

    shown = desk.run("docs/savepoints.md", 1)

    assert "before-the-move" in shown
    assert "condition met" in shown


@pytest.mark.parametrize(
    ("page", "number", "field", "value"),
    [
        ("docs/upgrading.md", 1, "upgrade", {"rollbackPolicy": "Automatic"}),
        ("examples/flights/README.md", 5, "driver", {"standby": True}),
        ("examples/flights/README.md", 6, "job", {"file": "/opt/job/flights_broken.py"}),
        ("examples/flights/README.md", 7, "job", {"file": "/opt/job/flights_v2.py"}),
    ],
)
def test_a_job_of_flights_is_changed(
    server: ApiServer, desk: Console, page: str, number: int, field: str, value: Resource
) -> None:
    namespace = "demo" if page.startswith("docs/") else "flights"
    server.apply(manifest_of_job(namespace, "flights"))

    assert "patched" in desk.run(page, number)
    assert resources.section(spec_of(server, namespace, "flights"), field) == value


@pytest.mark.parametrize(
    ("page", "number", "field", "value"),
    [
        ("docs/howto/poison-records.md", 3, "restore", {"source": {"checkpointID": 41}, "nonce": "bad-row-1"}),
        ("docs/howto/rename-a-uid.md", 1, "restore", {"dropState": ["customer-totals"]}),
        ("docs/howto/rename-a-uid.md", 4, "restore", {"dropState": ["customer-totals"]}),
        ("docs/howto/rescale.md", 1, "executor", {"instances": 4, "cores": 2, "heap": "2Gi"}),
        ("docs/howto/rescale.md", 4, "sparkConf", {"spark.sql.shuffle.partitions": "8"}),
        ("docs/howto/rescale.md", 7, "restore", {"source": {"uri": "s3://bucket/converted/orders"}}),
        (
            "docs/howto/roll-back.md",
            2,
            "restore",
            {"source": {"savepointName": "orders-upgrade-43"}, "nonce": "back-1"},
        ),
        ("docs/howto/upgrade.md", 2, "image", "registry.example/orders:2"),
    ],
)
def test_a_job_of_orders_is_changed(
    server: ApiServer, desk: Console, page: str, number: int, field: str, value: object
) -> None:
    server.apply(manifest_of_job("shop", "orders", {**SPEC, "suspend": True}))

    assert "patched" in desk.run(page, number)
    assert spec_of(server, "shop", "orders")[field] == value


def test_executors_are_scaled_and_given_up(server: ApiServer, desk: Console) -> None:
    server.apply(manifest_of_job("shop", "orders", {**SPEC, "suspend": True, "executor": {"instances": 2}}))

    assert "scaled" in desk.run("docs/howto/rescale.md", 3)
    assert spec_of(server, "shop", "orders")["executor"] == {"instances": 4}
    assert "patched" in desk.run("docs/howto/rescale.md", 2)
    assert "executor" not in spec_of(server, "shop", "orders")


@pytest.mark.parametrize(
    ("page", "number"),
    [("docs/howto/restore-elsewhere.md", 2), ("docs/howto/rename-a-uid.md", 2), ("docs/howto/rescale.md", 5)],
)
def test_a_job_is_suspended_and_its_savepoint_looked_up(
    server: ApiServer, desk: Console, operator: PlayedOperator, page: str, number: int
) -> None:
    server.apply(manifest_of_job("shop", "orders"))
    _until_observed(server, "shop", "orders")

    assert "Suspended" in desk.run(page, number)
    assert spec_of(server, "shop", "orders")["suspend"] is True


def test_a_job_is_rolled_back_to_the_version_before_and_to_one_of_the_history(
    server: ApiServer, desk: Console, operator: PlayedOperator
) -> None:
    server.apply(manifest_of_job("shop", "orders"))
    for number, spec in ((1, OLDEST_SPEC), (2, OLD_SPEC)):
        content: Resource = {"revision": number, "data": {"spec": spec}}
        server.apply(manifest_of("ControllerRevision", "shop", f"orders-{revision(spec)}", "apps/v1", **content))
    _until_observed(server, "shop", "orders")

    shown = desk.run("docs/howto/roll-back.md", 1, {"0a1b2c3d4e": revision(OLDEST_SPEC)})

    assert OLD_REVISION in shown
    assert spec_of(server, "shop", "orders")["image"] == OLDEST_SPEC["image"]


def test_why_a_job_is_as_it_is_and_what_its_last_driver_has_written(
    server: ApiServer, desk: Console, operator: PlayedOperator
) -> None:
    server.apply(manifest_of_job("shop", "orders"))
    labels: Resource = {"statefulspark.io/job": "orders", "statefulspark.io/role": "driver"}
    for epoch in (6, 7):
        pod = manifest_of(
            "Pod", "shop", f"orders-driver-{epoch}", spec={"containers": [{"name": "driver", "image": "i:1"}]}
        )
        resources.section(pod, "metadata")["labels"] = {**labels, "statefulspark.io/epoch": str(epoch)}
        server.apply(pod)
    server.patch_status("shop", "pod/orders-driver-6", {"phase": "Failed"})
    _until_observed(server, "shop", "orders")

    assert "orders" in desk.run("docs/trouble/index.md", 1)
    assert "orders" in desk.run("docs/howto/poison-records.md", 1)
    assert "shop/orders" in desk.run("docs/howto/upgrade.md", 3)


@pytest.mark.parametrize(
    ("page", "number"), [("docs/howto/minio.md", 1), ("docs/howto/ceph.md", 1), ("docs/howto/gcs.md", 2)]
)
def test_the_keys_of_storage_become_a_secret(server: ApiServer, desk: Console, page: str, number: int) -> None:
    desk.run(page, number)

    assert set(resources.section(server.get("shop", "secret/orders-s3"), "data")) == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    }


def test_a_driver_gets_an_account_for_its_executors(server: ApiServer, desk: Console) -> None:
    desk.run("docs/howto/aws.md", 3)

    may = ("auth", "can-i", "create", "pods", "--as=system:serviceaccount:shop:orders", "-n", "shop")
    assert server.call(*may).strip() == "yes"


def test_code_in_a_config_map_is_made_and_changed(server: ApiServer, desk: Console, operator: PlayedOperator) -> None:
    server.apply(manifest_of_job("shop", "orders"))
    (desk.folder / "orders.py").write_text("# first\n")
    desk.run("docs/howto/run-without-an-image.md", 1)
    (desk.folder / "orders.py").write_text("# second\n")

    desk.run("docs/howto/run-without-an-image.md", 2)

    assert resources.text(server.get("shop", "configmap/orders-code"), "data", "orders.py") == "# second\n"


def test_the_checksum_of_a_zip_is_what_the_spec_takes(desk: Console) -> None:
    (desk.folder / "orders-3.zip").write_bytes(b"test")

    printed = desk.run("docs/howto/run-without-an-image.md", 3)

    assert printed.split() == ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "orders-3.zip"]


def test_the_chart_is_installed_looked_at_and_upgraded(server: ApiServer, chart: Console) -> None:
    chart.run("docs/howto/install.md", 2)
    chart.run("docs/howto/install.md", 3)
    chart.run("docs/howto/install.md", 5)
    chart.run("docs/howto/monitor.md", 1)
    chart.run("docs/howto/aws.md", 2)

    images = server.call("-n", "statefulspark", "get", "deployments", "-o", "jsonpath={..image}")
    assert images == "registry.example/statefulspark-operator:0.2"
    for kind in MONITORS:
        assert server.names("statefulspark", kind) != [], kind
    accounts = server.call("-n", "statefulspark", "get", "serviceaccounts", "-o", "yaml")
    assert "eks.amazonaws.com/role-arn: arn:aws:iam::123456789012:role/statefulspark-operator\n" in accounts


def test_the_readme_installs_the_chart_and_shows_a_job(
    server: ApiServer, chart: Console, operator: PlayedOperator
) -> None:
    shown = chart.run("README.md", 3)

    assert "flights/flights" in shown
    assert "condition" not in shown


def test_the_flights_are_applied_watched_and_killed(server: ApiServer, desk: Console) -> None:
    labels: Resource = {"statefulspark.io/job": "flights"}
    pod = manifest_of("Pod", "flights", "flights-driver-1", spec={"containers": [{"name": "driver", "image": "i:1"}]})
    resources.section(pod, "metadata")["labels"] = labels
    server.apply(pod)

    assert "flights" in desk.run("examples/flights/README.md", 3)
    assert "deleted" in desk.run("examples/flights/README.md", 4)
    assert server.names("flights", "pods") == []


def test_the_plugin_explains_itself_and_jobs_are_deleted(server: ApiServer, desk: Console) -> None:
    server.apply(manifest_of_job("shop", "orders"), manifest_of_job("demo", "flights"))

    assert "rollback" in desk.run("docs/howto/install.md", 4)
    desk.run("docs/howto/install.md", 6)

    assert server.call("get", "ssj", "--all-namespaces", "-o", "name") == ""


def test_a_job_without_an_operator_is_freed(server: ApiServer, desk: Console) -> None:
    job = manifest_of_job("shop", "orders")
    resources.section(job, "metadata")["finalizers"] = ["statefulspark.io/take-savepoint"]
    server.apply(job)
    meta: Resource = {"name": "nightly", "namespace": "shop", "finalizers": ["statefulspark.io/delete-files"]}
    kind, version = resources.SAVEPOINT.name, resources.SAVEPOINT.api_version
    server.apply({"apiVersion": version, "kind": kind, "metadata": meta, "spec": {"jobName": "orders"}})
    server.call("-n", "shop", "delete", "ssj/orders", "ssp/nightly", "--wait=false")

    desk.run("docs/howto/install.md", 7)

    assert server.names("shop", "ssj") == server.names("shop", "ssp") == []


def test_the_job_of_the_tutorial_is_applied(server: ApiServer, desk: Console) -> None:
    desk.script("statefulspark init my-job && cp my-job/job.yaml .")

    assert "my-job" in desk.run("docs/tutorial.md", 9)


@contextmanager
def driver_over_tls(server: ApiServer, desk: Console, control: FakeControl) -> Iterator[str]:
    """Serve a driver's API over TLS, with its Secrets in the cluster; yields the address."""
    issued = issue(desk.folder / "issued", name="words-driver.default.svc")
    authority, token = (base64.b64encode(value).decode() for value in (issued.authority.read_bytes(), TOKEN.encode()))
    server.apply(manifest_of("Secret", "default", "words-tls", data={"ca.crt": authority}))
    server.apply(manifest_of("Secret", "default", "words-token", data={"token": token}))
    with served(control, tls=issued.tls) as url:
        yield url


def test_a_driver_is_asked_over_tls(server: ApiServer, desk: Console) -> None:
    with driver_over_tls(server, desk, FakeControl()) as url:
        console = Console(desk.folder, {**desk.environment, config.ENV_TOKEN: TOKEN})

        assert "words" in console.run("docs/howto/secure.md", 3, {"https://127.0.0.1:8090": url})


def test_the_token_of_a_job_is_rotated(server: ApiServer, desk: Console) -> None:
    encoded = base64.b64encode(TOKEN.encode()).decode()
    server.apply(manifest_of("Secret", "default", "words-token", data={"token": encoded}))

    desk.run("docs/howto/secure.md", 1)
    rotated = server.get("default", "secret/words-token")
    desk.run("docs/howto/secure.md", 2)

    new = base64.b64decode(resources.text(rotated, "data", "token")).decode()
    assert (len(new), resources.text(rotated, "data", "previous")) == (64, encoded)
    assert resources.section(server.get("default", "secret/words-token"), "data").keys() == {"token"}


def test_the_authority_of_drivers_is_given_to_prometheus(server: ApiServer, desk: Console) -> None:
    with driver_over_tls(server, desk, FakeControl()):
        desk.run("docs/howto/monitor.md", 2)

    stored = resources.text(server.get("statefulspark", "secret/internal-ca"), "data", "ca.crt")
    assert base64.b64decode(stored).startswith(b"-----BEGIN CERTIFICATE-----")


def test_the_api_is_called_with_the_token_of_the_secret(server: ApiServer, desk: Console) -> None:
    control = FakeControl()
    control.completes_with = a_summary(kind=SnapshotKind.SAVEPOINT, number=43)
    encoded = base64.b64encode(TOKEN.encode()).decode()
    server.apply(manifest_of("Secret", "default", "words-token", data={"token": encoded}))

    assert desk.run("docs/page.md", 1) == TOKEN
    with served(control) as url:
        address = {"localhost:8090": url.removeprefix("http://")}
        answers = _documents(desk.run("docs/api.md", 1, address))
        console = Console(desk.folder, {**desk.environment, "TOKEN": TOKEN})
        status, activation = _documents(console.run("docs/api.md", 2, address))

    assert [answer["requestId"] for answer in answers] == ["nightly-1", "nightly-1"]
    assert answers[-1]["snapshot"]["id"] == 43
    assert status["job"] == "words"
    assert activation["kind"] == "Activation"


def _documents(printed: str) -> list[Resource]:
    """Return what a driver has answered, one document after the other."""
    return cast("list[Resource]", json.loads(f"[{printed.replace('}{', '},{')}]"))


@pytest.mark.parametrize("page", ["docs/savepoints.md", "docs/howto/restore-elsewhere.md"])
def test_a_manifest_of_a_page_is_taken_by_the_api_server(server: ApiServer, page: str) -> None:
    """What is only a part of a manifest is looked up in the schema by tests/architecture/test_documentation.py."""
    documents = [
        document
        for block in blocks(page, language="yaml")
        for document in yaml.safe_load_all(block)
        if str(document.get("apiVersion", "")).startswith("statefulspark.io/")
    ]

    assert documents
    for document in documents:
        server.call("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(document))


def _until_observed(server: ApiServer, namespace: str, name: str) -> None:
    server.call("-n", namespace, "wait", f"ssj/{name}", "--for=jsonpath={.status.phase}", "--timeout=30s")
