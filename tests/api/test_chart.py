"""The chart: lint, rendering in every mode, and a real API server that takes every rendered object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import commandtrees
import pytest
import yaml
from apiserver import ROOT, ApiServer
from helmchart import CHART, helm, of_kind, render
from statefulspark_operator import cli
from statefulspark_operator.api import job_defaults
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

PEERS = ("api", "metrics")
MODES = [
    pytest.param((), id="whole cluster"),
    pytest.param(("watchNamespaces={default,kube-public}",), id="two namespaces"),
    pytest.param(("replicas=2",), id="two replicas"),
    pytest.param(("rbac.executors=false", "jobs.admission.podTemplates=true"), id="no executors, admission"),
    pytest.param(
        (
            "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",
            "networkPolicy.egress[0].ports[0].port=443",
            "monitoring.dashboard.enabled=true",
            "monitoring.dashboard.annotations.grafana_folder=Streaming",
        ),
        id="network policy and dashboard",
    ),
    pytest.param(
        (
            "image.tag=x",
            "imagePullSecrets[0].name=r",
            "podLabels.team=a",
            "podAnnotations.a=b",
            "extraEnv[0].name=HTTPS_PROXY",
            "extraEnv[0].value=http://proxy",
            "extraVolumes[0].name=authorities",
            "extraVolumes[0].configMap.name=authorities",
            "extraVolumeMounts[0].name=authorities",
            "extraVolumeMounts[0].mountPath=/etc/authorities",
            "nodeSelector.disk=fast",
            "priorityClassName=system-cluster-critical",
            "serviceAccount.annotations.role=reader",
            "logFormat=text",
            "tolerations[0].key=dedicated",
            "tolerations[0].operator=Exists",
        ),
        id="everything set",
    ),
]


def arguments(container: Resource) -> list[str]:
    return [str(argument) for argument in cast("list[object]", container["args"])]


def test_lint_finds_nothing() -> None:
    done = helm("lint", "--strict", str(CHART))

    assert done.returncode == 0, done.stdout


@pytest.mark.api
@pytest.mark.parametrize("values", MODES)
def test_a_real_api_server_takes_every_object(api_server: ApiServer, values: tuple[str, ...]) -> None:
    objects = render(*values)

    done = api_server.kubectl(
        "create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(objects)
    )

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(objects)


@pytest.mark.api
def test_the_crds_of_a_chart_take_over_from_those_that_helm_installed(api_server: ApiServer) -> None:
    shown = helm("show", "crds", str(CHART)).stdout
    older = [cast("Resource", document) for document in yaml.safe_load_all(shown) if document]
    for crd in older:
        (version,) = resources.items(crd, "spec", "versions")
        version["additionalPrinterColumns"] = []
    api_server.call("replace", "--field-manager=helm", "-f", "-", stdin=yaml.safe_dump_all(older))

    done = api_server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=shown)

    assert done.returncode == 0, done.stderr
    columns = api_server.call("get", "crd", "statefulsparkjobs.statefulspark.io", "-o", "yaml")
    assert "additionalPrinterColumns" in columns


@pytest.mark.parametrize("name", ["statefulsparkjobs.yaml", "sparksavepoints.yaml"])
def test_the_crd_in_the_chart_is_the_generated_one(name: str) -> None:
    assert (CHART / "crds" / name).read_text() == (ROOT / "crds" / name).read_text()


def test_namespaced_mode_asks_for_no_right_on_the_cluster() -> None:
    objects = render("watchNamespaces={default,kube-public}", "rbac.userRoles=false")

    assert of_kind(objects, "ClusterRole") == []
    assert of_kind(objects, "ClusterRoleBinding") == []
    roles = [role for role in of_kind(objects, "Role") if not is_for_the_lease(role)]
    assert [resources.text(role, "metadata", "namespace") for role in roles] == [
        "default",
        "kube-public",
        "kube-system",
    ]


def test_of_kube_system_the_operator_may_get_the_namespace_and_nothing_else() -> None:
    for scope in ("clusterWide=true", "watchNamespaces={default}"):
        objects = of_kind(render(scope), "Role")
        (role,) = (role for role in objects if resources.text(role, "metadata", "namespace") == "kube-system")
        named = {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]}
        assert role["rules"] == [named]


@pytest.mark.parametrize(
    ("values", "said"),
    [((), "Choose which namespaces"), (("clusterWide=true", "watchNamespaces={shop}"), "Choose one")],
    ids=["neither", "both"],
)
def test_an_install_that_does_not_choose_its_namespaces_fails(values: tuple[str, ...], said: str) -> None:
    done = helm("template", "x", str(CHART), *(part for value in values for part in ("--set", value)))

    assert done.returncode != 0
    assert said in done.stderr


def test_what_the_operator_may_open_is_told_to_it_as_the_chart_says() -> None:
    values = ("jobs.storage.ownIdentity.shop[0]=s3://bucket/shop/", "jobs.storage.endpoints={http://minio:9000}")
    (deployment,) = of_kind(render(*values, "jobs.podTemplates=Any"), "Deployment")
    (container,) = resources.items(deployment, "spec", "template", "spec", "containers")

    given = commandtrees.parse(cli.program, cast("list[str]", container["args"])).params

    assert given["own_identity"] == {"shop": ("s3://bucket/shop/",)}
    assert (given["storage_endpoints"], given["pod_templates"]) == (("http://minio:9000",), "Any")


@pytest.mark.api
@pytest.mark.parametrize(
    ("role", "allowed"),
    [("view", ("get", "list", "watch")), ("edit", ("create", "update", "patch", "delete"))],
    ids=["view", "edit"],
)
@pytest.mark.parametrize("kind", ["statefulsparkjobs", "sparksavepoints"])
def test_the_roles_of_users_have_the_rights_of_their_names(
    api_server: ApiServer, namespace: str, kind: str, role: str, allowed: tuple[str, ...]
) -> None:
    watched = ("watchNamespaces={default}", f"fullnameOverride={namespace}")
    roles = of_kind(render(*watched), "ClusterRole")
    api_server.apply(*roles)
    bound = f"--clusterrole=default-{namespace}-{role}"
    api_server.call("-n", namespace, "create", "rolebinding", role, bound, "--user=ann")

    def may(verb: str) -> bool:
        asked = ("-n", namespace, "auth", "can-i", "--as", "ann", verb, f"{kind}.statefulspark.io")
        return api_server.kubectl(*asked).stdout.strip() == "yes"

    asked = ("get", "list", "watch", "create", "update", "patch", "delete")
    assert tuple(filter(may, asked)) == allowed
    aggregated = {
        label for one in roles for label in resources.section(one, "metadata", "labels") if "aggregate" in label
    }
    assert aggregated == {f"rbac.authorization.k8s.io/aggregate-to-{name}" for name in ("view", "edit", "admin")}


def is_for_the_lease(role: Resource) -> bool:
    return resources.text(role, "metadata", "name").endswith("-lease")


@pytest.mark.parametrize("values", [(), ("watchNamespaces={kube-public}",)], ids=["whole cluster", "one namespace"])
def test_the_lease_is_the_only_one_that_the_operator_may_change_and_in_its_own_namespace(
    values: tuple[str, ...],
) -> None:
    objects = render(*values)
    (role,) = (role for role in of_kind(objects, "Role") if is_for_the_lease(role))
    (deployment,) = of_kind(objects, "Deployment")
    (container,) = resources.items(deployment, "spec", "template", "spec", "containers")
    name = resources.text(deployment, "metadata", "name")

    assert resources.text(role, "metadata", "namespace") == "default"
    assert [rule["verbs"] for rule in resources.items(role, "rules")] == [["create"], ["get", "update"]]
    assert resources.items(role, "rules")[1]["resourceNames"] == [name]
    assert f"--lease={name}" in cast("list[str]", container["args"])
    assert {"POD_NAME", "POD_NAMESPACE"} <= {resources.text(item, "name") for item in resources.items(container, "env")}


def tolerations(*values: str) -> list[tuple[str, int]]:
    (deployment,) = of_kind(render(*values), "Deployment")
    found = resources.items(deployment, "spec", "template", "spec", "tolerations")
    return [(resources.text(item, "key"), resources.number(item, "tolerationSeconds")) for item in found]


def test_the_operator_leaves_a_lost_node_within_seconds_whatever_else_it_tolerates() -> None:
    lost = [("node.kubernetes.io/not-ready", 5), ("node.kubernetes.io/unreachable", 5)]

    assert tolerations() == lost
    assert tolerations("tolerations[0].key=dedicated") == [*lost, ("dedicated", 0)]
    assert tolerations("nodeLossTolerationSeconds=30")[0] == ("node.kubernetes.io/not-ready", 30)


def test_two_replicas_are_spread_and_not_evicted_together() -> None:
    objects = render("replicas=2")
    (deployment,) = of_kind(objects, "Deployment")
    (budget,) = of_kind(objects, "PodDisruptionBudget")

    assert resources.find(budget, "spec", "maxUnavailable") == 1
    assert resources.number(deployment, "spec", "replicas") == 2
    (spread,) = resources.items(deployment, "spec", "template", "spec", "topologySpreadConstraints")
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert resources.section(spread, "labelSelector") == resources.section(budget, "spec", "selector")
    assert of_kind(render(), "PodDisruptionBudget") == []


def test_policies_of_jobs_let_in_the_operator_first_and_then_who_is_named() -> None:
    named = [f"jobs.networkPolicy.{who}From[0].ipBlock.cidr=10.{number}.0.0/16" for number, who in enumerate(PEERS)]
    (deployment,) = of_kind(render(*named), "Deployment")
    (container,) = resources.items(deployment, "spec", "template", "spec", "containers")
    labels = resources.section(deployment, "spec", "template", "metadata", "labels")

    given = commandtrees.parse(cli.program, cast("list[str]", container["args"])).params

    operator, others = given["job_network_policy"]
    assert resources.section(operator, "podSelector", "matchLabels").items() <= labels.items()
    assert resources.section(operator, "namespaceSelector", "matchLabels") == {"kubernetes.io/metadata.name": "default"}
    assert others == {"ipBlock": {"cidr": "10.0.0.0/16"}}
    assert given["job_metrics_from"] == ({"ipBlock": {"cidr": "10.1.0.0/16"}},)


@pytest.mark.parametrize(
    ("values", "is_limited"), [((), True), (("jobs.networkPolicy.enabled=false",), False)], ids=["default", "off"]
)
def test_jobs_get_policies_unless_that_is_switched_off(values: tuple[str, ...], is_limited: bool) -> None:
    (deployment,) = of_kind(render(*values), "Deployment")
    (container,) = resources.items(deployment, "spec", "template", "spec", "containers")

    given = commandtrees.parse(cli.program, cast("list[str]", container["args"])).params

    assert (given["job_network_policy"] is not None, given["job_metrics_from"]) == (is_limited, ())


@pytest.mark.api
@pytest.mark.parametrize("name", ["network-policy", "network-policy-alone"])
def test_a_real_api_server_takes_the_policy_of_a_job(api_server: ApiServer, namespace: str, name: str) -> None:
    policy = yaml.safe_load((ROOT / "tests" / "golden" / "operator" / f"{name}.yaml").read_text())
    policy["metadata"] = {"name": "flights-pods", "namespace": namespace}  # its owner is not there

    api_server.apply(policy)

    stored = api_server.get(namespace, "networkpolicy/flights-pods")
    assert resources.section(stored, "spec") == policy["spec"]


@pytest.mark.parametrize("executors", ["true", "false"])
def test_both_modes_have_the_same_rights(executors: str) -> None:
    (cluster,) = of_kind(render(f"rbac.executors={executors}", "rbac.userRoles=false"), "ClusterRole")
    role = of_kind(render(f"rbac.executors={executors}", "watchNamespaces={default}"), "Role")[0]

    assert cluster["rules"] == role["rules"]


def test_secrets_are_never_listed_and_no_right_is_a_wildcard() -> None:
    (role,) = of_kind(render("rbac.userRoles=false"), "ClusterRole")

    for rule in resources.items(role, "rules"):
        assert "*" not in json.dumps(rule)
        if rule["resources"] == ["secrets"]:
            assert rule["verbs"] == ["get", "create"]


def test_the_operator_gets_more_variables_and_volumes_beside_its_own() -> None:
    (deployment,) = of_kind(
        render(
            "extraEnv[0].name=AWS_CA_BUNDLE",
            "extraEnv[0].value=/etc/authorities/ca.crt",
            "extraVolumes[0].name=authorities",
            "extraVolumes[0].configMap.name=authorities",
            "extraVolumeMounts[0].name=authorities",
            "extraVolumeMounts[0].mountPath=/etc/authorities",
        ),
        "Deployment",
    )
    pod = resources.section(deployment, "spec", "template", "spec")
    (container,) = resources.items(pod, "containers")

    names = [resources.text(variable, "name") for variable in resources.items(container, "env")]
    assert names == ["POD_NAME", "POD_NAMESPACE", "MALLOC_ARENA_MAX", "AWS_CA_BUNDLE"]
    assert resources.items(pod, "volumes") == (
        {"name": "tmp", "emptyDir": {}},
        {"name": "authorities", "configMap": {"name": "authorities"}},
    )
    assert resources.items(container, "volumeMounts") == (
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "authorities", "mountPath": "/etc/authorities"},
    )


def test_more_fields_of_the_pod_replace_those_of_the_chart_and_common_labels_are_on_every_object() -> None:
    objects = render(
        "replicas=2",
        "commonLabels.team=streaming",
        "annotations.owner=platform",
        "podSpec.dnsPolicy=Default",
        "podSpec.topologySpreadConstraints[0].topologyKey=zone",
        "livenessProbe.failureThreshold=7",
        "logLevel=debug",
    )
    (deployment,) = of_kind(objects, "Deployment")
    pod = resources.section(deployment, "spec", "template", "spec")
    (container,) = resources.items(pod, "containers")

    assert resources.find(deployment, "metadata", "annotations") == {"owner": "platform"}
    assert pod["dnsPolicy"] == "Default"
    assert pod["topologySpreadConstraints"] == [{"topologyKey": "zone"}]
    assert resources.find(container, "livenessProbe", "failureThreshold") == 7
    assert resources.find(container, "livenessProbe", "periodSeconds") == 20
    assert "--log-level=debug" in arguments(container)
    labelled = [found for found in objects if resources.find(found, "metadata", "labels") is not None]
    assert {resources.find(found, "metadata", "labels", "team") for found in labelled} == {"streaming"}
    selector = resources.section(deployment, "spec", "selector", "matchLabels")
    assert "team" not in selector, "a selector cannot be changed later"


ALL_OBJECTS = (
    "jobs.admission.podTemplates=true",
    *(f"monitoring.{name}.enabled=true" for name in ("serviceMonitor", "podMonitor", "rules", "dashboard")),
)


def rendered(release: str, namespace: str) -> list[Resource]:
    sets = [part for value in ALL_OBJECTS for part in ("--set", value)]
    done = helm("template", release, str(CHART), "-n", namespace, "--set-string", "watchNamespaces={2024,no}", *sets)
    assert done.returncode == 0, done.stderr
    return [cast("Resource", document) for document in yaml.safe_load_all(done.stdout) if document]


@pytest.mark.parametrize(("release", "namespace"), [("7", "2025"), ("r" * 53, "n" * 63)], ids=["digits", "longest"])
def test_every_name_is_a_text_that_kubernetes_takes(release: str, namespace: str) -> None:
    """A namespace `2024` was a number and `no` a boolean; a long release had a Service with a name of 71 characters."""
    for found in rendered(release, namespace):
        meta = resources.section(found, "metadata")
        name, most = meta["name"], 63 if found["kind"] in ("Service", "Job") else 253
        assert isinstance(name, str)
        assert len(name) <= most
        assert meta.get("namespace", "") in ("", namespace, "2024", "no", "kube-system")
        assert all(isinstance(value, str) for value in resources.section(meta, "labels").values())


def test_teams_can_have_operators_of_their_own_by_the_same_name() -> None:
    """Helm refused the second one: the ClusterRoles for people belonged to the first."""
    of_the_cluster = [
        {(found["kind"], found["metadata"]["name"]) for found in objects if "namespace" not in found["metadata"]}
        for objects in (rendered("statefulspark", "shop"), rendered("statefulspark", "billing"))
    ]

    assert of_the_cluster[0].isdisjoint(of_the_cluster[1])


def test_a_label_of_the_pod_replaces_the_common_one() -> None:
    sets = ("--set", "clusterWide=true,commonLabels.team=streaming,podLabels.team=platform")
    text = helm("template", "statefulspark", str(CHART), *sets, "--show-only", "templates/deployment.yaml").stdout

    assert [line.strip() for line in text.splitlines() if "team:" in line] == ["team: streaming", "team: platform"]


def test_defaults_of_jobs_reach_the_operator_as_it_reads_them() -> None:
    (deployment,) = of_kind(
        render(
            "jobs.defaults.imagePullSecrets[0].name=registry",
            "jobs.defaults.storage.s3.endpoint=https://minio:9000",
            "jobs.defaults.driver.podTemplate.spec.tolerations[0].key=spot",
        ),
        "Deployment",
    )
    (container,) = resources.items(deployment, "spec", "template", "spec", "containers")
    (argument,) = (one for one in arguments(container) if one.startswith("--job-defaults="))

    read = job_defaults.parse(argument.partition("=")[2])
    assert [secret.name for secret in read.image_pull_secrets] == ["registry"]
    assert read.storage.s3.endpoint == "https://minio:9000"


def test_what_a_default_says_reaches_the_operator_as_it_was_written() -> None:
    """Kubernetes replaced $(POD_NAME) by the name of the operator's own pod, and an apostrophe ended the argument."""
    said = "-Dhost=$(POD_NAME) -Dname='it is' -Dprice=$$5 \\"
    (deployment,) = of_kind(
        render("jobs.defaults.driver.env[0].name=A", f"jobs.defaults.driver.env[0].value={said}\\"), "Deployment"
    )
    (container,) = resources.items(deployment, "spec", "template", "spec", "containers")
    (argument,) = (one for one in arguments(container) if one.startswith("--job-defaults="))

    assert "$" not in argument
    assert [variable.value for variable in job_defaults.parse(argument.partition("=")[2]).driver.env] == [said]


