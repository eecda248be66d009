"""The executors of a scenario's job: small ones that have the job's files, found by their labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from demo import kubectl

from testbed import job, waiting

LABEL = "statefulspark.io/role=executor"
TWO: Mapping[str, object] = {
    "instances": 2,
    "memory": "512m",
    "resources": {"requests": {"cpu": "200m"}, "limits": {"memory": "1536Mi"}},
    "template": job.mount_files("executor"),
}


def pods(subject: job.Job, *selectors: str) -> Sequence[Mapping[str, object]]:
    """Return the executors' pods."""
    found = subject.kube.call("get", "pods", "--selector", ",".join((LABEL, *selectors)), "--output", "json")
    return cast("Sequence[Mapping[str, object]]", json.loads(found)["items"])


def names(listed: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names of pods."""
    return sorted(str(kubectl.text(pod, "metadata", "name")) for pod in listed)


def wait_running(subject: job.Job, epoch: int) -> job.Seen:
    """Wait until both executors of an epoch run."""
    subject.wait_running(epoch)
    return waiting.until(subject.see, lambda seen: counts(seen) == ("2", "2"), f"two executors of epoch {epoch}")


def counts(seen: job.Seen) -> tuple[str | None, ...]:
    """Return how many executors were asked for and run."""
    return tuple(kubectl.text(seen.status, "executors", part) for part in ("asked", "running"))
