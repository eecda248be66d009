"""Executors belong to their driver: whatever ends, theirs go first, the next ones find room, and nothing of them is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from demo import kubectl
from statefulspark.contract import layout
from testbed import bed, claims, executors, job, waiting


def freeze(subject: job.Job, pod: str) -> None:
    """Stop an executor's process: it holds what it has, and does not notice that its driver is gone."""
    subject.kube.call("exec", pod, "--", "sh", "-c", "kill -STOP $(pgrep -o java)")


def test_executors_have_the_name_and_the_owner_of_their_driver(subject: job.Job) -> None:
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    subject.kube.call("label", "namespace", subject.namespace, restricted)
    subject.apply(executor=executors.TWO)

    executors.wait_running(subject, 1)

    pods = executors.pods(subject, "statefulspark.io/epoch=1")
    assert executors.names(pods) == ["totals-driver-1-exec-1", "totals-driver-1-exec-2"]
    owners = [cast("Mapping[str, object]", pod["metadata"])["ownerReferences"] for pod in pods]
    assert [[(one["kind"], one["name"]) for one in owned] for owned in cast("list[list[dict[str, str]]]", owners)] == [
        [("Pod", "totals-driver-1")],
        [("Pod", "totals-driver-1")],
    ]
    subject.wait_batch(3)
    claims.is_exact(subject)


def test_spark_leaves_what_the_template_of_an_executor_says_and_gives_it_five_seconds_to_end(subject: job.Job) -> None:
    subject.apply(executor=executors.TWO)
    executors.wait_running(subject, 1)

    pods = executors.pods(subject)

    assert [executors.missing(subject, pod) for pod in pods] == [[], []]
    assert [cast("Mapping[str, object]", pod["spec"])["terminationGracePeriodSeconds"] for pod in pods] == [5, 5]


def test_executors_are_encrypted_and_the_secret_is_nowhere_to_be_read(subject: job.Job) -> None:
    subject.apply(executor=executors.TWO)
    executors.wait_running(subject, 1)
    subject.wait_batch(3)

    secret = subject.kube.call("get", "secret", "totals-network", "--output", "jsonpath={.data.secret}")
    seen = [subject.kube.call("get", "pods,configmaps,ssj", "--output", "yaml")]
    seen += [
        subject.kube.call("logs", pod) for pod in (subject.driver_pod(), *executors.names(executors.pods(subject)))
    ]

    assert len(secret) > 20
    assert not [one for one in seen if secret in one]
    claims.is_exact(subject)


@pytest.mark.parametrize("end", ["process", "pod"])
def test_executors_that_hang_go_before_those_of_the_next_epoch(subject: job.Job, end: str) -> None:
    subject.apply(executor=executors.TWO)
    executors.wait_running(subject, 1)
    subject.wait_checkpoint()
    batch = subject.committed()
    for pod in executors.names(executors.pods(subject)):
        freeze(subject, pod)

    if end == "process":
        subject.kill_driver_process()
    else:
        subject.kube.delete_pod_now(subject.driver_pod())

    executors.wait_running(subject, 2)
    assert executors.names(executors.pods(subject)) == ["totals-driver-2-exec-1", "totals-driver-2-exec-2"]
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)


def test_lost_executor_is_counted_with_its_reason(subject: job.Job) -> None:
    subject.apply(executor=executors.TWO)
    executors.wait_running(subject, 1)
    batch = subject.wait_batch(3)

    subject.kube.delete_pod_now("totals-driver-1-exec-1")

    waiting.until(subject.see, lambda seen: kubectl.text(seen.status, "executors", "lost") == "1", "one executor lost")
    executors.wait_running(subject, 1)
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    assert subject.see().epoch == 1


def test_executors_without_room_make_a_job_not_ready(subject: job.Job) -> None:
    greedy = {**executors.TWO, "resources": {"requests": {"cpu": "1000"}, "limits": {"memory": "1536Mi"}}}

    subject.apply(executor=greedy)

    seen = waiting.until(subject.see, lambda seen: "0 of 2 executors" in seen.message, "the shortage is told")
    claims.says(seen, "cannot be scheduled")
    assert seen.condition("Ready").get("status") == "False"


def test_standby_keeps_its_executors_when_it_takes_over(subject: job.Job) -> None:
    subject.apply(executor=executors.TWO)
    executors.wait_running(subject, 1)
    subject.wait_checkpoint()
    batch = subject.committed()

    subject.change(sparkConf={"spark.ui.showConsoleProgress": "false"})

    waiting.until(subject.see, lambda seen: kubectl.text(seen.status, "upgrade", "state") == "Stable", "stable")
    executors.wait_running(subject, 2)
    assert '"rehearsed on state", "query": "numbers", "has_run": true' in subject.kube.call("logs", "totals-standby-1")
    assert subject.driver_pod() == "totals-standby-1"
    assert executors.names(executors.pods(subject)) == ["totals-standby-1-exec-1", "totals-standby-1-exec-2"]
    subject.wait_batch(batch + 3)
    waiting.until(lambda: _scratch(subject), lambda found: not found, "nothing of the rehearsals is left")
    claims.is_exact(subject)


def _scratch(subject: job.Job) -> list[str]:
    """Return what is in the scratch folder, where Spark writes for a while after a rehearsal."""
    return [key for key in subject.files() if key.startswith(layout.SCRATCH)]


def test_deleted_job_leaves_no_pod_and_no_configuration(subject: job.Job) -> None:
    subject.apply(executor=executors.TWO)
    executors.wait_running(subject, 1)
    subject.wait_batch(2)

    subject.kube.delete(job.RESOURCE, waiting.PATIENCE_S)

    def left() -> list[str]:
        listed = subject.kube.call("get", "pods,configmaps", "--output", "name").split()
        return [name for name in listed if name not in ("configmap/files", "configmap/kube-root-ca.crt")]

    waiting.until(left, lambda found: not found, "nothing is left")
    claims.is_exact(subject)


def _prefers(node: str) -> dict[str, object]:
    """Return the affinity of a pod that is on a node as long as that is there."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}}


def test_executors_of_a_driver_on_a_lost_node_go_before_those_of_the_next_epoch(
    subject: job.Job, cluster: bed.Bed
) -> None:
    """The driver's node is cut off: its executors, on the other node, hold what those of the next epoch need."""
    driver, worker = job.mount_files("driver"), job.mount_files("executor")
    for template, node in ((driver, "n2"), (worker, "n1")):
        cast("dict[str, object]", template["spec"])["affinity"] = _prefers(node)
    subject.apply(executor={**executors.TWO, "podTemplate": worker}, driver={"podTemplate": driver})
    executors.wait_running(subject, 1)
    subject.wait_checkpoint()
    batch = subject.committed()

    cluster.cut_node(2)
    try:
        executors.wait_running(subject, 2)
        assert {name for name in executors.names(executors.pods(subject)) if "-driver-1-" in name} == set()
        subject.wait_batch(batch + 3)
        claims.is_exact(subject)
    finally:
        cluster.heal_node(2)
