"""Only the driver's own container tells how the driver is; whatever else is in its pod does not.

The shapes are those of a kubelet: an entry of `status.containerStatuses`, `initContainerStatuses` or
`ephemeralContainerStatuses` for each container, with one state each. A native sidecar is an init container with
`restartPolicy: Always`: it may end and come back at any time, and ends with the pod's other containers.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import pytest
from situations import a_situation
from statefulspark_operator.api import names
from statefulspark_operator.cluster import cache, pods
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle import decide
from statefulspark_operator.lifecycle.actions import DeleteDriver
from statefulspark_operator.lifecycle.situation import ContainerExit, DriverPod, PodPhase, Waiting

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
REPORT = '{"exitCode": 13, "reason": "JobFileRaised", "message": "It raises."}'
STATES: dict[str, Resource] = {
    "creating": {"waiting": {"reason": "PodInitializing"}},
    "without its image": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
    "crashing again and again": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
    "running": {"running": {"startedAt": "2026-01-01T11:00:00Z"}},
    "done": {"terminated": {"exitCode": 0, "reason": "Completed"}},
    "failed": {"terminated": {"exitCode": 2, "reason": "Error"}},
    "out of memory": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    "killed": {"terminated": {"exitCode": 143, "reason": "Error"}},
    "away": {},
}
KINDS = ("init", "native sidecar", "sidecar", "ephemeral")


def ends(kind: str, other: str) -> ContainerExit | None:
    """How the driver ended that never began, because of another container."""
    if kind != "init" or "terminated" not in STATES[other] or other == "done":
        return None
    ended = STATES[other]["terminated"]
    assert isinstance(ended, dict)
    return ContainerExit(int(str(ended["exitCode"])), str(ended["reason"]))


def holds_up(kind: str, other: str) -> Waiting | None:
    """Why the driver does not begin, because of another container that comes first."""
    if kind not in ("init", "native sidecar") or "waiting" not in STATES[other]:
        return None
    waiting = STATES[other]["waiting"]
    assert isinstance(waiting, dict)
    return Waiting(str(waiting["reason"]), str(waiting.get("message", "")))


OTHERS = [pytest.param(kind, state, id=f"{kind} {state}") for kind in KINDS for state in STATES]
BESIDE = [
    pytest.param(kind, state, id=f"{kind} {state}")
    for kind in KINDS
    for state in STATES
    if not (ends(kind, state) or holds_up(kind, state))
]
"""What another container may be at while the pod's own one is prepared."""


def pod_with(driver: Resource, kind: str, other: Resource, *, phase: str) -> Resource:
    """A driver's pod with another container, as the watch's copies keep it."""
    named: Resource = {"name": "other", "state": copy.deepcopy(other)}
    always: Resource = {"restartPolicy": "Always"} if kind == "native sidecar" else {}
    status: Resource = {
        "phase": phase,
        "containerStatuses": [
            *([named] if kind == "sidecar" else []),
            {"name": names.DRIVER_CONTAINER, "state": copy.deepcopy(driver)},
        ],
        "initContainerStatuses": [named] if kind in ("init", "native sidecar") else [],
        "ephemeralContainerStatuses": [named] if kind == "ephemeral" else [],
    }
    labels: Resource = {names.LABEL_EPOCH: "1", names.LABEL_REVISION: "r"}
    return cache.slim(
        {
            "kind": "Pod",
            "metadata": {"name": "flights-driver-1", "uid": "u", "labels": labels},
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "driver"}],
                "initContainers": [{"name": "other", **always}],
            },
            "status": status,
        }
    )


def read(driver: Resource, kind: str, other: Resource, *, phase: str = "Running") -> DriverPod:
    found = pods.read_driver_pod(pod_with(driver, kind, other, phase=phase))
    assert found is not None
    return found


@pytest.mark.parametrize(("kind", "other"), OTHERS)
def test_a_driver_that_runs_runs_whatever_another_container_does(kind: str, other: str) -> None:
    found = read(STATES["running"], kind, STATES[other])

    assert (found.exit, found.waiting, found.is_over, found.has_started) == (None, None, False, True)


