"""The whole operator as a process, with the chart's rights, against a real API server and a real S3 server.

Only the driver is played: nothing runs pods here.
"""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

import pytest
import yaml
from apiserver import ApiServer
from operatorscene import Operator, Scene, as_operator, serving
from s3server import S3Server
from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.contract import layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.storage import open_store
from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

pytestmark = [pytest.mark.api, pytest.mark.s3]


NOBODY = "http://127.0.0.1:9"
"""A server that does not answer."""


@pytest.fixture(scope="module")
def operator(
    api_server: ApiServer, s3: S3Server, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("operator")
    tests = sum(item.path == request.path for item in request.session.items)
    namespaces = tuple(f"operator-{number}" for number in range(1, tests + 1))
    for namespace in namespaces:
        api_server.call("create", "namespace", namespace)
    kubeconfig = as_operator(api_server, namespaces, folder)
    process = Operator(kubeconfig, namespaces, folder, endpoints=(s3.endpoint, NOBODY))
    process.start()
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture
def scene(api_server: ApiServer, operator: Operator, s3: S3Server) -> Iterator[Scene]:
    with serving() as port:
        yield Scene(api_server, next(operator.unused), operator, s3, port)


def test_a_job_lives_through_a_loss_an_upgrade_with_an_operator_killed_and_its_deletion(scene: Scene) -> None:
    scene.apply()
    scene.play_driver(1)
    scene.until_phase("Running")

    # The driver is gone without a word.
    scene.port.driver = None
    scene.server.call("-n", scene.namespace, "delete", "pod", "flights-driver-1", "--grace-period=0", "--force")
    scene.play_driver(2)
    scene.until("running again", lambda: scene.status().get("epoch") == 2 and scene.status()["phase"] == "Running")

    # The spec changes, and the operator dies in the middle.
    scene.apply(image="registry.example/flights:2")
    old = scene.port.driver
    assert old is not None
    scene.until("stop requested", lambda: len(old.stop_requests) == 1)
    scene.operator.kill()
    scene.operator.start()
    new = scene.play_driver(3)
    scene.until("upgrade done", lambda: resources.text(scene.status(), "upgrade", "state") == "FirstCheckpoint")

    assert len(old.stop_requests) == 1
    savepoint = resources.text(scene.status(), "upgrade", "savepoint")
    assert new.config.restore.snapshot == savepoint
    assert savepoint.startswith(scene.store.uri)
    assert resources.text(scene.status(), "restoredFrom") == savepoint
    # Not SavepointRequested: the operator may have died between the request and its event.
    told = {"DriverStarting", "SavepointCompleted", "UpgradeCompleted"}
    scene.until("events of the upgrade", lambda: told <= set(scene.events()))
    # The API server marks a pod as being deleted before it removes it, and the operator sees that, with its container still
    # running or ended, or not.
    assert {"DriverGone", "DriverDrained", "DriverDeleted"} & set(scene.events())
    assert 'statefulspark_job_ready{job_name="flights",job_namespace="' in scene.operator.metrics()

    # It is deleted; what it owned goes, the state stays.
    scene.server.call("-n", scene.namespace, "delete", "ssj", "flights", "--timeout=60s")
    assert scene.server.names(scene.namespace, "ssj") == []
    assert scene.store.list("savepoints") != ()


def test_a_standby_becomes_the_driver_by_its_labels_with_the_charts_rights(scene: Scene) -> None:
    scene.apply(upgrade={"strategy": "Warm"})
    old = scene.play_driver(1)
    scene.until_phase("Running")
    with serving() as port:
        scene.apply(image="registry.example/flights:2")
        standby = scene.play_standby(1, port)

        scene.until("first checkpoint", lambda: resources.text(scene.status(), "upgrade", "state") == "FirstCheckpoint")

        pod = scene.server.get(scene.namespace, "pod/flights-standby-1")
        labels = resources.section(pod, "metadata", "labels")
        assert (labels[names.LABEL_ROLE], labels[names.LABEL_EPOCH]) == ("driver", "2")
        assert labels[names.LABEL_JOB] == "flights"
        savepoint = resources.text(scene.status(), "upgrade", "savepoint")
        assert len(old.stop_requests) == 1
        scene.until("event of the request", lambda: "SavepointRequested" in scene.events())
        assert {request.epoch for request in standby.activations} == {2}
        assert standby.config.restore.snapshot == savepoint
        assert "flights-driver-2" not in scene.server.names(scene.namespace, "pods")
        assert resources.number(scene.status(), "driver", "epoch") == 2


def condition(scene: Scene, kind: str) -> tuple[str, str]:
    told: resources.Resource = {"status": "", "reason": "nothing is told yet"}
    found = next((one for one in resources.items(scene.status(), "conditions") if one["type"] == kind), told)
    return resources.text(found, "status"), resources.text(found, "reason")


def test_a_job_whose_batch_does_not_end_is_not_ready_and_then_restarted(scene: Scene) -> None:
    scene.apply(health={"unavailableAfter": "2s", "restartAfter": "1h"})
    driver = scene.play_driver(1)
    scene.until_phase("Running")
    scene.until("progress", lambda: condition(scene, "Available") == ("True", "InputProcessed"))

    driver.batch_since = datetime.now(UTC)
    scene.until("no progress", lambda: condition(scene, "Available") == ("False", "BatchRunning"))
    assert condition(scene, "Ready") == ("False", "BatchRunning")
    assert "flights-driver-1" in scene.server.names(scene.namespace, "pods")
    scene.apply(health={"unavailableAfter": "2s", "restartAfter": "3s"})

    scene.until("the next driver", lambda: "flights-driver-2" in scene.server.names(scene.namespace, "pods"))
    assert resources.text(scene.status(), "restarts", "lastReason") == "BatchRunning"


def savepoint_object(scene: Scene, name: str, **spec: object) -> Resource:
    """A savepoint object as a user writes it."""
    meta: Resource = {"name": name, "namespace": scene.namespace}
    wanted: Resource = {"jobName": "flights", **spec}  # type: ignore[dict-item]
    return {
        "apiVersion": resources.SAVEPOINT.api_version,
        "kind": resources.SAVEPOINT.name,
        "metadata": meta,
        "spec": wanted,
    }


def test_savepoint_objects_are_taken_shown_and_disposed_of_with_the_charts_rights(scene: Scene) -> None:
    scene.apply()
    scene.play_driver(1)
    scene.until_phase("Running")

    scene.server.apply(savepoint_object(scene, "before-the-move", deletionPolicy="Delete"))
    scene.server.call("-n", scene.namespace, "wait", "ssp/before-the-move", "--for=condition=Complete")
    status = resources.section(scene.server.get(scene.namespace, "ssp/before-the-move"), "status")
    location = resources.text(status, "location")
    folder = location.removeprefix(scene.store.uri).strip("/")
    table = scene.server.call("-n", scene.namespace, "get", "ssp").splitlines()
    assert folder.endswith("-before-the-move")
    assert table[0].split() == ["NAME", "JOB", "PHASE", "ORIGIN", "COMPLETED", "SIZE", "LOCATION"]
    assert table[1].split()[:4] == ["before-the-move", "flights", "Completed", "Manual"]

    # What it stands for is fixed, and what becomes of its files is not.
    patch = ("-n", scene.namespace, "patch", "ssp", "before-the-move", "--type=merge", "-p")
    refused = scene.server.kubectl(*patch, '{"spec":{"jobName":"other"}}')
    assert "only deletionPolicy and storage can be changed" in refused.stderr
    scene.server.call(*patch, '{"spec":{"deletionPolicy":"Delete"}}')

    # A second object names the same folder: the files go with the last one.
    scene.server.apply(savepoint_object(scene, "adopted", deletionPolicy="Delete", source={"uri": location}))
    scene.server.call("-n", scene.namespace, "wait", "ssp/adopted", "--for=condition=Complete")
    scene.server.call("-n", scene.namespace, "delete", "ssp", "before-the-move", "--timeout=60s")
    assert scene.store.list(folder) != ()
    scene.server.call("-n", scene.namespace, "delete", "ssj", "flights", "--timeout=60s")
    scene.server.call("-n", scene.namespace, "delete", "ssp", "adopted", "--timeout=60s")
    assert scene.store.list(folder) == ()


def test_the_operator_prunes_its_own_savepoints_with_their_files_and_nobody_elses(scene: Scene) -> None:
    scene.apply(savepoint={"retention": {"count": 1, "maxSize": "500Gi"}})
    scene.play_driver(1)
    scene.until_phase("Running")
    scene.server.apply(savepoint_object(scene, "mine"))
    scene.server.call("-n", scene.namespace, "wait", "ssp/mine", "--for=condition=Complete")

    for epoch in (2, 3):
        scene.apply(suspend=True)
        scene.until_phase("Suspended")
        scene.apply(suspend=False)
        scene.play_driver(epoch)
        scene.until_phase("Running")

    scene.until("pruned", lambda: scene.events()["SavepointPruned"] > 0)
    scene.until("one of mine and one of a stop", lambda: len(scene.server.names(scene.namespace, "ssp")) == 2)
    stop, mine = sorted(scene.server.names(scene.namespace, "ssp"))
    assert (mine, stop.startswith("flights-stop-")) == ("mine", True)
    folders = {info.key.split("/")[1] for info in scene.store.list("savepoints")}
    assert len(folders) == 2
    assert any(folder.endswith("-mine") for folder in folders)
    size_bytes = resources.find(scene.server.get(scene.namespace, f"ssp/{stop}"), "status", "sizeBytes")
    assert scene.status()["savepoints"] == {"count": 1, "sizeBytes": size_bytes}


def test_a_job_that_is_made_again_adopts_the_state_of_the_deleted_one_and_of_no_other(scene: Scene) -> None:
    storage = resources.section(scene.spec, "storage")
    scene.apply()
    scene.play_driver(1)
    scene.until_phase("Running")
    before = epochs.read_owner(scene.store)
    scene.server.call("-n", scene.namespace, "delete", "ssj", "flights", "--timeout=60s")

    # Without the word it is refused, and the refusal says the word.
    scene.apply()
    with pytest.raises(errors.SpecRejectedError, match=r"Set storage\.ownership to AdoptOrphaned"):
        scene.play_driver(2)
    scene.server.call("-n", scene.namespace, "delete", "ssj", "flights", "--timeout=60s")
    scene.apply(storage={**storage, "ownership": "AdoptOrphaned"})
    scene.play_driver(2)
    scene.until_phase("Running")

    after = epochs.read_owner(scene.store)
    cluster = json.loads(scene.server.call("get", "namespace", "kube-system", "-o", "json"))["metadata"]["uid"]
    assert (before.cluster_id, after.cluster_id) == (cluster, cluster)
    assert after.owner_id == scene.server.get(scene.namespace, "ssj/flights")["metadata"]["uid"] != before.owner_id  # type: ignore[index,call-overload]

    # The state of a job that lives is not taken, whatever is in the folder.
    living = after.model_copy(update={"job": "trains", "owner_id": "uid-of-trains"})
    info = scene.store.info(layout.OWNER)
    assert info is not None
    scene.store.replace(layout.OWNER, living.to_json().encode(), etag=info.etag)
    scene.server.call("-n", scene.namespace, "delete", "pod", "flights-driver-2", "--grace-period=0", "--force")
    with pytest.raises(
        errors.SpecRejectedError, match="AdoptOrphaned does not take it: that resource has another name"
    ):
        scene.play_driver(3)


def test_a_job_that_cannot_be_loaded_stalls_and_is_not_started_again(scene: Scene) -> None:
    scene.apply()
    driver = scene.play_driver(1)
    driver.end(ExitCode.BAD_JOB, "/opt/job/flights.py raises NameError: name 'x' is not defined; correct the job file.")

    scene.until_phase("Stalled")
    time.sleep(3)

    assert scene.server.names(scene.namespace, "pods") == ["flights-driver-1"]
    assert "NameError" in resources.text(scene.status(), "message")


def test_unreachable_storage_is_named_and_nothing_is_started(scene: Scene) -> None:
    storage, connection = resources.section(scene.spec, "storage"), resources.section(scene.spec, "storage", "s3")
    scene.apply(storage={**storage, "s3": {**connection, "endpoint": NOBODY}})

    scene.until("a message", lambda: "127.0.0.1:9" in resources.text(scene.status(), "message"))

    assert scene.server.names(scene.namespace, "pods") == []


def test_a_missing_credentials_secret_is_named(scene: Scene) -> None:
    storage, connection = resources.section(scene.spec, "storage"), resources.section(scene.spec, "storage", "s3")
    scene.apply(storage={**storage, "s3": {**connection, "credentialsSecretRef": {"name": "absent"}}})

    scene.until("a message", lambda: "absent does not exist" in resources.text(scene.status(), "message"))


def test_a_pod_template_that_kubernetes_refuses_is_shown_with_its_reason(scene: Scene) -> None:
    template: Resource = {"spec": {"containers": [{"name": "driver", "ports": [{"name": "api", "containerPort": 0}]}]}}
    scene.apply(driver={"podTemplate": template})

    scene.until_phase("Stalled")

    assert "containerPort" in resources.text(scene.status(), "message")


LIMIT: Resource = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small"},
    "spec": {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]},
}


