"""S3 that cannot be reached, or refuses: the job waits, says why, and goes on by itself or after a correction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from demo import kubectl
from testbed import bed, claims, job, totals, waiting

AWAY_S = 40.0


@pytest.fixture
def s3(cluster: bed.Bed) -> Iterator[bed.Bed]:
    """The cluster's S3 server, which may be stopped; it runs again afterwards."""
    yield cluster
    cluster.start_s3()


def waits_for_storage(seen: job.Seen) -> bool:
    """Tell whether the operator has looked at storage, could not read it, and does nothing because of that."""
    return seen.reason == "StorageUnreadable" and seen.condition("StorageReachable").get("status") == "False"


def test_running_job_outlives_an_outage(subject: job.Job, s3: bed.Bed) -> None:
    subject.apply()
    batch = subject.wait_batch(2)
    subject.wait_checkpoint()

    s3.stop_s3()
    epochs = waiting.while_(lambda: subject.see().epoch, seconds=AWAY_S)
    s3.start_s3()

    assert max(epochs) <= 3, epochs
    subject.wait_batch(batch + 8)
    claims.is_exact(subject)


def test_job_applied_during_an_outage(subject: job.Job, s3: bed.Bed) -> None:
    s3.stop_s3()
    subject.apply()

    seen = waiting.until(subject.see, waits_for_storage, "StorageReachable False")
    claims.says(seen, s3.connection.s3_pod_endpoint)
    assert seen.condition("StorageReachable")["reason"] == "StorageUnreachable"
    assert s3.connection.s3_pod_endpoint in str(seen.condition("StorageReachable")["message"])
    assert max(waiting.while_(lambda: subject.see().epoch, seconds=claims.CALM_S)) == 0

    s3.start_s3()

    subject.wait_batch(2)
    claims.is_exact(subject)
    assert subject.see().epoch == 1


def test_secret_that_is_missing(subject: job.Job) -> None:
    subject.kube.call("delete", f"secret/{job.SECRET}")
    subject.apply()

    seen = waiting.until(subject.see, lambda seen: "does not exist" in seen.message, "a sentence about the Secret")
    claims.says(seen, f"Secret {subject.namespace}/{job.SECRET}", "create it")
    subject.kube.apply([subject.secret(key_name="AWS_SECRET_KEY")])
    seen = waiting.until(subject.see, lambda seen: " has no " in seen.message, "a sentence about its keys")
    claims.says(seen, f"Secret {subject.namespace}/{job.SECRET}", "AWS_SECRET_ACCESS_KEY", "add what is missing")
    assert max(waiting.while_(lambda: subject.see().epoch, seconds=claims.CALM_S)) == 0

    subject.kube.apply([subject.secret()])

    subject.wait_batch(1)
    claims.is_exact(subject)


def test_credentials_that_are_wrong(subject: job.Job) -> None:
    subject.kube.apply([subject.secret("not-the-key")])
    subject.apply()

    seen = waiting.until(subject.see, waits_for_storage, "StorageReachable False")
    claims.says(seen, subject.state_uri)
    assert seen.condition("StorageReachable")["reason"] == "AccessDenied"
    assert max(waiting.while_(lambda: subject.see().epoch, seconds=claims.CALM_S)) == 0

    subject.kube.apply([subject.secret()])

    subject.wait_batch(1)
    claims.is_exact(subject)


def test_driver_killed_during_an_outage(subject: job.Job, s3: bed.Bed) -> None:
    subject.apply()
    batch = subject.wait_batch(2)
    subject.wait_checkpoint()
    pod = subject.driver_pod()

    s3.stop_s3()
    subject.kube.delete_pod_now(pod)

    seen = waiting.until(subject.see, waits_for_storage, "StorageReachable False")
    claims.says(seen, "the content of storage is unknown", subject.state_uri, "Could not connect")
    assert max(waiting.while_(lambda: subject.see().epoch, seconds=claims.CALM_S)) == 1

    s3.start_s3()

    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    waiting.until(
        subject.see, lambda seen: kubectl.text(seen.status, "restoredFrom") is not None, "restoredFrom is told"
    )
    assert totals.committed(subject.output) > batch
