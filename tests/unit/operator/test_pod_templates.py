"""Which templates of pods are refused, unless the installation allows any."""

from __future__ import annotations

import pytest
from pydantic import JsonValue
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.cluster import resources
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render import driver, executor, restricted
from statefulspark_operator.render.base import Manifest, Subject

SPEC: Manifest = {
    "image": "registry.example/flights:1",
    "job": {"file": "/opt/job/flights.py"},
    "storage": {"uri": "s3://bucket/jobs", "s3": {"credentialsSecretRef": {"name": "s3"}}},
}
SAFE: Manifest = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def a_rendered_subject(**spec: JsonValue) -> Subject:
    return Subject(Job("demo", "flights", "uid", 1), StatefulSparkJobSpec.model_validate({**SPEC, **spec}))


def templated(pod: JsonValue, role: str = "driver") -> Subject:
    section: Manifest = {"podTemplate": {"spec": pod}}
    return a_rendered_subject(**{role: {**section, "instances": 1} if role == "executor" else section})


@pytest.mark.parametrize("role", ["driver", "executor"])
@pytest.mark.parametrize(
    ("pod", "named"),
    [
        ({"hostNetwork": True}, "hostNetwork"),
        ({"hostPID": True}, "hostPID"),
        ({"hostIPC": True}, "hostIPC"),
        ({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, "hostPath"),
        ({"volumes": [{"name": "nfs", "nfs": {"server": "x", "path": "/"}}]}, "nfs"),
        ({"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}]}}]}, "token"),
        ({"serviceAccountName": "admin"}, "serviceAccountName"),
        ({"serviceAccount": "admin"}, "serviceAccount"),
        ({"automountServiceAccountToken": True}, "automountServiceAccountToken"),
        ({"securityContext": {"runAsUser": 0}}, "runAsUser"),
        ({"securityContext": {"runAsNonRoot": False}}, "runAsNonRoot"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "seccompProfile"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "sysctls"),
        ({"initContainers": [{"name": "first", "image": "x"}]}, "allowPrivilegeEscalation"),
        (
            {"containers": [{"name": "side", "image": "x", "securityContext": {**SAFE, "privileged": True}}]},
            "privileged",
        ),
        ({"containers": [{"name": "side", "securityContext": {**SAFE, "runAsUser": 0}}]}, "runAsUser"),
        ({"containers": [{"name": "side", "securityContext": {**SAFE, "capabilities": {"drop": []}}}]}, "drop"),
        (
            {
                "containers": [
                    {"name": "side", "securityContext": {**SAFE, "capabilities": {"drop": ["ALL"], "add": ["A"]}}}
                ]
            },
            "capabilities.add",
        ),
        ({"containers": [{"name": "side", "securityContext": SAFE, "ports": [{"hostPort": 1}]}]}, "hostPort"),
    ],
)
def test_what_gives_more_than_a_restricted_pod_is_refused(pod: JsonValue, named: str, role: str) -> None:
    refused = restricted.job_problem(templated(pod, role))

    assert refused is not None
    assert refused.startswith(f"{role}.podTemplate: ")
    assert named in refused


@pytest.mark.parametrize(
    "context",
    [{"privileged": True}, {"allowPrivilegeEscalation": True}, {"runAsUser": 0}, {"procMount": "Unmasked"}],
    ids=str,
)
def test_the_drivers_own_container_is_looked_at_with_the_template_laid_over_it(context: JsonValue) -> None:
    assert (
        restricted.job_problem(templated({"containers": [{"name": "driver", "securityContext": context}]})) is not None
    )


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "x", "operator": "Exists"}]},
        {"volumes": [{"name": "files", "configMap": {"name": "files"}}]},
        {"containers": [{"name": "driver", "lifecycle": {}, "volumeMounts": [{"name": "files", "mountPath": "/x"}]}]},
        {"containers": [{"name": "side", "image": "x", "securityContext": SAFE}]},
    ],
    ids=str,
)
def test_what_a_restricted_pod_may_have_is_allowed(pod: JsonValue) -> None:
    assert restricted.job_problem(templated(pod)) is None


@pytest.mark.parametrize("kind", ["hostPath", "nfs"])
def test_volumes_that_spark_would_make_are_refused(kind: str) -> None:
    key = f"spark.kubernetes.executor.volumes.{kind}.x.mount.path"

    assert restricted.job_problem(a_rendered_subject(sparkConf={key: "/host"})) == f"sparkConf: {key}"


def test_annotations_by_which_the_operator_finds_a_driver_come_from_no_template() -> None:
    annotations: Manifest = {"statefulspark.io/api-port": "22", "statefulspark.io/api-tls": "x", "team": "a"}
    subject = a_rendered_subject(driver={"podTemplate": {"metadata": {"annotations": annotations}}})

    pod = driver.pod(subject, epoch=1, revision="r")

    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    given = metadata["annotations"]
    assert isinstance(given, dict)
    assert given.keys() == {"team", "statefulspark.io/pod-template"}