def a_policy(namespace: str) -> tuple[Resource, Resource]:
    """Return an admission policy that denies pods in a namespace, and its binding."""
    group, name = "admissionregistration.k8s.io/v1", f"no-pods-{namespace}"
    pods: Resource = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    rule: Resource = {"expression": "false", "message": "no pods here"}
    spec: Resource = {"matchConstraints": {"resourceRules": [pods]}, "validations": [rule]}
    here: Resource = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding: Resource = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    return (
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    )


def a_quota(namespace: str, hard: Mapping[str, str]) -> Resource:
    """Return a quota as the controller that counts leaves it when nothing is used."""
    none = dict.fromkeys(hard, "0")
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": namespace},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": none},
    }


FORBIDDING: Mapping[str, tuple[Callable[[str], tuple[Resource, ...]], str]] = {
    "LimitRangeExceeded": (
        lambda namespace: (LIMIT | {"metadata": {"name": "small", "namespace": namespace}},),
        "maximum memory usage",
    ),
    "AdmissionDenied": (a_policy, "no pods here"),
    "QuotaTooSmall": (lambda namespace: (a_quota(namespace, {"limits.memory": "64Mi"}),), "exceeded quota"),
    "QuotaDemandsLimits": (
        lambda namespace: (a_quota(namespace, {"limits.cpu": "4"}),),
        "must specify",
    ),
}


