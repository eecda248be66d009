"""The CRD in a real API server: what it refuses and why, and what `kubectl get` shows."""

from __future__ import annotations

import copy
import json

import pytest
from apiserver import CRDS, ApiServer
from statefulspark.contract import engine
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

pytestmark = pytest.mark.api

REFERENCE: Resource = {"name": "s", "key": "k"}


def a_resource(namespace: str, name: str = "flights", **spec: object) -> Resource:
    """A valid job, with some fields of its spec changed."""
    base: Resource = {
        "image": "registry.example/flights:1",
        "job": {"file": "/opt/job/flights.py"},
        "storage": {"uri": "s3://state/jobs", "s3": {"credentialsSecretRef": {"name": "s3"}}},
    }
    return {
        "apiVersion": "statefulspark.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": copy.deepcopy(base) | spec,  # type: ignore[operator]
    }


def refusal(api_server: ApiServer, job: Resource) -> str:
    """Return what the API server says when it refuses a job."""
    done = api_server.kubectl("create", "-f", "-", stdin=json.dumps(job))
    assert done.returncode != 0, "it was accepted"
    return done.stderr


def test_the_crd_is_small_enough_for_client_side_apply() -> None:
    assert sum(file.stat().st_size for file in CRDS.glob("*.yaml")) < 120_000


@pytest.mark.parametrize(
    "uri",
    [
        pytest.param("file:///var/state", id="a folder on the node"),
        pytest.param("/var/state", id="a path as for hostPath"),
        pytest.param("hdfs://namenode/state", id="another file system"),
        pytest.param("s3://", id="no bucket"),
        pytest.param("pvc://claim/state", id="a volume claim"),
    ],
)
def test_only_s3_is_accepted_for_state_and_the_refusal_says_why(
    api_server: ApiServer, namespace: str, uri: str
) -> None:
    said = refusal(api_server, a_resource(namespace, storage={"uri": uri}))

    assert "spec.storage.uri" in said
    if not uri.startswith("s3"):
        assert "cannot be restored on another node" in said


def test_the_location_of_the_state_cannot_be_changed(api_server: ApiServer, namespace: str) -> None:
    api_server.apply(a_resource(namespace))
    change = json.dumps({"spec": {"storage": {"uri": "s3://elsewhere"}}})

    done = api_server.kubectl("-n", namespace, "patch", "ssj", "flights", "--type=merge", "-p", change)

    assert done.returncode != 0
    assert "storage.uri cannot be changed" in done.stderr


@pytest.mark.parametrize("setting", [*engine.REFUSED_SETTINGS, *engine.FIELDS], ids=lambda setting: setting.key)
def test_a_setting_that_breaks_a_guarantee_is_refused_with_its_reason(
    api_server: ApiServer, namespace: str, setting: engine.RefusedSetting
) -> None:
    said = refusal(api_server, a_resource(namespace, sparkConf={setting.key: "x"}))

    assert f"{setting.key} cannot be set: {setting.reason}" in said