def laid_over(templates: Manifest, role: str = "driver") -> Manifest:
    subject = a_rendered_subject(**templates)
    owner = executor.Owner("flights-driver-1", "r1", 1)
    pod = driver.pod(subject, epoch=1, revision="r1") if role == "driver" else executor.template(subject, owner)
    return resources.section(pod, "spec")


def named(items: JsonValue, name: str) -> Manifest:
    assert isinstance(items, list)
    (item,) = (item for item in items if isinstance(item, dict) and item.get("name") == name)
    return item


def main_container(spec: Manifest, name: str = "driver") -> Manifest:
    return named(spec["containers"], name)


def test_a_volume_gets_the_source_of_the_template_and_keeps_no_other() -> None:
    claim: Manifest = {"name": "work", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}

    spec = laid_over({"driver": {"podTemplate": {"spec": {"volumes": [claim]}}}})

    assert named(spec["volumes"], "work") == claim


def test_a_variable_has_a_value_or_a_source_and_a_probe_one_handler() -> None:
    source: Manifest = {"secretKeyRef": {"name": "s", "key": "k"}}
    container: Manifest = {
        "name": "driver",
        "env": [{"name": "STATEFULSPARK_CONFIG", "valueFrom": source}],
        "livenessProbe": {"exec": {"command": ["true"]}},
    }

    laid = main_container(laid_over({"driver": {"podTemplate": {"spec": {"containers": [container]}}}}))

    assert named(laid["env"], "STATEFULSPARK_CONFIG") == {"name": "STATEFULSPARK_CONFIG", "valueFrom": source}
    probe = resources.section(laid, "livenessProbe")
    assert ("httpGet" in probe, probe["exec"], probe["periodSeconds"]) == (False, {"command": ["true"]}, 10)


@pytest.mark.parametrize("name", [["side"], {"is": "side"}, 7, None], ids=["list", "object", "number", "null"])
@pytest.mark.parametrize("field", ["containers", "volumes"])
def test_a_name_that_is_no_text_is_left_to_the_api_server(field: str, name: JsonValue) -> None:
    """A list as a name ended each reconcile of the job in a TypeError, and its status never said why."""
    subject = templated({field: [{"name": name, "securityContext": SAFE}]})

    pod = driver.pod(subject, epoch=1, revision="r")

    assert [item.get("name") for item in resources.items(pod, "spec", field)][-1] == name
    restricted.job_problem(subject)


def test_the_users_affinity_is_beside_that_of_a_standby() -> None:
    term: Manifest = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
    affinity: Manifest = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    subject = a_rendered_subject(podTemplate={"spec": {"affinity": affinity}})

    pod = driver.standby_pod(subject, name="flights-standby-1", revision="r1")

    own = resources.section(pod, "spec", "affinity", "podAntiAffinity")
    terms = own["preferredDuringSchedulingIgnoredDuringExecution"]
    assert isinstance(terms, list)
    assert (len(terms), terms[1]) == (2, term)


def test_the_template_of_both_kinds_is_beneath_that_of_each_and_main_containers_keep_apart() -> None:
    common: Manifest = {
        "nodeSelector": {"pool": "streaming", "zone": "a"},
        "containers": [
            {"name": "driver", "env": [{"name": "ROLE", "value": "driver"}]},
            {"name": "executor", "env": [{"name": "ROLE", "value": "executor"}]},
            {"name": "shipper", "image": "shipper:1"},
        ],
    }
    own: Manifest = {"nodeSelector": {"zone": "b"}}
    spec: Manifest = {
        "podTemplate": {"metadata": {"labels": {"team": "data"}}, "spec": common},
        "driver": {"podTemplate": {"spec": own}},
        "executor": {"instances": 1},
    }

    for role, selector in (
        ("driver", {"pool": "streaming", "zone": "b"}),
        ("executor", {"pool": "streaming", "zone": "a"}),
    ):
        pod = laid_over(spec, role)
        containers = pod["containers"]
        assert isinstance(containers, list)
        assert pod["nodeSelector"] == selector
        assert [item["name"] for item in containers if isinstance(item, dict)] == [role, "shipper"]
        assert named(main_container(pod, role)["env"], "ROLE")["value"] == role


def test_null_removes_what_the_operator_renders() -> None:
    assert "enableServiceLinks" not in laid_over({"podTemplate": {"spec": {"enableServiceLinks": None}}})


def test_the_driver_has_a_disk_of_its_own() -> None:
    disk: Manifest = {"size": "20Gi", "storageClassName": "fast"}

    volume = named(laid_over({"driver": {"localDisk": disk}})["volumes"], "work")

    claim = resources.section(volume, "ephemeral", "volumeClaimTemplate", "spec")
    assert claim["storageClassName"] == "fast"
    assert resources.section(claim, "resources", "requests") == {"storage": "20Gi"}
