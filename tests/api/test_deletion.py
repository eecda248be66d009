"""Namespace, chart, rights, job, savepoint, CRDs and bucket go away in any order: what ends, what stays, what is said.

A job and a SparkSavepoint are deleted after something that they need is gone. What stays in deletion says why, and ends
with what the documentation names (`docs/howto/install.md`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from apiserver import CRDS, ApiServer, running
from operatorscene import Operator, Scene, as_operator, serving
from s3server import S3Server
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

pytestmark = [pytest.mark.api, pytest.mark.s3]

HOME = "limited"
RIGHTS = "operator-statefulspark-operator"
NOTHING = '[{"op": "remove", "path": "/metadata/finalizers"}]'
JOB, SAVEPOINT = "ssj/flights", "ssp/mine"


@dataclass(frozen=True, slots=True)
class Stage:
    """A job with a complete savepoint, and what it needs.

    Attributes:
        scene: The job.
        s3: Has its bucket.
        namespaces: What the operator looks after.
        folder: For files of the test.
    """

    scene: Scene
    s3: S3Server
    namespaces: tuple[str, ...]
    folder: Path

    @property
    def server(self) -> ApiServer:
        return self.scene.server

    def kubectl(self, *arguments: str) -> str:
        return self.server.call("-n", self.scene.namespace, *arguments)

    def set_up(self, policy: str) -> None:
        """Bring the job and its savepoint there."""
        self.scene.apply(deletionPolicy=policy)
        self.scene.play_driver(1)
        self.scene.until_phase("Running")
        self.scene.until("checkpoint", lambda: resources.find(self.scene.status(), "lastCheckpoint") is not None)
        meta: Resource = {"name": "mine", "namespace": self.scene.namespace}
        spec: Resource = {"jobName": "flights", "deletionPolicy": "Delete"}
        kind = resources.SAVEPOINT
        self.server.apply({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec})
        self.kubectl("wait", SAVEPOINT, "--for=condition=Complete", "--timeout=60s")

    def present(self) -> frozenset[str]:
        """Return which of the two exist."""
        lookups = {what: self.server.kubectl("-n", self.scene.namespace, "get", what) for what in (JOB, SAVEPOINT)}
        return frozenset(what for what, looked_up in lookups.items() if looked_up.returncode == 0)

    def said(self) -> str:
        """Return what the two, the events of the namespace, and the operator's log say of it."""
        kinds = "statefulsparkjobs,sparksavepoints"
        shown = self.kubectl("get", kinds, "-o", "jsonpath={.items[*].status.message}")
        events = self.kubectl("get", "events", "-o", "jsonpath={range .items[*]}{.reason}: {.message}{'\\n'}{end}")
        lines = self.scene.operator.log.read_text().splitlines()
        return "\n".join((shown, events, *(line for line in lines if f"{self.scene.namespace}/" in line)))

    # What goes away

    def lose_rights(self) -> None:
        self.kubectl("delete", f"rolebinding/{RIGHTS}", f"role/{RIGHTS}")

    def lose_chart(self) -> None:
        self.scene.operator.kill()
        self.lose_rights()

    def lose_bucket(self) -> None:
        self.s3.delete_bucket(self.scene.store.uri.split("/")[2])

    # What ends a wait

    def give_rights(self) -> None:
        as_operator(self.server, self.namespaces, self.folder, home=HOME)

    def install_again(self) -> None:
        self.give_rights()
        self.scene.operator.start()

    def remove_finalizers(self) -> None:
        for what in self.present():
            self.kubectl("patch", what, "--type=json", "-p", NOTHING)

    def retain(self) -> None:
        for what in self.present():
            self.kubectl("patch", what, "--type=merge", "-p", '{"spec":{"deletionPolicy":"Retain"}}')