@pytest.mark.parametrize("reason", FORBIDDING)
def test_what_forbids_a_jobs_pods_stalls_it_until_it_is_gone(scene: Scene, reason: str) -> None:
    describe, refusal = FORBIDDING[reason]
    forbidding = describe(scene.namespace)
    scene.server.apply(*forbidding)
    for thing in forbidding:
        if "status" in thing:
            counted = json.dumps({"status": thing["status"]})
            named = ("quota", "small", "--subresource=status", "--type=merge", "-p", counted)
            scene.server.call("-n", scene.namespace, "patch", *named)
    bare = ("-n", scene.namespace, "run", "bare", "--image", "i:1", "--dry-run=server")
    container = {"name": "bare", "image": "i:1", "resources": {"limits": {"memory": "1Gi"}}}
    large = f"--overrides={json.dumps({'spec': {'containers': [container]}})}"
    scene.until("it forbids", lambda: refusal in scene.server.kubectl(*bare, large).stderr)
    scene.apply(driver={"resources": {"limits": {"memory": "2Gi"}}})

    scene.until("it is Stalled", lambda: condition(scene, "Stalled") == ("True", reason))

    assert condition(scene, "Reconciling")[0] == "False"
    assert scene.server.names(scene.namespace, "pods") == []
    scene.until("its event", lambda: scene.events()[reason] == 1)
    for thing in reversed(forbidding):
        scene.server.call(
            "-n", scene.namespace, "delete", str(thing["kind"]), resources.text(thing, "metadata", "name")
        )
    scene.play_driver(1)
    scene.until_phase("Running")
    assert condition(scene, "Stalled")[0] == "False"


