"""Nodes that are drained or lost, pods that are evicted, and memory that is used up, of drivers and of workers."""

from __future__ import annotations

import json
from typing import cast

import pytest
from demo import failure, kubectl
from testbed import bed, claims, executors, job, outages, waiting

LOST_WITHIN_S = 900.0
"""Kubernetes itself takes five minutes to give up the pods of a node, and the operator's may be among them."""
BUDGET = "keep-the-driver"
ONE_DRIVER = {"statefulspark.io/job": job.NAME, "statefulspark.io/role": "driver"}
SMALL_MB = 16
"""Size of a volume that is filled."""


def node_of(subject: job.Job) -> str:
    """Return the node of the current driver's pod."""
    return subject.kube.call("get", "pod", subject.driver_pod(), "--output", "jsonpath={.spec.nodeName}").strip()


def drain(subject: job.Job, node: str, timeout_s: float) -> None:
    """Drain a node of this job's pods, as a person does; the node takes no new ones from then on."""
    which = ("--pod-selector", f"statefulspark.io/job={job.NAME}", "--force", "--ignore-daemonsets")
    limit = ("--delete-emptydir-data", f"--timeout={timeout_s:.0f}s")
    subject.kube.call("drain", node, *which, *limit, timeout_s=timeout_s + 30)


def evict(subject: job.Job, pod: str) -> None:
    """Ask for the eviction of a pod, as an autoscaler does."""
    named = {"name": pod, "namespace": subject.namespace}
    document = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": named})
    path = f"/api/v1/namespaces/{subject.namespace}/pods/{pod}/eviction"
    subject.kube.call("create", "--raw", path, "--filename", "-", stdin=document)


def begin(subject: job.Job, **spec: object) -> int:
    """Apply the job, and return the batch that is committed when it has a checkpoint."""
    subject.apply(**spec)
    subject.wait_batch(2)
    subject.wait_checkpoint()
    return subject.committed()


def test_drained_node_waits_for_the_budget_and_then_hands_the_driver_over(subject: job.Job) -> None:
    batch = begin(subject)
    pod, node = subject.driver_pod(), node_of(subject)
    budget = {"minAvailable": 1, "selector": {"matchLabels": ONE_DRIVER}}
    named = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": BUDGET}}
    subject.kube.apply([{**named, "spec": budget}])

    try:
        with pytest.raises(failure.DemoFailedError, match="disruption budget"):
            drain(subject, node, timeout_s=20)
        assert (subject.see().epoch, subject.driver_pod()) == (1, pod)
        batch = subject.wait_batch(batch + 2)

        subject.kube.delete(f"poddisruptionbudget/{BUDGET}", waiting.PATIENCE_S)
        drain(subject, node, timeout_s=120)

        subject.wait_running(epoch=2)
        subject.wait_batch(batch + 3)
        claims.is_exact(subject)
        assert node_of(subject) != node
        assert subject.see().epoch == 2
    finally:
        subject.kube.call("uncordon", node)


@pytest.mark.parametrize("instances", [0, 2], ids=["driver", "with-executors"])
def test_evicted_driver_is_replaced(subject: job.Job, instances: int) -> None:
    batch = begin(subject, **({"executor": executors.TWO} if instances else {}))

    evict(subject, subject.driver_pod())

    subject.wait_running(epoch=2)
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    assert subject.see().epoch == 2


def test_evicted_executor_is_asked_for_again(subject: job.Job) -> None:
    begin(subject, executor=executors.TWO)
    executors.wait_running(subject, 1)
    batch = subject.committed()

    evict(subject, "totals-driver-1-exec-2")

    waiting.until(subject.see, lambda seen: kubectl.text(seen.status, "executors", "lost") == "1", "one executor lost")
    executors.wait_running(subject, 1)
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    assert subject.see().epoch == 1


def test_driver_that_fills_its_volume_is_evicted_by_its_node_and_replaced(subject: job.Job) -> None:
    template = job.mount_files("driver")
    spec = cast("dict[str, list[dict[str, object]]]", template["spec"])
    spec["volumes"].append({"name": "small", "emptyDir": {"sizeLimit": f"{SMALL_MB}Mi"}})
    cast("list[object]", spec["containers"][0]["volumeMounts"]).append({"name": "small", "mountPath": "/small"})
    batch = begin(subject, driver={"podTemplate": template})

    fill = f"head -c {4 * SMALL_MB}M /dev/zero > /small/filler"
    subject.kube.call("exec", subject.driver_pod(), "--", "sh", "-c", fill)

    subject.wait_running(epoch=2)
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)


def test_driver_out_of_memory(subject: job.Job) -> None:
    batch = begin(subject)

    outages.take_all_memory(subject, subject.driver_pod(), "/statefulspark run |java")

    subject.wait_running(epoch=2)
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    waiting.until(subject.see, lambda seen: kubectl.text(seen.status, "restarts", "count") == "1", "it is counted")


def test_worker_of_an_executor_out_of_memory(subject: job.Job) -> None:
    begin(subject, executor=executors.TWO)
    executors.wait_running(subject, 1)
    batch = subject.committed()

    outages.take_all_memory(subject, "totals-driver-1-exec-1", "statefulspark.workers.daemon")

    subject.wait_batch(batch + 5)
    claims.is_exact(subject)
    assert subject.see().epoch == 1


def test_executor_out_of_memory(subject: job.Job) -> None:
    begin(subject, executor=executors.TWO)
    executors.wait_running(subject, 1)
    batch = subject.committed()

    outages.take_all_memory(subject, "totals-driver-1-exec-1", "java")

    waiting.until(subject.see, lambda seen: kubectl.text(seen.status, "executors", "lost") == "1", "one executor lost")
    subject.wait_batch(batch + 5)
    claims.is_exact(subject)
    assert subject.see().epoch == 1


def test_both_nodes_are_lost_in_turn(subject: job.Job, cluster: bed.Bed) -> None:
    outages.require_own(cluster)
    begin(subject)

    for epoch in (2, 3):
        number = int(node_of(subject).removeprefix("n"))
        batch = subject.committed()
        cluster.cut_node(number)
        try:
            _wait_batch(subject, batch + 3)
            claims.is_exact(subject)
        finally:
            cluster.heal_node(number)
        subject.wait_running(epoch=epoch)
        subject.wait_checkpoint()
        assert int(node_of(subject).removeprefix("n")) != number

    claims.is_exact(subject)


def test_state_is_larger_than_the_memory_of_one_executor(subject: job.Job) -> None:
    """Its keys are spread over two, and beyond their memory; what a lost one held is read from storage by the others."""
    memory_mb, ballast_mb = 1536, 2000
    resources = {"requests": {"cpu": "200m"}, "limits": {"memory": f"{memory_mb}Mi"}}
    executor = {**executors.TWO, "resources": resources, "localDisk": {"size": "6Gi"}}
    parameters = {"ballast_mb": str(ballast_mb)}
    subject.apply(executor=executor, job={"parameters": parameters}, sparkConf={"spark.sql.shuffle.partitions": "4"})
    _wait_batch(subject, ballast_mb // job.BALLAST_MB_PER_BATCH + 3)
    subject.wait_checkpoint()
    batch = subject.committed()

    subject.kube.delete_pod_now("totals-driver-1-exec-1")

    _wait_batch(subject, batch + 5)
    claims.is_exact(subject)
    assert subject.see().epoch == 1


def _wait_batch(subject: job.Job, number: int) -> None:
    """Wait for a batch for as long as a lost node may take."""
    waiting.until(subject.committed, lambda found: found >= number, f"batch {number}", timeout_s=LOST_WITHIN_S)