@pytest.mark.parametrize(
    ("values", "user"), [((), 10001), (("runAsUser=1000670000",), 1000670000), (("runAsUser=null",), None)]
)
def test_pods_have_one_user_or_the_one_that_the_platform_gives(values: tuple[str, ...], user: int | None) -> None:
    for workload in (found for kind in ("Deployment", "Job") for found in of_kind(render(*values), kind)):
        pod = resources.section(workload, "spec", "template", "spec")
        security = resources.section(pod, "securityContext")
        (container,) = resources.items(pod, "containers")
        assert security["runAsNonRoot"] is True
        assert {security.get(name) for name in ("runAsUser", "runAsGroup")} == {user}
        asked = [one for one in arguments(container) if one.startswith("--run-as-user")]
        is_operator = workload["kind"] == "Deployment"
        assert asked == ([f"--run-as-user={user}"] if is_operator and user is not None else [])


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("statefulspark", "statefulspark-operator"),
        ("statefulspark-operator", "statefulspark-operator"),
        ("shop", "shop-statefulspark-operator"),
        ("state", "state-statefulspark-operator"),
    ],
)
def test_the_name_of_a_release_is_not_said_twice(release: str, name: str) -> None:
    done = helm("template", release, str(CHART), "--set", "clusterWide=true")
    rendered = [cast("Resource", document) for document in yaml.safe_load_all(done.stdout) if document]
    (deployment,) = of_kind(rendered, "Deployment")

    assert resources.text(deployment, "metadata", "name") == name