def test_labels_of_a_template_reach_the_running_driver_and_nothing_else_of_it_changes(scene: Scene) -> None:
    scene.apply(podTemplate={"metadata": {"labels": {"team": "data", "tier": "gold"}, "annotations": {"note": "x"}}})
    scene.play_driver(1)
    scene.until_phase("Running")
    before = scene.server.get(scene.namespace, "pod/flights-driver-1")
    scene.server.call("-n", scene.namespace, "label", "pod/flights-driver-1", "mesh=on", "tier=theirs", "--overwrite")

    scene.apply(podTemplate={"metadata": {"labels": {"team": "ml"}}})
    scene.until("the label", lambda: pod_metadata_of(scene, "labels").get("team") == "ml")

    after = scene.server.get(scene.namespace, "pod/flights-driver-1")
    labels, notes = (resources.section(before, "metadata", field) for field in ("labels", "annotations"))
    others = {name: value for name, value in notes.items() if name != "note"}
    assert pod_metadata_of(scene, "labels") == {**labels, "team": "ml", "mesh": "on", "tier": "theirs"}
    assert pod_metadata_of(scene, "annotations") == {**others, names.ANNOTATION_TEMPLATE: '{"labels":{"team":"ml"}}'}
    assert (after["spec"], scene.status()["epoch"]) == (before["spec"], 1)
    assert resources.text(after, "metadata", "uid") == resources.text(before, "metadata", "uid")


