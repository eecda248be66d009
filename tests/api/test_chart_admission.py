"""Who may write which jobs, as a real API server answers with the chart's admission policy, to people with few rights."""

from __future__ import annotations

import re
import time

import pytest
import yaml
from apiserver import ApiServer
from helmchart import of_kind, render
from statefulspark_operator.cluster.resources import Resource

pytestmark = pytest.mark.api

WRITER, POD_WRITER = "writes-jobs", "writes-jobs-and-pods"
SAFE: Resource = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
HOST_PATH = {"spark.kubernetes.executor.volumes.hostPath.x.mount.path": "/host"}

RESTRICTED: dict[str, Resource] = {
    "nowhere": {},
    "scheduling": {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "x", "operator": "Exists"}]},
    "files": {"volumes": [{"name": "files", "configMap": {"name": "files"}}]},
    "own-container": {"containers": [{"name": "driver", "volumeMounts": [{"name": "files", "mountPath": "/x"}]}]},
    "sidecar": {"containers": [{"name": "side", "image": "x", "securityContext": SAFE}]},
    "group": {"securityContext": {"fsGroup": 1}},
}
MORE: dict[str, Resource] = {
    "host-network": {"hostNetwork": True},
    "host-path": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    "token": {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
    "account": {"serviceAccountName": "admin"},
    "root": {"securityContext": {"runAsUser": 0}},
    "privileged": {"containers": [{"name": "driver", "securityContext": {"privileged": True}}]},
    "no-context": {"containers": [{"name": "side", "image": "x"}]},
    "init": {"initContainers": [{"name": "driver", "image": "x"}]},
    "neighbour": {"containers": [{"name": "executor", "image": "x"}]},
    "side-root": {"containers": [{"name": "side", "securityContext": {**SAFE, "runAsUser": 0}}]},
    "adds": {
        "containers": [
            {"name": "side", "securityContext": {**SAFE, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}}
        ]
    },
    "host-port": {"containers": [{"name": "driver", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
    "nothing-known": {"somethingOfTheFuture": True},
}


def a_templated_job(name: str, **spec: object) -> Resource:
    given: Resource = {
        "image": "registry.example/flights:1",
        "job": {"file": "/opt/job/flights.py"},
        "storage": {"uri": "s3://bucket/jobs"},
    }
    meta: Resource = {"name": name}
    return {
        "apiVersion": "statefulspark.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": meta,
        "spec": given | spec,
    }


def jobs_of(pods: dict[str, Resource]) -> list[Resource]:
    return [a_templated_job(name, driver={"podTemplate": {"spec": pod}}) for name, pod in pods.items()]


REFUSED = [
    *jobs_of(MORE),
    a_templated_job("executors", executor={"instances": 1, "podTemplate": {"spec": {"hostPID": True}}}),
    a_templated_job("spark-volume", sparkConf=HOST_PATH),
]


def written(server: ApiServer, namespace: str, who: str, jobs: list[Resource]) -> set[str]:
    """Return the names of those of some jobs that a person could create; none of them is created."""
    command = ("-n", namespace, "--as", who, "create", "--dry-run=server", "-f", "-")
    done = server.kubectl(*command, stdin=yaml.safe_dump_all(jobs))
    refused = [line for line in done.stderr.splitlines() if line.strip()]
    assert all("needs the right to create pods" in line for line in refused), refused
    return set(re.findall(r"/(\S+) created", done.stdout))


def names_of(jobs: list[Resource]) -> set[str]:
    return {str(job["metadata"]["name"]) for job in jobs}  # type: ignore[index, call-overload]  # as it is made above


@pytest.fixture
def policed(api_server: ApiServer, namespace: str) -> str:
    """A namespace with the policy in force, and with people who may write jobs, one of them pods, too."""
    rules = {
        WRITER: [("statefulspark.io", "statefulsparkjobs")],
        POD_WRITER: [("statefulspark.io", "statefulsparkjobs"), ("", "pods")],
    }
    people: list[Resource] = []
    for who, resources in rules.items():
        meta: Resource = {"name": who, "namespace": namespace}
        granted: list[Resource] = [
            {"apiGroups": [group], "resources": [resource], "verbs": ["create", "get", "patch"]}
            for group, resource in resources
        ]
        version, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
        people.append({"apiVersion": version, "kind": "Role", "metadata": meta, "rules": granted})  # type: ignore[dict-item]
        people.append(
            {
                "apiVersion": version,
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": group, "kind": "Role", "name": who},
                "subjects": [{"apiGroup": group, "kind": "User", "name": who}],
            }
        )
    objects = render(
        f"watchNamespaces={{{namespace}}}", f"fullnameOverride={namespace}", "jobs.admission.podTemplates=true"
    )
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    api_server.apply(*people, *(found for kind in kinds for found in of_kind(objects, kind)))
    for _ in range(60):  # A policy is in force as soon as the server's own watch has brought it.
        if not written(api_server, namespace, WRITER, REFUSED[:1]):
            return namespace
        time.sleep(0.5)
    raise AssertionError("the policy was never in force")


def test_who_may_create_no_pods_writes_jobs_with_restricted_ones_only(api_server: ApiServer, policed: str) -> None:
    allowed = jobs_of(RESTRICTED)

    assert written(api_server, policed, WRITER, [*allowed, *REFUSED]) == names_of(allowed)
    assert written(api_server, policed, POD_WRITER, REFUSED) == names_of(REFUSED)

    # What is there may be changed by everybody, but for its pods.
    call = ("-n", policed, "--as", WRITER, "patch", "ssj", "host-network", "--type=merge", "-p")
    api_server.call("-n", policed, "create", "-f", "-", stdin=yaml.safe_dump(REFUSED[0]))
    assert api_server.kubectl(*call, '{"metadata": {"labels": {"team": "a"}}}').returncode == 0
    assert "right to create pods" in api_server.kubectl(*call, '{"spec": {"image": "x:2"}}').stderr
    assert api_server.kubectl(*call, '{"spec": {"driver": null}}').returncode == 0
