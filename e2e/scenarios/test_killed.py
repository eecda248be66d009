"""Whatever is killed, whenever: the sums stay exact, and there is one savepoint for one change."""

from __future__ import annotations

import json

import pytest
from demo import kubectl
from testbed import bed, claims, job, waiting


def test_driver_process_killed(subject: job.Job) -> None:
    subject.apply()
    batch = subject.wait_batch(3)
    subject.wait_checkpoint()

    subject.kill_driver_process()

    subject.wait_running(epoch=2)
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    waiting.until(subject.see, _is_restored, "the restart is counted, and the checkpoint is named that it went on from")
    assert subject.see().epoch == 2


@pytest.mark.parametrize("step", ["Prepare", "SavepointPreCopy"])
def test_operator_killed_during_an_upgrade(subject: job.Job, cluster: bed.Bed, step: str) -> None:
    subject.apply()
    batch = subject.wait_batch(2)
    subject.wait_checkpoint()

    subject.change(sparkConf={"spark.sql.shuffle.partitions": "3"})
    operator = cluster.operator()
    pods = json.loads(operator.call("get", "pods", "--output", "json"))["items"]
    subject.wait_upgrade(step)
    for pod in pods:
        operator.delete_pod_now(str(kubectl.text(pod, "metadata", "name")))

    waiting.until(subject.see, lambda seen: _upgrade(seen) in ("FirstCheckpoint", "Stable"), "the upgrade is done")
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    assert len(subject.savepoints()) == 1
    assert subject.see().epoch == 2


def test_deleted_job_leaves_its_state(subject: job.Job) -> None:
    subject.apply()
    subject.wait_batch(2)
    subject.wait_checkpoint()

    subject.kube.delete(job.RESOURCE, waiting.PATIENCE_S)

    claims.is_exact(subject)
    before = subject.files()
    assert any(key.startswith("checkpoints/") for key in before)

    subject.apply()

    seen = subject.wait_stalled("StateOwnedByAnother")
    claims.says(seen, f"{subject.namespace}/{job.NAME}", "storage.ownership")
    claims.stays_calm(subject, epochs_max=seen.epoch)
    claims.keeps(subject, before)
    batch = len(subject.output.list_names("_commits")) - 1

    subject.change(storage={"ownership": "TakeOver"})

    subject.wait_running()
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)


def _is_restored(seen: job.Seen) -> bool:
    count, origin = (kubectl.text(seen.status, *path) for path in (("restarts", "count"), ("restoredFrom",)))
    return (count, str(origin).startswith("checkpoint")) == ("1", True)


def _upgrade(seen: job.Seen) -> str | None:
    return kubectl.text(seen.status, "upgrade", "state")