def pod_metadata_of(scene: Scene, field: str) -> Resource:
    return resources.section(scene.server.get(scene.namespace, "pod/flights-driver-1"), "metadata", field)


FOREIGN = ("ServiceAccount", "Role", "RoleBinding", "Service")


def a_foreign_object(kind: str, namespace: str) -> Resource:
    """Return an object of somebody else with the name that the operator would give its own."""
    group = "v1" if kind in ("Service", "ServiceAccount") else "rbac.authorization.k8s.io/v1"
    theirs: dict[str, Resource] = {
        "Service": {"spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}}},
        "RoleBinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "theirs"}},
    }
    meta: Resource = {"name": "flights-driver", "namespace": namespace}
    return {"apiVersion": group, "kind": kind, "metadata": meta, **theirs.get(kind, {})}


def test_objects_of_somebody_else_are_named_and_left_as_they_are(scene: Scene) -> None:
    scene.server.apply(*(a_foreign_object(kind, scene.namespace) for kind in FOREIGN))
    before = {kind: scene.server.get(scene.namespace, f"{kind}/flights-driver") for kind in FOREIGN}
    scene.apply(executor={"instances": 2})

    for kind in FOREIGN:
        in_the_way = f"{kind} flights-driver exists and does not belong to this job"
        # Each attempt says first that it resumes the start, and then, again, what is in its way.
        scene.until(in_the_way, lambda words=in_the_way: words in resources.text(scene.status(), "message"))
        scene.until("the reason", lambda: condition(scene, "Ready") == ("False", "NameTaken"))
        assert scene.server.get(scene.namespace, f"{kind}/flights-driver") == before[kind]
        assert scene.server.names(scene.namespace, "pods") == []
        scene.server.call("-n", scene.namespace, "delete", kind, "flights-driver")
        # Its retries come later and later; an event of the job has it look at once.
        scene.server.call("-n", scene.namespace, "annotate", "--overwrite", "ssj/flights", f"gone={kind}")

    scene.play_driver(1)
    scene.until_phase("Running")
    account = scene.server.get(scene.namespace, "serviceaccount/flights-driver")
    assert resources.items(account, "metadata", "ownerReferences")[0]["kind"] == "StatefulSparkJob"


def test_server_side_apply_and_diff_are_quiet_while_a_job_runs(scene: Scene) -> None:
    scene.apply_credentials()
    written = yaml.safe_dump(scene.job)
    by = ("--server-side", "--field-manager=gitops", "-f", "-")
    scene.server.call("apply", *by, stdin=written)
    scene.play_driver(1)
    scene.until_phase("Running")

    def version() -> str:
        return resources.text(scene.server.get(scene.namespace, "ssj/flights"), "metadata", "resourceVersion")

    before = version()
    tried = json.loads(scene.server.call("apply", *by, "--dry-run=server", "-o", "json", stdin=written))
    differing = scene.server.kubectl("diff", *by, stdin=written)

    assert (differing.returncode, differing.stdout) == (0, "")
    assert resources.text(tried, "metadata", "resourceVersion") in {before, version()}
    assert scene.server.kubectl("diff", "-f", "-", stdin=written).returncode == 0


def test_an_executor_job_gets_an_account_and_rights_of_its_own(scene: Scene) -> None:
    scene.apply(executor={"instances": 2})

    scene.until("pod", lambda: "flights-driver-1" in scene.server.names(scene.namespace, "pods"))

    pod = scene.server.get(scene.namespace, "pod/flights-driver-1")
    assert resources.text(pod, "spec", "serviceAccountName") == "flights-driver"
    may = ("-n", scene.namespace, "auth", "can-i", "--as", f"system:serviceaccount:{scene.namespace}:flights-driver")
    assert scene.server.kubectl(*may, "create", "pods").stdout.strip() == "yes"
    assert scene.server.kubectl(*may, "get", "secrets").stdout.strip() == "no"


def apply_executors(scene: Scene, driver: str, epoch: int) -> list[str]:
    """Create two executors as Spark does: from the driver's template, owned by its pod."""
    document = scene.server.get(scene.namespace, f"configmap/{names.config('flights', epoch)}")
    template = json.loads(resources.text(document, "data", "executor.json"))
    owner: Resource = {
        "apiVersion": "v1",
        "kind": "Pod",
        "controller": True,
        "name": driver,
        "uid": resources.text(scene.server.get(scene.namespace, f"pod/{driver}"), "metadata", "uid"),
    }
    made = [f"{driver}-exec-{number}" for number in (1, 2)]
    for name in made:
        meta = {**template["metadata"], "name": name, "namespace": scene.namespace, "ownerReferences": [owner]}
        (container,) = template["spec"]["containers"]
        spec = {**template["spec"], "restartPolicy": "Never", "containers": [{**container, "image": "i:1"}]}
        scene.server.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    return made


def test_executors_of_a_dead_epoch_go_before_its_successor_comes_and_pass_restricted_pod_security(scene: Scene) -> None:
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    scene.server.call("label", "namespace", scene.namespace, restricted)
    bare = scene.server.kubectl("-n", scene.namespace, "run", "bare", "--image", "i:1")
    assert "violates PodSecurity" in bare.stderr
    scene.apply(executor={"instances": 2})
    scene.play_driver(1)
    scene.until_phase("Running")
    made = apply_executors(scene, "flights-driver-1", 1)
    scene.until("asked", lambda: resources.number(scene.status(), "executors", "desired") == 2)
    assert resources.number(scene.status(), "executors", "running") == 0

    # The driver is lost with its node: its pod stays, so that Kubernetes removes nothing that it owns.
    scene.port.driver = None
    lost = {"status": {"phase": "Failed", "reason": "NodeLost", "message": "the node is gone"}}
    patch = ("patch", "pod", "flights-driver-1", "--subresource=status", "--type=merge", "-p", json.dumps(lost))
    scene.server.call("-n", scene.namespace, *patch)

    scene.until("the next driver", lambda: "flights-driver-2" in scene.server.names(scene.namespace, "pods"))
    pods = scene.server.names(scene.namespace, "pods")
    assert "flights-driver-1" in pods
    assert not set(made) & set(pods)
    secret = scene.server.get(scene.namespace, "secret/flights-network")
    assert set(resources.section(secret, "data")) == {"secret", "executor"}


def code_map(scene: Scene, text: str) -> Resource:
    """A ConfigMap with the job's code as a user writes it."""
    meta: Resource = {"name": "code", "namespace": scene.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"flights.py": text}}


