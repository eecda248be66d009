"""A standby takes over, a bad version costs nothing, one that fails goes back; and the sums stay exact in all of it."""

from __future__ import annotations

import pytest
from demo import kubectl
from testbed import claims, job, waiting

NO_IMAGE = "localhost/nobody-built-this:1"


def state_of(seen: job.Seen, part: str) -> str | None:
    """Return the state of the upgrade, or of the standby."""
    return kubectl.text(seen.status, part, "state")


def outcomes(seen: job.Seen) -> list[str]:
    """Return how the latest upgrades ended, newest first."""
    listed = seen.status.get("history")
    return [str(kubectl.text(one, "outcome")) for one in listed] if isinstance(listed, list) else []


def wait_state(subject: job.Job, part: str, state: str) -> job.Seen:
    """Wait until the upgrade or the standby is in a state."""
    return waiting.until(subject.see, lambda seen: state_of(seen, part) == state, f"{part} {state}")


def wait_guarded(subject: job.Job) -> job.Seen:
    """Wait until a standby is ready."""
    return wait_state(subject, "standby", "Ready")


def generations(subject: job.Job) -> set[str]:
    """Return the generations that storage has."""
    return {key.split("/")[1] for key in subject.files() if key.startswith("generations/")}


def test_warm_upgrade_goes_on_in_place(subject: job.Job) -> None:
    subject.apply()
    subject.wait_batch(3)
    subject.wait_checkpoint()
    before = generations(subject)

    subject.change(sparkConf={"spark.ui.showConsoleProgress": "false"})

    seen = wait_state(subject, "upgrade", "Stable")
    assert (seen.phase, seen.epoch, subject.driver_pod()) == ("Running", 2, "totals-standby-1")
    assert (len(subject.savepoints()), outcomes(seen)[0]) == (1, "Stable")
    subject.wait_batch(subject.committed() + 3)
    claims.is_exact(subject)
    assert generations(subject) == before


@pytest.mark.parametrize("end", ["process", "pod"])
def test_killed_driver_is_replaced_by_its_standby(subject: job.Job, end: str) -> None:
    subject.apply(driver={"standby": True})
    wait_guarded(subject)
    subject.wait_checkpoint()
    batch = subject.committed()

    if end == "process":
        subject.kill_driver_process()
    else:
        subject.kube.delete_pod_now(subject.driver_pod())

    subject.wait_running(epoch=2)
    subject.wait_batch(batch + 4)
    claims.is_exact(subject)
    waiting.until(subject.see, lambda seen: _restarts(seen) == "1", "the restart is counted")
    assert subject.driver_pod() == "totals-standby-1"
    assert kubectl.text(wait_guarded(subject).status, "standby", "pod") == "totals-standby-2"
    assert subject.see().epoch == 2


@pytest.mark.parametrize(
    ("change", "good", "reason", "words"),
    [
        (
            {"job": {"file": f"{job.FOLDER}/raises.py"}},
            {"job": {"file": job.FILE}},
            "JobFileRaised",
            "raises.py line 7",
        ),
        (
            {"job": {"file": f"{job.FOLDER}/renamed.py"}},
            {"job": {"file": job.FILE}},
            "NonRestoredState",
            "operator 'a'",
        ),
        ({"image": NO_IMAGE}, {}, "ImagePullBackOff", NO_IMAGE),
    ],
    ids=["raises", "state-does-not-fit", "no-image"],
)
def test_bad_version_never_touches_the_running_one(
    subject: job.Job, change: dict[str, object], good: dict[str, object], reason: str, words: str
) -> None:
    subject.apply()
    subject.wait_batch(2)
    subject.wait_checkpoint()
    pod = subject.driver_pod()

    subject.change(**change)

    seen = wait_state(subject, "upgrade", "Blocked")
    blocked = seen.condition("UpgradeBlocked")
    assert (blocked["status"], blocked["reason"], seen.phase) == ("True", reason, "Running")
    assert words in str(blocked["message"])
    before = subject.committed()
    assert waiting.while_(lambda: (subject.see().epoch, subject.driver_pod()), seconds=claims.CALM_S) == [(1, pod)]
    assert subject.committed() > before

    subject.change(**(good or {"image": subject.bed.chosen.job_image}))

    waiting.until(subject.see, lambda seen: seen.condition("UpgradeBlocked")["status"] == "False", "not blocked")
    subject.wait_batch(subject.committed() + 2)
    claims.is_exact(subject)
    seen = subject.see()
    assert (seen.epoch, subject.driver_pod(), subject.savepoints()) == (1, pod, [])
    assert seen.condition("Ready")["status"] == "True"


def test_version_that_fails_later_goes_back(subject: job.Job) -> None:
    subject.apply()
    subject.wait_batch(2)
    subject.wait_checkpoint()

    subject.change(job={"file": f"{job.FOLDER}/tires.py"})

    seen = wait_state(subject, "upgrade", "RolledBack")
    assert outcomes(seen)[0] == "RolledBack"
    why = str(seen.condition("UpgradeBlocked")["message"])
    assert all(words in why for words in ("tires.py", "it is tired", "Change the spec to try again")), why
    batch = subject.committed()
    seen = waiting.until(subject.see, lambda seen: seen.phase == "Running", "Running")
    subject.wait_batch(batch + 4)
    claims.is_exact(subject)
    seen = waiting.until(subject.see, _is_from_the_upgrades_savepoint, "restoredFrom is the upgrade's savepoint")
    assert seen.condition("UpgradeBlocked")["status"] == "True"

    subject.change(job={"file": job.FILE})

    waiting.until(subject.see, lambda seen: seen.condition("UpgradeBlocked")["status"] == "False", "not blocked")
    assert subject.see().epoch == seen.epoch


def _restarts(seen: job.Seen) -> str | None:
    return kubectl.text(seen.status, "restarts", "count")


def _is_from_the_upgrades_savepoint(seen: job.Seen) -> bool:
    return str(kubectl.text(seen.status, "restoredFrom")).endswith("-upgrade")