@pytest.mark.parametrize("prefix", engine.REFUSED_PREFIXES, ids=lambda prefix: prefix.key)
def test_settings_are_refused_by_prefix(api_server: ApiServer, namespace: str, prefix: engine.RefusedSetting) -> None:
    said = refusal(api_server, a_resource(namespace, sparkConf={f"{prefix.key}x": "x"}))

    assert prefix.reason in said


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        pytest.param({"checkpoint": {"interval": "soon"}}, "spec.checkpoint.interval", id="a duration without a unit"),
        pytest.param({"deletionPolicy": "Forget"}, "spec.deletionPolicy", id="an unknown deletion policy"),
        pytest.param(
            {"restore": {"source": {"uri": "file:///x"}}}, "spec.restore.source.uri", id="a restore from a local folder"
        ),
        pytest.param(
            {"restore": {"source": {}}}, "exactly one of the members savepointName", id="a restore from nowhere"
        ),
        pytest.param(
            {"restore": {"source": {"checkpointID": 41, "empty": {}}}}, "exactly one of the members", id="two sources"
        ),
        pytest.param({"restore": {"repeatOutputOf": ["table"]}}, "repeatOutputOf[0]", id="a sink without its query"),
        pytest.param({"restore": {"repeatOutputOf": ["Orders/table"]}}, "repeatOutputOf[0]", id="no uid of a query"),
        pytest.param(
            {"restore": {"repeatOutputOf": ["a/b", "a/b"]}}, "repeatOutputOf[1]", id="a sink that is named twice"
        ),
        pytest.param(
            {"restore": {"repeatOutputOf": [f"a/{number}" for number in range(501)]}},
            "restore.repeatOutputOf",
            id="too many sinks",
        ),
        pytest.param({"restore": {"source": {"checkpointID": 0}}}, "source.checkpointID", id="a checkpoint 0"),
        pytest.param({"restore": {"source": {"savepointName": "A_b"}}}, "source.savepointName", id="no name"),
        pytest.param({"restore": {"claimMode": "Mine"}}, '"NoClaim", "Claim"', id="an unknown claim mode"),
        pytest.param({"checkpoint": {"maxConcurrent": 0}}, "spec.checkpoint.maxConcurrent", id="no checkpoint at all"),
        pytest.param(
            {"checkpoint": {"retention": {"maxAge": "1w"}}}, "spec.checkpoint.retention.maxAge", id="an age in weeks"
        ),
        pytest.param({"savepoint": {"retention": {"maxSize": "1Tb"}}}, "maxSize must be", id="a size in no unit"),
        pytest.param({"savepoint": {"retention": {"maxSize": 0}}}, "maxSize must be", id="no size at all"),
        pytest.param(
            {
                "driver": {
                    "env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
                }
            },
            "a variable has a value or a valueFrom, not both",
            id="a variable with two values",
        ),
        pytest.param(
            {"executor": {"instances": 1, "env": [{"name": "A", "valueFrom": {}}]}},
            "valueFrom has exactly one",
            id="a variable from nowhere",
        ),
        pytest.param({"driver": {"envFrom": [{"prefix": "A_"}]}}, "either secretRef or configMapRef", id="no source"),
        pytest.param({"driver": {"env": [{"name": "A"}, {"name": "A"}]}}, "Duplicate value", id="one variable twice"),
        pytest.param({"savepoint": {"location": "/x"}}, "savepoint.location must be", id="savepoints on the node"),
        pytest.param({"executor": {"instances": 0}}, "spec.executor.instances", id="no executor"),
        pytest.param({"executor": {"cores": 2}}, "spec.executor.instances", id="executors, not how many"),
        pytest.param(
            {"driver": {"cores": 2}, "executor": {"instances": 1}}, "remove driver.cores", id="tasks in the driver, too"
        ),
        pytest.param(
            {"driver": {"heap": "1g"}},
            "1g is Spark's notation; Kubernetes writes it as 1Gi",
            id="a heap as Spark has it",
        ),
        pytest.param({"executor": {"instances": 1, "heap": "512m"}}, "Kubernetes writes it as 512Mi", id="half a byte"),
        pytest.param({"driver": {"heap": "2GB"}}, "2GB is no heap", id="a heap that is no quantity"),
        pytest.param({"driver": {"heap": "256Mi"}}, "450Mi at least", id="a heap with which Spark does not start"),
        pytest.param(
            {"driver": {"heap": "2Gi", "resources": {"limits": {"memory": "2048Mi"}}}},
            "the heap must be smaller than the memory limit",
            id="a heap as large as its container",
        ),
        pytest.param(
            {"driver": {"resources": {"limits": {"memory": "1Gi"}}}},
            "the heap must be smaller than the memory limit",
            id="a heap that is not named",
        ),
        pytest.param(
            {"executor": {"instances": 1, "resources": {"limits": {"memory": "1Gi"}}}},
            "the heap must be smaller than the memory limit",
            id="the heap of an executor that is not named",
        ),
        pytest.param(
            {"driver": {"resources": {"requests": {"memory": "2GB"}}}},
            "spec.driver.resources.requests.memory",
            id="resources that are no quantity",
        ),
        pytest.param(
            {"executor": {"instances": 1, "localDisk": {"size": "-1Gi"}}},
            "spec.executor.localDisk.size",
            id="a disk below zero",
        ),
        pytest.param(
            {"storage": {"uri": "s3://a/b", "s3": {"addressing": "Host"}}}, '"Path", "VirtualHost"', id="no addressing"
        ),
        pytest.param(
            {
                "storage": {
                    "uri": "s3://a/b",
                    "s3": {"endpoint": "http://s3", "caSecretRef": {"name": "ca", "key": "c"}},
                }
            },
            "caSecretRef is for an endpoint that begins with https://",
            id="an authority without TLS",
        ),
        pytest.param(
            {"storage": {"uri": "s3://a/b", "s3": {"caSecretRef": {"name": "ca"}}}},
            "spec.storage.s3.caSecretRef.key",
            id="an authority, not which key",
        ),
        pytest.param({"image": ""}, "spec.image", id="no image"),
        pytest.param(
            {"health": {"unavailableAfter": "1h"}},
            "unavailableAfter must be shorter than restartAfter",
            id="a restart of what is available",
        ),
        pytest.param({"upgrade": {"strategy": "Hot"}}, '"Warm", "Cold"', id="an unknown strategy"),
        pytest.param({"upgrade": {"mode": "Cold"}}, "spec.upgrade.mode", id="a field that does not exist"),
        pytest.param({"job": {}}, "job.file is needed", id="no file"),
        pytest.param(
            {"job": {"source": {"configMap": {"name": "a"}}}}, "says which of the files", id="files, not which"
        ),
        pytest.param({"job": {"source": {}, "file": "a.py"}}, "exactly one place of the code", id="code from nowhere"),
        pytest.param(
            {"job": {"source": {"configMap": {"name": "a", "key": "a.zip"}}}}, "put a zip at an s3", id="a zip as a key"
        ),
        pytest.param(
            {"job": {"source": {"s3": {"uri": "s3://a/b.zip", "sha256": "ab" * 32}}, "file": "../b.py"}},
            "job.file is a path inside the code",
            id="a file outside of the zip",
        ),
        pytest.param(
            {"job": {"source": {"s3": {"uri": "https://a/b.py", "sha256": "ab" * 32}}}},
            "job.source.s3.uri must be",
            id="https",
        ),
        pytest.param(
            {"job": {"source": {"s3": {"uri": "s3://a/b.py", "sha256": "abc"}}}},
            "spec.job.source.s3.sha256",
            id="no checksum",
        ),
        pytest.param(
            {"job": {"source": {"s3": {"uri": "s3://a/b.py"}}}}, "spec.job.source.s3.sha256", id="without one"
        ),
        pytest.param(
            {"upgrade": {"stableAfterCheckpoints": 0}},
            "spec.upgrade.stableAfterCheckpoints",
            id="stable before it has run",
        ),
    ],
)
def test_a_wrong_value_is_refused_where_it_stands(
    api_server: ApiServer, namespace: str, spec: dict[str, object], where: str
) -> None:
    assert where in refusal(api_server, a_resource(namespace, **spec))


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"source": {"configMap": {"name": "a", "key": "a.py"}}}, id="a key"),
        pytest.param({"source": {"configMap": {"name": "a", "sha256": "ab" * 32}}, "file": "a.py"}, id="all keys"),
        pytest.param({"source": {"s3": {"uri": "s3://code/b.py", "sha256": "ab" * 32}}}, id="a file on S3"),
        pytest.param(
            {"source": {"s3": {"uri": "s3://code/b.zip", "sha256": "ab" * 32}}, "file": "b/c.py"}, id="a zip on S3"
        ),
    ],
)
def test_code_outside_of_the_image_is_taken(api_server: ApiServer, namespace: str, job: Resource) -> None:
    api_server.apply(a_resource(namespace, job=job))

    assert resources.section(api_server.get(namespace, "ssj/flights"), "spec", "job") == job