def mounted_code(scene: Scene, pod: str) -> Resource:
    """Return the ConfigMap that a pod has mounted as its code."""
    volumes = resources.items(scene.server.get(scene.namespace, f"pod/{pod}"), "spec", "volumes")
    name = next(resources.text(found, "configMap", "name") for found in volumes if found["name"] == "job-code")
    return scene.server.get(scene.namespace, f"configmap/{name}")


def test_an_edited_config_map_is_an_upgrade_with_the_charts_rights(scene: Scene) -> None:
    scene.server.apply(code_map(scene, "first"))
    scene.apply(job={"source": {"configMap": {"name": "code", "key": "flights.py"}}})
    old = scene.play_driver(1)
    scene.until_phase("Running")

    scene.server.apply(code_map(scene, "second"))
    new = scene.play_driver(2)
    scene.until("first checkpoint", lambda: resources.text(scene.status(), "upgrade", "state") == "FirstCheckpoint")

    assert len(old.stop_requests) == 1
    assert new.config.restore.snapshot == resources.text(scene.status(), "upgrade", "savepoint")
    kept = mounted_code(scene, "flights-driver-2")
    assert (kept["immutable"], resources.config_map_files(kept)) == (True, {"flights.py": b"second"})
    revision = resources.text(scene.status(), "revision")
    (owner,) = resources.items(kept, "metadata", "ownerReferences")
    assert (owner["kind"], owner["name"]) == ("ControllerRevision", f"flights-{revision}")
    scene.server.call("-n", scene.namespace, "delete", "configmap", "code")
    scene.until("it is missing", lambda: condition(scene, "Ready") == ("False", "CodeMissing"))
    assert scene.status()["phase"] == "Running"