def test_the_chart_stays_while_only_the_operator_can_end_something(api_server: ApiServer, namespace: str) -> None:
    (check,) = of_kind(render(f"watchNamespaces={{{namespace}}}"), "Job")
    assert resources.find(check, "metadata", "annotations", "helm.sh/hook") == "pre-delete"
    (container,) = resources.items(check, "spec", "template", "spec", "containers")
    command = [sys.executable, "-m", "statefulspark_operator.cli", *arguments(container)]
    environment = {**os.environ, "KUBECONFIG": str(api_server.kubeconfig)}

    def checked() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)

    spec: Resource = {"image": "x", "job": {"file": "/x.py"}, "storage": {"uri": "s3://state/p"}}
    meta: Resource = {"name": "orders", "namespace": namespace}
    job: Resource = {
        "apiVersion": resources.JOB.api_version,
        "kind": "StatefulSparkJob",
        "metadata": meta,
        "spec": spec,
    }
    api_server.apply(job)
    api_server.call("get", "statefulsparkjobs,sparksavepoints", "-A")  # waits while the server sets up a kind

    refused = checked()
    assert refused.returncode == 1
    assert f"StatefulSparkJob {namespace}/orders" in refused.stdout
    assert "--no-hooks" in refused.stderr

    api_server.call("-n", namespace, "delete", "statefulsparkjob", "orders")
    assert checked().returncode == 0