@pytest.mark.parametrize("heap", ["1Gi", "1536Mi", "2G", 2147483648])
def test_a_heap_is_any_quantity(api_server: ApiServer, namespace: str, heap: str | int) -> None:
    driver: Resource = {"heap": heap, "resources": {"requests": {"cpu": 1}, "limits": {"memory": 4294967296}}}

    api_server.apply(a_resource(namespace, driver=driver))

    assert resources.section(api_server.get(namespace, "ssj/flights"), "spec", "driver") == driver


def test_empty_state_for_each_revision_is_taken(api_server: ApiServer, namespace: str) -> None:
    job = a_resource(namespace, upgrade={"stateFrom": "Empty"})

    api_server.apply(job)

    assert resources.text(api_server.get(namespace, "ssj/flights"), "spec", "upgrade", "stateFrom") == "Empty"


def test_an_age_in_days_was_refused(api_server: ApiServer, namespace: str) -> None:
    """The flag of the command took it."""
    api_server.apply(
        a_resource(namespace, checkpoint={"retention": {"maxAge": "7d"}, "interval": "1.5s", "minPause": "0"})
    )

    spec = api_server.get(namespace, "ssj/flights")["spec"]

    assert isinstance(spec, dict)
    assert spec["checkpoint"] == {"retention": {"maxAge": "7d"}, "interval": "1.5s", "minPause": "0"}