def test_an_edited_config_map_is_seen_at_once_by_its_watch(scene: Scene) -> None:
    """Without the watch it would be read every half minute; the job runs and is asked for its status meanwhile."""
    scene.server.apply(code_map(scene, "first"))
    scene.apply(job={"source": {"configMap": {"name": "code", "key": "flights.py"}}})
    scene.play_driver(1)
    scene.until_phase("Running")
    took_s = []

    for number in range(3):
        edited = f"edit {number}"
        scene.server.apply(code_map(scene, edited))
        begun_s = time.monotonic()
        checksum = hashlib.sha256(edited.encode()).hexdigest()
        scene.until("it is seen", lambda checksum=checksum: scene.status().get("code") == checksum)
        took_s.append(time.monotonic() - begun_s)

    assert max(took_s) < 10, f"without a watch, all three would be as quick as that once in 27 runs: {took_s}"


def test_an_object_is_kept_on_storage_before_it_runs_and_another_content_is_refused(scene: Scene, s3: S3Server) -> None:
    body = b"import statefulspark\n"
    checksum, bucket = hashlib.sha256(body).hexdigest(), s3.new_bucket("code")
    open_store(f"s3://{bucket}", s3.options()).write("flights.py", body)
    source = {"uri": f"s3://{bucket}/flights.py"}
    scene.apply(job={"source": {"s3": {**source, "sha256": "ab" * 32}}})
    scene.until("it is refused", lambda: condition(scene, "Ready") == ("False", "CodeChecksumMismatch"))
    assert scene.server.names(scene.namespace, "pods") == []

    scene.apply(job={"source": {"s3": {**source, "sha256": checksum}}})
    scene.play_driver(1)
    scene.until_phase("Running")

    assert scene.store.read(f"code/{checksum}/flights.py") == body
    (fetching,) = resources.items(scene.server.get(scene.namespace, "pod/flights-driver-1"), "spec", "initContainers")
    arguments = fetching["args"]
    assert isinstance(arguments, list)
    assert arguments[2] == f"{scene.store.uri}/code/{checksum}/flights.py"


def test_the_operator_ends_in_order_on_sigterm(operator: Operator) -> None:
    assert operator.stop(signal.SIGTERM) == 0
    operator.start()