@dataclass(frozen=True, slots=True)
class Order:
    """Something goes away, and then the job and the savepoint are deleted.

    Attributes:
        loses: What goes away.
        policy: The job's deletionPolicy; that of the savepoint is Delete.
        stay: Which of the two stay in deletion.
        ends: What ends that.
        says: A pattern of what says why one stays, or what has become of the state.
        leaves: Whether the state of the job is on storage afterwards; None if the bucket is gone.
        stops_with: Whether the job has a last savepoint afterwards.
    """

    loses: Callable[[Stage], None]
    policy: str
    stay: frozenset[str]
    ends: Callable[[Stage], None]
    says: str = ""
    leaves: bool | None = True
    stops_with: bool = False


BOTH, ONE = frozenset({JOB, SAVEPOINT}), frozenset({SAVEPOINT})
FORBIDDEN = r"(no permission|is forbidden)"
ORDERS = {
    "chart, Retain": Order(Stage.lose_chart, "Retain", ONE, Stage.install_again),
    "chart, Savepoint": Order(Stage.lose_chart, "Savepoint", BOTH, Stage.install_again, stops_with=True),
    "chart, Delete": Order(Stage.lose_chart, "Delete", BOTH, Stage.install_again, leaves=False),
    "chart, Savepoint, by hand": Order(Stage.lose_chart, "Savepoint", BOTH, Stage.remove_finalizers),
    "chart, Delete, by hand": Order(Stage.lose_chart, "Delete", BOTH, Stage.remove_finalizers),
    "rights, Retain": Order(Stage.lose_rights, "Retain", ONE, Stage.give_rights, FORBIDDEN),
    "rights, Savepoint": Order(Stage.lose_rights, "Savepoint", BOTH, Stage.give_rights, FORBIDDEN, stops_with=True),
    "rights, Delete": Order(Stage.lose_rights, "Delete", BOTH, Stage.give_rights, FORBIDDEN, leaves=False),
    "bucket, Retain": Order(
        Stage.lose_bucket, "Retain", ONE, Stage.retain, "without them, set deletionPolicy to Retain", leaves=None
    ),
    "bucket, Savepoint": Order(
        Stage.lose_bucket, "Savepoint", BOTH, Stage.retain, "without one, set deletionPolicy to Retain", leaves=None
    ),
    "bucket, Delete": Order(
        Stage.lose_bucket, "Delete", ONE, Stage.retain, "StateKept: .*bucket .* does not exist", leaves=None
    ),
}


