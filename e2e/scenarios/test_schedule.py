"""Savepoints on a schedule: one each minute, the oldest pruned, none while the job is suspended, and a start from one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from demo import kubectl
from statefulspark.checkpoint import catalog, verify
from statefulspark.contract import layout
from testbed import claims, job, waiting

CRON, ZONE = "* * * * *", "Asia/Kathmandu"
"""Every minute, in a time zone whose clocks differ from UTC in hours and minutes: a moment in it would have another name."""
KEPT = 2
SCHEDULE: Mapping[str, object] = {"cron": CRON, "timeZone": ZONE}
SELECTOR = f"statefulspark.io/job={job.NAME},statefulspark.io/origin=Scheduled"
MINUTE = timedelta(minutes=1)
SUSPENDED_S = 130.0
"""Two full minutes at least."""

Savepoints = Mapping[str, Mapping[str, object]]
"""Objects by name, and so by their moments."""


def scheduled(subject: job.Job) -> Savepoints:
    """Return the objects that the schedule has made for the job, by its labels, the oldest first."""
    found = subject.kube.call("get", "sparksavepoints", "--selector", SELECTOR, "--output", "json")
    listed = cast("Sequence[Mapping[str, object]]", json.loads(found)["items"])
    named = {str(kubectl.text(one, "metadata", "name")): one for one in listed}
    return {name: named[name] for name in sorted(named)}


def completed(subject: job.Job) -> Savepoints:
    """Return those that are complete on storage."""
    found = scheduled(subject)
    return {name: one for name, one in found.items() if kubectl.text(one, "status", "phase") == "Completed"}


def wait_completed(subject: job.Job, count: int) -> Savepoints:
    """Wait until so many are complete."""
    return waiting.until(
        lambda: completed(subject),
        lambda found: len(found) >= count,
        f"{count} scheduled savepoints",
        explain=lambda: str(subject.see()),
    )


def moment_of(name: str) -> datetime:
    """Return the moment that a scheduled savepoint is named after, which is in UTC."""
    return datetime.strptime(name.removeprefix(f"{job.NAME}-scheduled-"), "%Y%m%d%H%M").replace(tzinfo=UTC)


def time_at(found: Mapping[str, object], *path: str) -> datetime:
    """Return the time at a path."""
    return datetime.fromisoformat(str(kubectl.text(found, *path)))


def missed(seen: job.Seen) -> int:
    """Return how many moments were missed."""
    return int(kubectl.text(seen.status, "savepointSchedule", "missed") or 0)


def tells_next_minute(seen: job.Seen) -> bool:
    """Tell whether the status has the next minute, in the schedule's words and in UTC."""
    if kubectl.text(seen.status, "savepointSchedule", "schedule") != f"{CRON} {ZONE}":
        return False
    next_at = time_at(seen.status, "savepointSchedule", "nextTime")
    return (next_at.second, next_at.microsecond) == (0, 0) and timedelta(0) < next_at - datetime.now(UTC) <= MINUTE


def is_of_its_minute(name: str, savepoint: Mapping[str, object]) -> None:
    """Check that an object is the job's, was made at its moment, and has its files in the job's folder."""
    made_at, done_at = (
        time_at(savepoint, "metadata", "creationTimestamp"),
        time_at(savepoint, "status", "completionTime"),
    )
    assert moment_of(name) <= made_at < moment_of(name) + 2 * MINUTE
    assert made_at <= done_at < made_at + 2 * MINUTE
    spec = (kubectl.text(savepoint, "spec", "jobName"), kubectl.text(savepoint, "spec", "deletionPolicy"))
    assert spec == (job.NAME, "Retain")
    assert kubectl.text(savepoint, "status", "origin") == "Scheduled"
    assert location_of(savepoint).endswith(f"-{name}")


def location_of(savepoint: Mapping[str, object]) -> str:
    """Return the folder of a savepoint."""
    return str(kubectl.text(savepoint, "status", "location")).rstrip("/")


def pruned(subject: job.Job) -> list[str]:
    """Return what the events say about savepoints that were pruned."""
    events = [event for event in subject.kube.list("events") if event.get("reason") == "SavepointPruned"]
    return [str(event.get("message")) for event in events]


def on_storage(subject: job.Job, name: str) -> str | None:
    """Return the folder on storage of a scheduled savepoint; None if it is gone."""
    return next(
        (folder.rstrip("/") for folder in subject.savepoints() if folder.rstrip("/").endswith(f"-{name}")), None
    )


def test_savepoints_are_taken_each_minute_and_only_the_newest_are_kept(subject: job.Job) -> None:
    subject.apply(savepoint={"schedule": SCHEDULE, "retention": {"count": KEPT}})
    waiting.until(subject.see, tells_next_minute, "the status has the next minute")

    taken = wait_completed(subject, KEPT)
    for name, savepoint in taken.items():
        is_of_its_minute(name, savepoint)
    oldest = min(taken)
    waiting.until(lambda: scheduled(subject), lambda found: oldest not in found, "the third one prunes the oldest")

    kept = completed(subject)
    assert len(kept) == KEPT
    assert min(kept) > oldest
    assert on_storage(subject, oldest) is None
    newest = subject.state.child(f"{layout.SAVEPOINTS}/{on_storage(subject, max(kept))}")
    assert verify.verify(newest, catalog.read_manifest(newest, "")).ok
    told = f"{oldest}: {KEPT} newer ones are kept."
    waiting.until(lambda: pruned(subject), lambda said: told in said, "it is told")
    assert subject.see().epoch == 1
    subject.wait_batch(subject.committed() + 3)
    claims.is_exact(subject)


def test_suspended_job_makes_none_and_goes_on_from_the_newest_that_its_spec_names(subject: job.Job) -> None:
    subject.apply(savepoint={"schedule": SCHEDULE})
    wait_completed(subject, 1)
    subject.change(suspend=True)
    seen = waiting.until(subject.see, lambda seen: seen.reason == "Suspended", "Suspended")
    before, missed_before, batch = tuple(scheduled(subject)), missed(seen), subject.committed()

    assert waiting.while_(lambda: tuple(scheduled(subject)), seconds=SUSPENDED_S) == [before]

    newest, savepoint = max(completed(subject).items())
    resumed_at = datetime.now(UTC)
    subject.change(suspend=False, restore={"source": {"savepointName": f"{newest}"}})
    subject.wait_running(epoch=2)
    waiting.until(
        subject.see,
        lambda seen: str(kubectl.text(seen.status, "restoredFrom")).rstrip("/") == location_of(savepoint),
        f"it is restored from {newest}",
    )
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)

    made = waiting.until(lambda: completed(subject), lambda found: max(found) > max(before), "it is made up for")
    again = [moment_of(name) for name in made if name > max(before)]
    assert len([moment for moment in again if moment <= resumed_at]) <= 1, "one for all that were left out"
    left_out = (min(again) - moment_of(max(before))) // MINUTE - 1
    assert left_out >= 1
    waiting.until(subject.see, lambda seen: missed(seen) >= missed_before + left_out, f"{left_out} more were missed")
    claims.is_exact(subject)
