"""Which templates of pods are refused, unless the installation allows any."""

from __future__ import annotations

import pytest
from pydantic import JsonValue
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render import driver, restricted
from statefulspark_operator.render.base import Manifest, Subject

SPEC: Manifest = {
    "image": "registry.example/flights:1",
    "job": {"file": "/opt/job/flights.py"},
    "storage": {"uri": "s3://bucket/jobs", "credentialsSecret": {"name": "s3"}},
}
SAFE: Manifest = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def a_rendered_subject(**spec: JsonValue) -> Subject:
    return Subject(Job("demo", "flights", "uid", 1), StatefulSparkJobSpec.model_validate({**SPEC, **spec}))


def templated(pod: JsonValue, role: str = "driver") -> Subject:
    section: Manifest = {"template": {"spec": pod}}
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
    assert refused.startswith(f"{role}.template: ")
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
    subject = a_rendered_subject(driver={"template": {"metadata": {"annotations": annotations}}})

    pod = driver.pod(subject, epoch=1, revision="r")

    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["annotations"] == {"team": "a"}