@pytest.mark.parametrize(("kind", "other"), OTHERS)
@pytest.mark.parametrize(
    ("driver", "exit_"),
    [
        pytest.param("done", ContainerExit(0, "Completed"), id="done"),
        pytest.param("failed", ContainerExit(2, "Error"), id="failed"),
        pytest.param("out of memory", ContainerExit(137, "OOMKilled"), id="out of memory"),
        pytest.param("killed", ContainerExit(143, "Error"), id="killed"),
    ],
)
@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_driver_that_ended_ended_as_its_own_container_says(
    driver: str, exit_: ContainerExit, kind: str, other: str, phase: str
) -> None:
    found = read(STATES[driver], kind, STATES[other], phase=phase)

    assert (found.exit, found.waiting, found.is_over) == (exit_, None, True)


@pytest.mark.parametrize(("kind", "other"), OTHERS)
def test_a_driver_that_has_not_begun_waits_for_what_comes_before_it_and_ends_with_an_init_container(
    kind: str, other: str
) -> None:
    found = read(STATES["creating"], kind, STATES[other], phase="Pending")

    ended = ends(kind, other)
    assert (found.exit, found.is_over, found.has_started) == (ended, ended is not None, False)
    if ended is None:
        assert found.waiting == (holds_up(kind, other) or Waiting("PodInitializing", ""))


@pytest.mark.parametrize(("kind", "other"), BESIDE)
def test_a_driver_without_its_image_has_not_started_although_a_sidecar_runs(kind: str, other: str) -> None:
    found = read(STATES["without its image"], kind, STATES[other])

    assert found.waiting == Waiting("ImagePullBackOff", "no such image")
    assert (found.exit, found.is_over, found.has_started) == (None, False, False)


def test_an_init_container_that_failed_is_told_from_a_native_sidecar_that_ended_with_the_pod() -> None:
    pod = pod_with(STATES["creating"], "native sidecar", STATES["killed"], phase="Failed")
    status = pod["status"]
    assert isinstance(status, dict)
    ended = {"name": "code", "state": {"terminated": {"exitCode": 13, "message": REPORT}}}
    status["initContainerStatuses"] += [ended]  # type: ignore[operator]

    found = pods.read_driver_pod(pod)

    assert found is not None
    assert found.exit is not None
    assert found.exit.report is not None
    assert (found.exit.code, found.exit.report.reason) == (13, "JobFileRaised")


@pytest.mark.parametrize("state", ["failed", "out of memory", "killed", "crashing again and again"])
def test_a_native_sidecar_that_restarts_costs_no_driver(state: str) -> None:
    pod = read(STATES["running"], "native sidecar", STATES[state])
    situation = a_situation(pods=(pod,))

    decision = decide.decide(situation)

    assert decision.status.stalled is None
    assert [act for act in decision.actions if isinstance(act, DeleteDriver)] == []
    assert decision.reason.word == "Running"


EXECUTOR = [
    pytest.param("running", True, id="running"),
    pytest.param("done", False, id="done"),
    pytest.param("failed", False, id="failed"),
    pytest.param("out of memory", False, id="out of memory"),
    pytest.param("without its image", False, id="without its image"),
]


@pytest.mark.parametrize(("executor", "runs"), EXECUTOR)
@pytest.mark.parametrize(("kind", "other"), BESIDE)
def test_an_executor_runs_if_its_own_container_does(executor: str, runs: bool, kind: str, other: str) -> None:
    pod = pod_with(STATES[executor], kind, STATES[other], phase="Running")
    for resource in (pod["metadata"], pod["status"]):
        assert isinstance(resource, dict)
    pod["metadata"]["labels"] = {names.LABEL_ROLE: names.ROLE_EXECUTOR}  # type: ignore[index,call-overload]
    pod["status"]["containerStatuses"][-1]["name"] = names.EXECUTOR_CONTAINER  # type: ignore[index,call-overload]

    found = pods.read_executor_pod(pod)

    assert found is not None
    assert found.phase is PodPhase.RUNNING
    assert found.runs is runs
