"""Without an API server, beside an etcd that sleeps, without an operator: jobs run on, and a change is made once."""

from __future__ import annotations

import random

import pytest
from demo import kubectl
from testbed import bed, claims, job, outages, waiting

AWAY_S = 20.0
FORCED_S = 10.0
KILLS = 6
SEED = 20
ANOTHER = {"spark.ui.showConsoleProgress": "false"}
"""A setting that changes nothing but the revision."""


def begin(subject: job.Job, **spec: object) -> int:
    """Apply the job, and return the batch that is committed when it has a checkpoint."""
    subject.apply(**spec)
    subject.wait_batch(2)
    subject.wait_checkpoint()
    return subject.committed()


def wait_upgraded(subject: job.Job) -> None:
    """Wait until the upgrade is through."""
    waiting.until(subject.see, lambda seen: _upgrade(seen) in ("FirstCheckpoint", "Stable"), "the upgrade is done")


def test_job_runs_on_without_an_api_server_and_is_upgraded_afterwards(subject: job.Job, cluster: bed.Bed) -> None:
    batch, pod = begin(subject), subject.driver_pod()

    with outages.without_api_server(cluster):
        subject.wait_batch(batch + 5)
    subject.change(sparkConf=ANOTHER)

    wait_upgraded(subject)
    subject.wait_batch(subject.committed() + 3)
    claims.is_exact(subject)
    seen = subject.see()
    assert (seen.epoch, len(subject.savepoints()), kubectl.text(seen.status, "restarts", "count") or "0") == (2, 1, "0")
    assert subject.driver_pod() != pod


def test_api_server_restarts_in_the_middle_of_an_upgrade(subject: job.Job, cluster: bed.Bed) -> None:
    begin(subject)

    subject.change(sparkConf={"spark.sql.shuffle.partitions": "3"})
    subject.wait_upgrade("Prepare")
    with outages.without_api_server(cluster):
        assert waiting.while_(subject.committed, seconds=AWAY_S)[-1] > 2, "the old version goes on"

    wait_upgraded(subject)
    subject.wait_batch(subject.committed() + 3)
    claims.is_exact(subject)
    assert (subject.see().epoch, len(subject.savepoints())) == (2, 1)


def test_slow_etcd_slows_an_upgrade_and_a_restart_and_repeats_neither(subject: job.Job, cluster: bed.Bed) -> None:
    begin(subject)

    with outages.slow_etcd(cluster):
        subject.change(sparkConf=ANOTHER)
        wait_upgraded(subject)
        batch = subject.committed()
        subject.kube.delete_pod_now(subject.driver_pod())
        subject.wait_batch(batch + 3)

    claims.is_exact(subject)
    assert len(subject.savepoints()) == 1
    waiting.until(subject.see, lambda seen: seen.epoch == 3, "two drivers since the first")
    assert max(waiting.while_(lambda: subject.see().epoch, seconds=claims.CALM_S)) == 3


@pytest.mark.parametrize("end", ["process", "pod"])
def test_driver_that_dies_without_an_operator_is_replaced_once_by_the_next_one(
    subject: job.Job, cluster: bed.Bed, end: str
) -> None:
    begin(subject)
    pod = subject.driver_pod()

    with outages.without_operator(cluster):
        if end == "process":
            subject.kill_driver_process()
        else:
            subject.kube.delete_pod_now(pod)
        waiting.until(lambda: _runs(subject, pod), lambda runs: not runs, "the driver is dead")
        # Of a pod whose deletion is forced the process ends some seconds after the object.
        waiting.while_(subject.committed, seconds=FORCED_S)
        batch = subject.committed()
        assert waiting.while_(subject.committed, seconds=claims.CALM_S) == [batch], "nobody goes on"

    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    waiting.until(subject.see, lambda seen: kubectl.text(seen.status, "restarts", "count") == "1", "it is counted")
    assert subject.see().epoch == 2


@pytest.mark.parametrize("mode", ["Warm", "Cold"])
def test_operator_killed_again_and_again_during_an_upgrade(subject: job.Job, cluster: bed.Bed, mode: str) -> None:
    """At moments that follow from a seed; `tests/transitions` has every two deeds between which it can die."""
    chance = random.Random(f"{SEED}/{mode}")
    begin(subject, upgrade={"strategy": mode})

    subject.change(sparkConf={"spark.sql.shuffle.partitions": "3"})
    for _ in range(KILLS):
        waiting.while_(lambda: None, seconds=chance.uniform(0.5, 9.0))
        outages.kill_operator(cluster)

    wait_upgraded(subject)
    subject.wait_batch(subject.committed() + 3)
    claims.is_exact(subject)
    assert (subject.see().epoch, len(subject.savepoints())) == (2, 1)


def _upgrade(seen: job.Seen) -> str | None:
    return kubectl.text(seen.status, "upgrade", "state")


def _runs(subject: job.Job, pod: str) -> bool:
    phase = "jsonpath={.status.phase}"
    return subject.kube.call("get", "pod", pod, "--ignore-not-found", "--output", phase).strip() == "Running"
