"""The chart's NetworkPolicies, enforced: who belongs to a job or is named gets through, everybody else is kept out.

Two end with their planted fault: without the policy the same strangers get through to the same ports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import pytest
from demo import kubectl
from testbed import bed, claims, doors, executors, job, waiting

SCRAPERS, STRANGERS = "policies-scrapers", "policies-strangers"
VISITOR = "visitor"
FROM_SCRAPERS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SCRAPERS}}}]
POLICIES = {
    "networkPolicy.metricsFrom": FROM_SCRAPERS,
    "jobs.networkPolicy.metricsFrom": FROM_SCRAPERS,
}
OPERATOR = "app.kubernetes.io/name=statefulspark-operator"


@pytest.fixture(scope="module")
def policed(cluster: bed.Bed) -> Iterator[bed.Bed]:
    """The cluster with policies, a scraper that they name and a stranger in another namespace; as it was in the end."""
    if not cluster.operator_is_ours:
        pytest.skip("The operator of this cluster is somebody else's, and its values are not changed.")
    cluster.configure_operator(POLICIES)
    for namespace in (SCRAPERS, STRANGERS):
        send(cluster, namespace)
    yield cluster
    for namespace in (SCRAPERS, STRANGERS):
        cluster.connection.kubectl(namespace).call("delete", "namespace", namespace, "--wait=false")
    cluster.configure_operator({})


def send(cluster: bed.Bed, namespace: str) -> None:
    """Put somebody into a namespace who belongs to nothing."""
    kube = cluster.connection.kubectl(namespace)
    kube.apply(doors.visitor(VISITOR, namespace, cluster.chosen.job_image))
    kube.call("wait", f"pod/{VISITOR}", "--for=condition=Ready", "--timeout=60s", timeout_s=70)


def gets(cluster: bed.Bed, namespace: str, listed: list[str], shall: Mapping[str, str], pod: str = VISITOR) -> None:
    """Wait until a pod gets through to some ports as it shall: a policy is enforced soon, not at once."""
    kube = cluster.connection.kubectl(namespace)
    who = f"{pod} of {namespace}"
    waiting.until(lambda: doors.tried(kube, pod, listed), lambda seen: seen == shall, f"{who} gets {shall}")


def gets_everywhere(cluster: bed.Bed, namespace: str, listed: list[str], pod: str = VISITOR) -> None:
    """Wait until a pod gets through to all of the ports."""
    gets(cluster, namespace, listed, dict.fromkeys(listed, doors.LET_IN), pod)


def gets_nowhere(cluster: bed.Bed, namespace: str, listed: list[str]) -> None:
    """Wait until a namespace's visitor gets through to none of the ports."""
    gets(cluster, namespace, listed, dict.fromkeys(listed, doors.KEPT_OUT))


def gets_only(cluster: bed.Bed, namespace: str, listed: list[str], door: str) -> None:
    """Wait until a namespace's visitor gets through to one of the ports."""
    gets(cluster, namespace, listed, {**dict.fromkeys(listed, doors.KEPT_OUT), door: doors.LET_IN})


def spread() -> Mapping[str, object]:
    """Return two executors on two nodes."""
    template = job.mount_files("executor")
    term = {
        "labelSelector": {"matchLabels": {"statefulspark.io/role": "executor"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    preference = [{"weight": 100, "podAffinityTerm": term}]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preference}}
    cast("dict[str, object]", template["spec"])["affinity"] = affinity
    return {**executors.TWO, "podTemplate": template}


def run_behind_policies(subject: job.Job, policed: bed.Bed) -> None:
    """Run a job with executors on two nodes, and send a stranger into its namespace."""
    send(policed, subject.namespace)
    subject.apply(executor=spread())
    executors.wait_running(subject, 1)
    subject.wait_batch(3)


def test_only_a_jobs_own_pods_and_those_named_reach_it(subject: job.Job, policed: bed.Bed) -> None:
    run_behind_policies(subject, policed)

    assert len({kubectl.text(pod, "spec", "nodeName") for pod in executors.pods(subject)}) == 2, (
        "executors on two nodes"
    )
    assert subject.see().condition("Ready")["status"] == "True", "the operator reaches the driver"
    meets_whom_it_should(subject, policed)
    claims.is_exact(subject)

    subject.kube.call("delete", "networkpolicy", "--all")  # the planted fault

    for namespace in (subject.namespace, STRANGERS):
        gets_everywhere(policed, namespace, all_doors(subject))


def test_standby_takes_over_behind_the_policy(subject: job.Job, policed: bed.Bed) -> None:
    run_behind_policies(subject, policed)
    subject.wait_checkpoint()

    subject.change(sparkConf={"spark.ui.showConsoleProgress": "false"})

    waiting.until(subject.see, lambda seen: kubectl.text(seen.status, "upgrade", "state") == "Stable", "Stable")
    executors.wait_running(subject, 2)
    assert subject.driver_pod() == f"{job.NAME}-standby-1"
    meets_whom_it_should(subject, policed)
    claims.is_exact(subject)


def all_doors(subject: job.Job) -> list[str]:
    """Return the ports of driver and executors."""
    return [door for pod in all_pods(subject) for door in doors.of(subject.kube, pod)]


def all_pods(subject: job.Job) -> list[str]:
    """Return the pods of the driver and its executors; those of the driver before may still be on their way out."""
    driver = subject.driver_pod()
    return [driver, *(name for name in executors.names(executors.pods(subject)) if name.startswith(driver))]


def meets_whom_it_should(subject: job.Job, policed: bed.Bed) -> None:
    """Check who gets through to which of the ports of the driver and of two executors."""
    listed = {pod: doors.of(subject.kube, pod) for pod in all_pods(subject)}
    print(listed)
    driver = listed[subject.driver_pod()]
    assert len(driver) >= 4, "the API, the metrics, and what Spark's driver opens"
    assert [len(open_) >= 1 for open_ in listed.values()] == [True] * 3, "each executor has a port for the others"
    everything = [door for open_ in listed.values() for door in open_]
    for pod in listed:
        gets_everywhere(policed, subject.namespace, everything, pod)
    gets_nowhere(policed, subject.namespace, everything)
    gets_nowhere(policed, STRANGERS, everything)
    gets_only(policed, SCRAPERS, everything, doors.metrics_of(driver))
    scraped = doors.ask(policed.connection.kubectl(SCRAPERS), VISITOR, f"http://{doors.metrics_of(driver)}/metrics")
    assert f'job_name="{job.NAME}"' in scraped


def operators(kube: kubectl.Kubectl) -> list[str]:
    """Return the operator's pods."""
    return kube.call("get", "pods", "--selector", OPERATOR, "--output", "name").split()


def test_only_scrapers_reach_the_operator_and_its_probes_pass(policed: bed.Bed) -> None:
    kube = policed.operator()
    (pod,) = waiting.until(lambda: operators(kube), lambda seen: len(seen) == 1, "the operator before it has ended")
    address = kube.call("get", pod, "--output", "jsonpath={.status.podIP}")
    health, metrics = f"{address}:8080", f"{address}:9090"

    gets_nowhere(policed, STRANGERS, [health, metrics])
    gets_only(policed, SCRAPERS, [health, metrics], metrics)
    assert "statefulspark_operator" in doors.ask(
        policed.connection.kubectl(SCRAPERS), VISITOR, f"http://{metrics}/metrics"
    )
    ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    assert kube.call("get", pod, "--output", ready) == "True", "it was started behind the policy, and its probe passed"

    kube.call("delete", "networkpolicy", "--all")  # the planted fault

    gets_everywhere(policed, STRANGERS, [health, metrics])
