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
    "heap": "512Mi",
    "resources": {"requests": {"cpu": "200m"}, "limits": {"memory": "1536Mi"}},
    "podTemplate": job.mount_files("executor"),
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
    return tuple(kubectl.text(seen.status, "executors", part) for part in ("desired", "running"))


def missing(subject: job.Job, pod: Mapping[str, object]) -> list[str]:
    """Return what the template of an executor asks for and its pod has not, as paths, without what Spark sizes itself.

    Spark writes into the pod whatever it has a setting for, over what the template says.
    """
    config = f"{job.NAME}-config-{kubectl.text(pod, 'metadata', 'labels', 'statefulspark.io/epoch')}"
    template = json.loads(subject.kube.call("get", "configmap", config, "--output", r"jsonpath={.data.executor\.json}"))
    return [path for path in _missing(template, pod) if "/resources/" not in path]


def _missing(asked: object, seen: object, path: str = "") -> list[str]:
    """Compare JSON: an object has every field that is asked for, a list an element of the same name, or an equal one."""
    match asked, seen:
        case dict(), dict():
            return [
                gap for field, value in asked.items() for gap in _missing(value, seen.get(field), f"{path}/{field}")
            ]
        case list(), list():
            by_name = {one["name"]: one for one in seen if isinstance(one, dict) and "name" in one}
            return [gap for one in asked for gap in _missing_one(one, seen, by_name, path)]
        case _:
            return [] if asked == seen else [path]


def _missing_one(asked: object, seen: Sequence[object], by_name: Mapping[str, object], path: str) -> list[str]:
    if isinstance(asked, dict) and "name" in asked:
        return _missing(asked, by_name.get(asked["name"]), f"{path}/{asked['name']}")
    return [] if any(not _missing(asked, one) for one in seen) else [f"{path}: {asked}"]