@pytest.fixture(scope="module")
def operator(api_server: ApiServer, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator that looks after one namespace for each order, and has its rights there."""
    folder = tmp_path_factory.mktemp("operator")
    for name in (HOME, *NAMESPACES):
        api_server.kubectl("create", "namespace", name)
    process = Operator(
        as_operator(api_server, NAMESPACES, folder, home=HOME), NAMESPACES, folder, endpoints=(s3.endpoint,)
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()


NAMESPACES = tuple(f"order-{number}" for number, _ in enumerate(ORDERS))


@pytest.fixture
def acting(operator: Operator) -> Iterator[Operator]:
    """The operator, which runs again afterwards, whatever a test has done to it."""
    yield operator
    if not operator.runs:
        operator.start()


@pytest.mark.parametrize("name", ORDERS)
def test_a_deletion_ends_and_says_what_it_waits_for(
    api_server: ApiServer, acting: Operator, s3: S3Server, tmp_path: Path, name: str
) -> None:
    order, namespace = ORDERS[name], NAMESPACES[list(ORDERS).index(name)]
    with serving() as port:
        stage = Stage(Scene(api_server, namespace, acting, s3, port), s3, NAMESPACES, tmp_path)
        stage.set_up(order.policy)

        order.loses(stage)
        stage.kubectl("delete", JOB, SAVEPOINT, "--wait=false")
        stage.scene.until(f"{set(order.stay)} stay", lambda: stage.present() == order.stay)
        stage.scene.until(f"it says {order.says}", lambda: re.search(order.says, stage.said()) is not None)
        time.sleep(2)
        assert stage.present() == order.stay

        order.ends(stage)
        stage.scene.until("both are gone", lambda: not stage.present())
        if order.leaves is not None:
            assert bool(stage.scene.store.list("checkpoints")) is order.leaves
            folders = {info.key.split("/")[1] for info in stage.scene.store.list("savepoints")}
            assert any(folder.endswith("-upgrade") for folder in folders) is order.stops_with
            assert any(folder.endswith("-mine") for folder in folders) is (order.ends is Stage.remove_finalizers)


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
            Stage(scene, s3, (namespace,), tmp_path).set_up(policy)
            api_server.call(
                "-n", namespace, "patch", SAVEPOINT, "--type=merge", "-p", '{"spec":{"deletionPolicy":"Retain"}}'
            )
            api_server.call("delete", "namespace", namespace, "--wait=false")

            def is_let_go() -> bool:
                if policy == "Savepoint":  # Again and again: an operator that still has its rights holds it once more.
                    api_server.kubectl("-n", namespace, "patch", JOB, "--type=json", "-p", NOTHING)
                return api_server.kubectl("get", "namespace", namespace).returncode != 0

            scene.until("namespace gone", is_let_go)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def whole(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiServer, Operator]]:
    """A server of its own, whose CRDs may go, and an operator of all its namespaces."""
    folder = tmp_path_factory.mktemp("whole")
    with running(folder) as server:
        server.call("create", "namespace", HOME)
        process = Operator(as_operator(server, (), folder, home=HOME), (), folder, endpoints=(s3.endpoint,))
        process.start()
        try:
            yield server, process
        finally:
            process.kill()


@pytest.mark.parametrize("policy", ["Retain", "Savepoint", "Delete"])
def test_a_namespace_goes_by_itself_under_an_operator_of_the_whole_cluster(
    whole: tuple[ApiServer, Operator], s3: S3Server, tmp_path: Path, policy: str
) -> None:
    server, process = whole
    namespace = f"whole-{policy.lower()}"
    server.call("create", "namespace", namespace)
    with serving() as port:
        scene = Scene(server, namespace, process, s3, port)
        Stage(scene, s3, (), tmp_path).set_up(policy)

        server.call("delete", "namespace", namespace, "--wait=false")
        scene.until("namespace gone", lambda: server.kubectl("get", "namespace", namespace).returncode != 0)

        assert scene.store.list("checkpoints") or policy == "Delete"
    # Nobody can post an event in a namespace that is being deleted.
    told = server.call("-n", "default", "get", "events", "-o", "jsonpath={.items[*].message}")
    assert (f"jobs/{namespace}/flights" in told) is (policy == "Savepoint")


@pytest.mark.parametrize(
    ("policy", "restarts"), [("Retain", False), ("Savepoint", False), ("Delete", False), ("Retain", True)]
)
def test_crds_go_with_all_jobs_and_the_operator_goes_on_when_they_are_back(
    whole: tuple[ApiServer, Operator], s3: S3Server, tmp_path: Path, policy: str, restarts: bool
) -> None:
    server, process = whole
    namespace = f"crds-{policy.lower()}-{restarts}".lower()
    server.call("create", "namespace", namespace)
    with serving() as port:
        scene = Scene(server, namespace, process, s3, port)
        Stage(scene, s3, (), tmp_path).set_up(policy)

        server.call("delete", "-f", str(CRDS), "--timeout=60s")
        if restarts:
            process.kill()
            process.start()
            scene.until("it waits for its kinds", lambda: "kinds missing" in process.log.read_text())

        stops = [info.key for info in scene.store.list("savepoints") if "-upgrade/" in info.key]
        assert bool(stops) is (policy == "Savepoint")
        assert bool(scene.store.list("checkpoints")) is (policy != "Delete")
        server.call("apply", "--server-side", "-f", str(CRDS))
        server.call("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
        scene.server.kubectl("-n", namespace, "delete", "pods", "--all", "--grace-period=0", "--force")
        scene.apply(storage={**resources.section(scene.spec, "storage"), "ownership": "AdoptOrphaned"})

        scene.until("the next driver", lambda: bool(server.names(namespace, "pods")))
        assert process.runs
        server.call("-n", namespace, "patch", JOB, "--type=merge", "-p", '{"spec":{"deletionPolicy":"Retain"}}')
        server.call("-n", namespace, "delete", JOB, "--timeout=60s")
