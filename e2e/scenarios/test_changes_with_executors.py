"""A job with executors is changed, stopped and left alone: they come and go with their driver, and the sums stay exact."""

from __future__ import annotations

from demo import kubectl
from testbed import bed, claims, executors, job, outages, waiting

ANOTHER: dict[str, object] = {"spark.ui.showConsoleProgress": "false"}
"""A setting that changes nothing but the revision."""
AWAY_S = 120.0
HANGS = "        while count > 2500:\n            __import__('time').sleep(1)\n"
"""What keeps a version in one batch for good, some seconds after it has begun."""


def begin(subject: job.Job, **spec: object) -> int:
    """Apply a job with two executors, and return the batch that is committed when it has a checkpoint."""
    subject.apply(executor=executors.TWO, **spec)
    executors.wait_running(subject, 1)
    subject.wait_checkpoint()
    return subject.committed()


def wait_upgrade(subject: job.Job, state: str, epoch: int) -> None:
    """Wait until the upgrade is in a state, the driver of an epoch runs, and nothing says any more that it is under way."""

    def is_through(seen: job.Seen) -> bool:
        upgrading = seen.condition("Upgrading").get("status")
        told = (kubectl.text(seen.status, "upgrade", "state"), seen.phase, seen.epoch, upgrading)
        return told == (state, "Running", epoch, "False")

    waiting.until(subject.see, is_through, f"the upgrade is {state}, epoch {epoch} runs")


def wait_pods(subject: job.Job, *names: str) -> None:
    """Wait until these executors are there, and no others."""
    waiting.until(lambda: executors.names(executors.pods(subject)), lambda found: found == list(names), f"only {names}")


def goes_on_exactly(subject: job.Job, batch: int) -> None:
    """Wait for three more batches than there were, and compare everything with the truth."""
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)


def test_fewer_executors_are_an_upgrade_with_its_savepoint(subject: job.Job) -> None:
    batch = begin(subject)

    subject.change(executor={"instances": 1})

    wait_upgrade(subject, "Stable", 2)
    waiting.until(subject.see, lambda seen: executors.counts(seen) == ("1", "1"), "one executor of one")
    wait_pods(subject, "totals-standby-1-exec-1")
    goes_on_exactly(subject, batch)
    assert len(subject.savepoints()) == 1


def test_suspended_job_leaves_no_executor_and_goes_on_from_its_savepoint(subject: job.Job) -> None:
    begin(subject)

    subject.change(suspend=True)

    waiting.until(subject.see, lambda seen: seen.phase == "Suspended", "Suspended")
    wait_pods(subject)
    batch = subject.committed()
    assert len(subject.savepoints()) == 1

    subject.change(suspend=False)

    executors.wait_running(subject, 2)
    wait_pods(subject, "totals-driver-2-exec-1", "totals-driver-2-exec-2")
    goes_on_exactly(subject, batch)


def test_change_that_is_taken_back_while_its_standby_prepares_leaves_the_driver_alone(subject: job.Job) -> None:
    batch = begin(subject)

    subject.change(sparkConf=ANOTHER)
    subject.wait_upgrade("Prepare")
    subject.change(sparkConf=dict.fromkeys(ANOTHER))

    wait_upgrade(subject, "Aborted", 1)
    wait_pods(subject, "totals-driver-1-exec-1", "totals-driver-1-exec-2")
    waiting.until(subject.see, lambda seen: seen.condition("Ready").get("status") == "True", "Ready")
    goes_on_exactly(subject, batch)
    assert subject.savepoints() == []


def test_change_that_is_taken_back_once_it_runs_is_one_more_upgrade(subject: job.Job) -> None:
    begin(subject)
    subject.change(sparkConf=ANOTHER)
    wait_upgrade(subject, "Stable", 2)
    batch = subject.committed()

    subject.change(sparkConf=dict.fromkeys(ANOTHER))

    wait_upgrade(subject, "Stable", 3)
    executors.wait_running(subject, 3)
    goes_on_exactly(subject, batch)
    assert len(subject.savepoints()) == 2


def test_corrected_version_gets_past_a_batch_that_hangs(subject: job.Job) -> None:
    good = job.FILES.joinpath("totals.py").read_text("utf-8")
    hangs = good.replace("        yield key,", HANGS + "        yield key,")
    subject.kube.patch("configmap/files", {"data": {"hangs.py": hangs}})
    begin(
        subject,
        job={"file": f"{job.FOLDER}/hangs.py"},
        upgrade={"savepointTimeout": "30s"},
        health={"unavailableAfter": "20s"},
    )

    seen = waiting.until(
        subject.see, lambda seen: seen.condition("Available").get("status") == "False", "it is not available"
    )
    assert "of query numbers has been running since" in str(seen.condition("Available")["message"])
    batch = subject.committed()
    subject.change(job={"file": job.FILE})

    wait_upgrade(subject, "Stable", 2)
    executors.wait_running(subject, 2)
    goes_on_exactly(subject, batch)
    waiting.until(subject.see, lambda seen: seen.condition("Ready").get("status") == "True", "Ready")


def test_job_runs_on_without_an_operator_for_two_minutes_and_is_changed_once_afterwards(
    subject: job.Job, cluster: bed.Bed
) -> None:
    begin(subject)

    with outages.without_operator(cluster):
        subject.kube.delete_pod_now("totals-driver-1-exec-1")
        subject.change(sparkConf=ANOTHER)
        assert len(waiting.while_(subject.committed, seconds=AWAY_S)) > 10, "batches are committed all the time"
        wait_pods(subject, "totals-driver-1-exec-2", "totals-driver-1-exec-3")
        batch = subject.committed()

    wait_upgrade(subject, "Stable", 2)
    executors.wait_running(subject, 2)
    goes_on_exactly(subject, batch)
    assert len(subject.savepoints()) == 1