def test_two_appliers_keep_each_their_variables_and_pull_secrets(api_server: ApiServer, namespace: str) -> None:
    def apply(manager: str, name: str, manifest: Resource) -> None:
        env = [{"name": name, "value": manager}, {"name": f"{name}_KEY", "valueFrom": {"secretKeyRef": REFERENCE}}]
        spec = {"driver": {"env": env, "envFrom": [{"secretRef": {"name": "all"}}]}}
        spec |= {"imagePullSecrets": [{"name": name.lower()}], "executor": {"instances": 1, "env": env}}
        whole = manifest | {"spec": resources.section(manifest, "spec") | spec}
        arguments = ("apply", "--server-side", f"--field-manager={manager}", "-f", "-")
        api_server.call(*arguments, stdin=json.dumps(whole))

    job = a_resource(namespace)
    apply("team", "TEAM", job)
    apply("platform", "PLATFORM", {name: job[name] for name in ("apiVersion", "kind", "metadata")})
    apply("team", "TEAM", job)

    spec = StatefulSparkJobSpec.model_validate(api_server.get(namespace, "ssj/flights")["spec"])
    wanted = {"TEAM", "TEAM_KEY", "PLATFORM", "PLATFORM_KEY"}
    assert {variable.name for variable in spec.driver.env} == wanted
    assert {variable.name for variable in spec.executor.env} == wanted
    assert {secret.name for secret in spec.image_pull_secrets} == {"team", "platform"}


@pytest.mark.parametrize("name", ["a" * 46, "1flights", "flights.v1"])
def test_a_name_that_pods_and_services_cannot_have_is_refused(api_server: ApiServer, namespace: str, name: str) -> None:
    assert "the name" in refusal(api_server, a_resource(namespace, name=name))


