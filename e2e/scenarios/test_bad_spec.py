"""A spec that cannot work is refused with the reason, or stops with one sentence and starts once it is corrected."""

from __future__ import annotations

import pytest
from testbed import claims, job


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("file:///var/lib/state", "must be an s3:// location: state on one node's disk (file://, hostPath)"),
        ("/var/lib/state", "must be an s3:// location"),
        ("hdfs://namenode/state", "must be an s3:// location"),
        ("s3://", "storage.uri"),
    ],
    ids=["file", "host-path", "hdfs", "no-bucket"],
)
def test_state_on_a_node_is_refused(subject: job.Job, uri: str, words: str) -> None:
    refusal = subject.refusal(storage={"uri": uri})

    assert words in refusal
    assert job.RESOURCE not in subject.kube.call("get", "statefulsparkjobs", "--output", "name")


def test_job_file_that_raises(subject: job.Job) -> None:
    subject.apply(job={"file": f"{job.FOLDER}/raises.py"})

    seen = subject.wait_stalled("JobFileRaised")
    claims.says(seen, "raises.py line 7", "KeyError: 'large'", "Correct it")
    claims.stays_calm(subject, epochs_max=1)

    subject.change(job={"file": job.FILE})
    subject.wait_running(epoch=2)
    subject.wait_batch(2)
    claims.is_exact(subject)


def test_job_file_that_is_missing(subject: job.Job) -> None:
    subject.apply(job={"file": f"{job.FOLDER}/nowhere.py"})

    seen = subject.wait_stalled("JobFileMissing")
    claims.says(seen, f"{job.FOLDER}/nowhere.py", "job.file")
    claims.stays_calm(subject, epochs_max=1)


def test_savepoint_that_is_missing(subject: job.Job) -> None:
    missing = f"{subject.state_uri}/elsewhere/savepoints/00000007"
    subject.apply(restore={"source": {"uri": missing}})

    seen = subject.wait_stalled("SnapshotNotFound")
    claims.says(seen, missing)
    claims.stays_calm(subject, epochs_max=1)
    assert [key for key in subject.files() if key.startswith("generations/")] == []
