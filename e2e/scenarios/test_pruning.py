"""What no driver prunes: the folder of a suspended job is cleared of what nothing needs, and of a deleted one as it says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from demo import kubectl
from statefulspark.checkpoint import catalog, verify
from statefulspark.contract import layout
from testbed import bed, claims, job, waiting

REST_S = 400.0
"""A job is left alone for five minutes before its folder is looked through; this is longer."""
CLEARED_S = 600.0
"""The same, and then the grace time of files that were marked."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """A job whose resource is gone while its state was kept.

    Attributes:
        subject: The job.
        files: What it left on storage.
        since_s: When it was deleted, on the monotonic clock.
    """

    subject: job.Job
    files: dict[str, str]
    since_s: float


@pytest.fixture(scope="module")
def deleted(cluster: bed.Bed) -> Iterator[Deleted]:
    """A job that was deleted before the others of this file, which rest meanwhile."""
    subject = job.Job(cluster, "deleted-job-that-keeps-its-state")
    subject.prepare()
    subject.apply(checkpoint={"retention": {"count": 1}, "pruneDelay": "1s"})
    subject.wait_batch(3)
    subject.wait_checkpoint()
    subject.kube.delete(job.RESOURCE, waiting.PATIENCE_S)
    yield Deleted(subject, subject.files(), time.monotonic())
    subject.forget()


def pruned(seen: job.Seen) -> int:
    """Return how many files were removed, once nothing unused is left."""
    unused = int(kubectl.text(seen.status, "pruning", "unusedFiles") or 0)
    return int(kubectl.text(seen.status, "pruning", "freedFiles") or 0) if unused == 0 else 0


def reasons(subject: job.Job) -> set[str]:
    """Return the reasons of all events in the namespace."""
    listed = json.loads(subject.kube.call("get", "events", "--output", "json"))["items"]
    return {str(kubectl.text(event, "reason")) for event in listed}


@pytest.mark.usefixtures("deleted")
def test_suspended_job_is_cleared_of_what_no_snapshot_needs_and_goes_on(subject: job.Job) -> None:
    subject.apply(checkpoint={"retention": {"count": 1}, "pruneDelay": "30s"})
    subject.wait_batch(5)
    subject.wait_checkpoint()
    subject.change(suspend=True)
    waiting.until(subject.see, lambda seen: seen.reason == "Suspended", "Suspended, and no longer on its way there")
    before = subject.files()

    seen = waiting.until(subject.see, lambda seen: pruned(seen) > 0, "what is unused is removed", timeout_s=CLEARED_S)

    assert "StoragePruned" in reasons(subject)  # What the driver had marked by itself is not told again before that.
    gone = before.keys() - subject.files().keys()
    assert any(key.startswith(layout.GENERATIONS) for key in gone)
    assert not [key for key in gone if key.startswith((layout.SAVEPOINTS, "epochs/", "lineages/"))]
    (savepoint,) = subject.savepoints()
    folder = subject.state.child(f"{layout.SAVEPOINTS}/{savepoint.rstrip('/')}")
    assert verify.verify(folder, catalog.read_manifest(folder, "")).ok
    claims.stays_calm(subject, epochs_max=1, seconds=90)
    assert subject.see().status["pruning"] == seen.status["pruning"], "one look is enough"
    batch = subject.committed()

    subject.change(suspend=False)

    subject.wait_running(epoch=2)
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)


def test_deleted_job_leaves_nothing_if_its_policy_says_so(subject: job.Job) -> None:
    subject.apply(deletionPolicy="Delete")
    subject.wait_batch(2)
    subject.wait_checkpoint()
    subject.kube.apply(
        [
            {
                "apiVersion": "statefulspark.io/v1alpha1",
                "kind": "SparkSavepoint",
                "metadata": {"name": "before"},
                "spec": {"jobName": job.NAME},
            }
        ]
    )
    waiting.until(subject.savepoints, lambda found: len(found) == 1, "a savepoint")

    subject.kube.delete(job.RESOURCE, waiting.PATIENCE_S)

    waiting.until(subject.files, lambda found: not found, "the folder is empty")
    assert "StatePurged" in reasons(subject)

    def objects() -> list[str]:
        return subject.kube.call("get", "sparksavepoints", "--output", "name").split()

    waiting.until(objects, lambda found: not found, "objects whose files went with the folder are gone")
    claims.is_exact(subject)


def test_deleted_job_that_keeps_its_state_is_not_pruned_by_anybody(deleted: Deleted) -> None:
    """A folder without a resource belongs to people; the operator never looks into it."""
    rested_s = time.monotonic() - deleted.since_s

    seen = waiting.while_(deleted.subject.files, seconds=REST_S - rested_s)

    assert seen == [deleted.files]