def test_the_operator_runs_without_privileges_on_a_read_only_root() -> None:
    (deployment,) = of_kind(render(), "Deployment")
    pod = resources.section(deployment, "spec", "template", "spec")
    (container,) = resources.items(pod, "containers")

    assert resources.find(pod, "securityContext", "runAsNonRoot") is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("values", "image"),
    [
        (("image.repository=registry.example/op", "image.tag=0.2"), "registry.example/op:0.2"),
        (("image.repository=registry.example/op", f"image.digest={DIGEST}"), f"registry.example/op@{DIGEST}"),
        (("image.tag=0.2", f"image.digest={DIGEST}"), f"statefulspark-operator@{DIGEST}"),
    ],
    ids=["tag", "digest", "digest beside a tag"],
)
def test_the_image_is_the_one_of_the_digest_before_that_of_the_tag(values: tuple[str, ...], image: str) -> None:
    (deployment,) = of_kind(render(*values), "Deployment")
    (container,) = resources.items(deployment, "spec", "template", "spec", "containers")

    assert container["image"] == image


@pytest.mark.parametrize(
    "value",
    [
        "image.pullPolicy=Sometimes",
        "image.digest=0.2",
        "runAsUser=0",
        "logLevel=loud",
        "jobs.defaults.suspend=true",
        "jobs.defaults.driver.heap=1Gi",
        "podSpec.containers[0].name=x",
        "livenessProbe.path=/x",
        "image.digest=sha256:0a",
        "watchNamespaces={Not_A_Name}",
        "clusterWide=perhaps",
        "jobs.storage.ownIdentity.shop[0]=bucket/shop",
        "jobs.storage.endpoints={minio:9000}",
        "jobs.podTemplates=Everything",
        "imge.tag=x",
        "logFormat=xml",
        "image.repository=",
        "replicas=0",
        "rbac.executors=perhaps",
        "networkPolicy.enable=true",
        "monitoring.serviceMonitor.interval=often",
        "monitoring.rules.checkpointAgeSeconds=0",
    ],
)
def test_a_wrong_value_is_refused_by_the_schema(value: str) -> None:
    done = helm("template", "x", str(CHART), "--set", value)

    assert done.returncode != 0
    assert "schema" in done.stderr


def test_every_value_is_commented() -> None:
    lines = Path(CHART, "values.yaml").read_text().splitlines()
    tops = [number for number, line in enumerate(lines) if line and not line.startswith((" ", "#"))]
    uncommented = [lines[n] for n in tops if not lines[n - 1].startswith("#") and n - 1 not in tops]

    assert uncommented == []