def test_an_ordinary_setting_and_a_pod_template_are_kept_as_written(api_server: ApiServer, namespace: str) -> None:
    template = {"spec": {"nodeSelector": {"disk": "fast"}, "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["kafka"]}]}}
    api_server.apply(
        a_resource(namespace, sparkConf={"spark.sql.shuffle.partitions": "8"}, driver={"podTemplate": template})
    )

    spec = api_server.get(namespace, "ssj/flights")["spec"]

    assert isinstance(spec, dict)
    assert spec["sparkConf"] == {"spark.sql.shuffle.partitions": "8"}
    assert spec["driver"] == {"podTemplate": template}


def test_nothing_is_filled_in_that_the_user_did_not_write(api_server: ApiServer, namespace: str) -> None:
    job = a_resource(namespace)
    api_server.apply(job)

    assert api_server.get(namespace, "ssj/flights")["spec"] == job["spec"]


def scale_of(namespace: str) -> str:
    return f"/apis/statefulspark.io/v1alpha1/namespaces/{namespace}/statefulsparkjobs/flights/scale"


def test_kubectl_scale_changes_the_number_of_executors(api_server: ApiServer, namespace: str) -> None:
    api_server.apply(a_resource(namespace, executor={"instances": 2}))
    selector = "statefulspark.io/role=executor,statefulspark.io/driver=flights-driver-1"
    executors: Resource = {"driver": "flights-driver-1", "desired": 2, "running": 1, "selector": selector}
    api_server.patch_status(namespace, "ssj/flights", {"executors": executors})

    api_server.call("-n", namespace, "scale", "ssj/flights", "--replicas=4")

    scale = json.loads(api_server.call("get", "--raw", scale_of(namespace)))
    assert scale["spec"] == {"replicas": 4}
    assert scale["status"] == {"replicas": 1, "selector": selector}
    assert resources.number(api_server.get(namespace, "ssj/flights"), "spec", "executor", "instances") == 4


def test_an_autoscaler_gets_an_error_of_a_job_without_executors(api_server: ApiServer, namespace: str) -> None:
    """It reads /scale before it writes there."""
    api_server.apply(a_resource(namespace))

    done = api_server.kubectl("get", "--raw", scale_of(namespace))

    assert done.returncode != 0
    assert ".spec.executor.instances" in done.stderr


def test_a_person_who_scales_a_job_without_executors_gives_it_some(api_server: ApiServer, namespace: str) -> None:
    """The API server refuses to read /scale of such a job, and not to write there."""
    api_server.apply(a_resource(namespace))

    api_server.call("-n", namespace, "scale", "ssj/flights", "--replicas=2")

    assert resources.section(api_server.get(namespace, "ssj/flights"), "spec", "executor") == {"instances": 2}


@pytest.mark.parametrize(
    ("spec", "replicas", "why"),
    [
        pytest.param({"executor": {"instances": 2}}, 0, "spec.executor.instances", id="to no executor at all"),
        pytest.param({"driver": {"cores": 2}}, 2, "remove driver.cores", id="tasks run in the driver by its cores"),
    ],
)
def test_what_cannot_be_scaled_is_refused(
    api_server: ApiServer, namespace: str, spec: dict[str, object], replicas: int, why: str
) -> None:
    """An autoscaler's 0 would move the tasks into the driver."""
    job = a_resource(namespace, **spec)
    api_server.apply(job)

    done = api_server.kubectl("-n", namespace, "scale", "ssj/flights", f"--replicas={replicas}")

    assert done.returncode != 0
    assert why in done.stderr
    assert api_server.get(namespace, "ssj/flights")["spec"] == job["spec"]


def test_kubectl_get_answers_the_first_question(api_server: ApiServer, namespace: str) -> None:
    api_server.apply(a_resource(namespace))
    status: Resource = {
        "phase": "Running",
        "epoch": 3,
        "message": "Running; the driver started from checkpoint 41.",
        "revision": "abc",
        "lastCheckpoint": {"id": 42, "completionTime": "2026-01-01T00:00:00Z", "batches": {}},
        "restarts": {"count": 2, "consecutive": 0},
        "upgrade": {
            "fromRevision": "abb",
            "toRevision": "abc",
            "generation": 1,
            "state": "Stable",
            "requestTime": "2026-01-01T00:00:00Z",
        },
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Running",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    api_server.patch_status(namespace, "ssj/flights", status)

    header, row = api_server.call("-n", namespace, "get", "ssj").splitlines()

    assert header.split() == [
        "NAME",
        "PHASE",
        "READY",
        "REASON",
        "UPGRADE",
        "CHECKPOINT",
        "RESTARTS",
        "AGE",
    ]
    assert row.split()[:6] == ["flights", "Running", "True", "Running", "Stable", "42"]
    assert "the driver started from checkpoint 41" in api_server.call("-n", namespace, "get", "ssj", "-o", "wide")


def test_kubectl_explain_says_what_a_change_costs(api_server: ApiServer) -> None:
    image = api_server.call("explain", "statefulsparkjob.spec.image")
    suspend = api_server.call("explain", "statefulsparkjob.spec.suspend")

    assert "restarts the job from a savepoint" in " ".join(image.split())
    assert "takes effect at once" in " ".join(suspend.split())
