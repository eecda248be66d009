"""Reads driver, standby and executor pods from the API server's JSON. Pure."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import ValidationError
from statefulspark.contract.api import ExitReport

from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle.situation import (
    HARMLESS_WAITS,
    ContainerExit,
    DriverPod,
    ExecutorPod,
    PodPhase,
    Waiting,
)

_PORT = re.compile(r"[0-9]{1,5}")
"""A number in an annotation; somebody else may have written it."""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def read_driver_pod(pod: Resource) -> DriverPod | None:
    """Read a driver pod.

    Args:
        pod: The object.

    Returns:
        The pod, or None if it has no epoch label, so that it is no driver pod of the operator.
    """
    epoch = resources.text(pod, "metadata", "labels", names.LABEL_EPOCH)
    is_executor = resources.text(pod, "metadata", "labels", names.LABEL_ROLE) == names.ROLE_EXECUTOR
    return _read(pod, int(epoch)) if epoch.isdecimal() and not is_executor else None


def read_standby_pod(pod: Resource) -> DriverPod | None:
    """Read a standby pod.

    Args:
        pod: The object.

    Returns:
        The pod, with epoch 0; None if it is not in the role of a standby.
    """
    is_standby = resources.text(pod, "metadata", "labels", names.LABEL_ROLE) == names.ROLE_STANDBY
    return _read(pod, 0) if is_standby else None


def read_executor_pod(pod: Resource) -> ExecutorPod | None:
    """Read an executor's pod.

    Args:
        pod: The object.

    Returns:
        The pod; None if it is not in the role of an executor.
    """
    if resources.text(pod, "metadata", "labels", names.LABEL_ROLE) != names.ROLE_EXECUTOR:
        return None
    owners = resources.items(pod, "metadata", "ownerReferences")
    name = resources.text(pod, "metadata", "name")
    return ExecutorPod(
        name=name,
        uid=resources.text(pod, "metadata", "uid"),
        owner_uid=next((resources.text(owner, "uid") for owner in owners if owner.get("kind") == "Pod"), ""),
        phase=_phase(pod),
        is_leaving=resources.time(pod, "metadata", "deletionTimestamp") is not None,
        obstacle=_obstacle(pod, name),
        described=resources.text(pod, "metadata", "annotations", names.ANNOTATION_TEMPLATE),
    )


def _obstacle(pod: Resource, name: str) -> str | None:
    """Return why an executor does not run, as a sentence; None if nothing is known to keep it from that."""
    state, ended_by = _container_state(pod, names.EXECUTOR_CONTAINER), resources.text(pod, "status", "reason")
    if ended_by:
        return f"{name} was removed ({ended_by}): {resources.text(pod, 'status', 'message') or 'no message'}."
    exit_, waiting, unschedulable = _exit(state), _waiting(state), _unschedulable(pod)
    if exit_ is not None:
        reason = f" ({exit_.reason})" if exit_.reason not in ("", "Error", "Completed") else ""
        return f"{name} ended with exit code {exit_.code}{reason}."
    if waiting is not None and waiting.reason not in HARMLESS_WAITS:
        return f"{name} cannot start ({waiting.reason}): {waiting.message or 'no message'}."
    return f"{name} cannot be scheduled: {unschedulable}" if unschedulable is not None else None


def _phase(pod: Resource) -> PodPhase:
    phase = resources.text(pod, "status", "phase")
    return PodPhase(phase) if phase in PodPhase._value2member_map_ else PodPhase.UNKNOWN


def _read(pod: Resource, epoch: int) -> DriverPod:
    port = resources.text(pod, "metadata", "annotations", names.ANNOTATION_API_PORT)
    asked = resources.text(pod, "metadata", "annotations", names.ANNOTATION_EXECUTORS)
    state = _container_state(pod, names.DRIVER_CONTAINER)
    return DriverPod(
        name=resources.text(pod, "metadata", "name"),
        uid=resources.text(pod, "metadata", "uid"),
        epoch=epoch,
        revision=resources.text(pod, "metadata", "labels", names.LABEL_REVISION),
        phase=_phase(pod),
        created_at=resources.time(pod, "metadata", "creationTimestamp") or _NEVER,
        is_ready=_condition(pod, "Ready").get("status") == "True",
        ip=resources.text(pod, "status", "podIP") or None,
        tls_secret=resources.text(pod, "metadata", "annotations", names.ANNOTATION_API_TLS) or None,
        api_port=int(port) if _PORT.fullmatch(port) else names.API_PORT,
        deletion_deadline=resources.time(pod, "metadata", "deletionTimestamp"),
        waiting=_waiting(state),
        unschedulable=_unschedulable(pod),
        exit=_exit(state),
        status_reason=resources.text(pod, "status", "reason"),
        status_message=resources.text(pod, "status", "message"),
        disruption=_disruption(pod),
        asked_executors=int(asked) if _PORT.fullmatch(asked) else 0,
        described=resources.text(pod, "metadata", "annotations", names.ANNOTATION_TEMPLATE),
    )


def _condition(pod: Resource, kind: str) -> Resource:
    conditions = (item for item in resources.items(pod, "status", "conditions") if item.get("type") == kind)
    return next(conditions, {})


def _disruption(pod: Resource) -> str | None:
    """Return why Kubernetes ends a pod, and which part of it does; None if it says nothing."""
    target = _condition(pod, "DisruptionTarget")
    if target.get("status") != "True":
        return None
    reason, message = resources.text(target, "reason"), resources.text(target, "message")
    return f"{reason}: {message}" if message else reason


def _unschedulable(pod: Resource) -> str | None:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    return resources.text(scheduled, "message") or resources.text(scheduled, "reason") or "no reason given"


def _container_state(pod: Resource, container: str) -> Resource:
    """Return the state of the pod's own container; before that has started, of the init container that keeps it from it.

    Other containers come and go beside it, and say nothing about it: sidecars, ephemeral containers, and native sidecars,
    which are init containers that Kubernetes restarts whenever they end.
    """
    own = next((state for name, state in _states(pod, "containerStatuses") if name == container), {})
    if "running" in own or "terminated" in own:
        return own
    native = native_sidecars(pod)
    for name, state in _states(pod, "initContainerStatuses"):
        has_failed = name not in native and resources.number(state, "terminated", "exitCode") != 0
        if "waiting" in state or has_failed:
            return state
    return own


def _states(pod: Resource, kind: str) -> Iterator[tuple[str, Resource]]:
    for status in resources.items(pod, "status", kind):
        yield resources.text(status, "name"), resources.section(status, "state")


def native_sidecars(pod: Resource) -> tuple[str, ...]:
    """Return the names of the pod's native sidecars: its init containers that are always restarted."""
    always_restarted = (
        item for item in resources.items(pod, "spec", "initContainers") if item.get("restartPolicy") == "Always"
    )
    return tuple(resources.text(item, "name") for item in always_restarted)


def _waiting(state: Resource) -> Waiting | None:
    waiting = resources.section(state, "waiting")
    reason = resources.text(waiting, "reason")
    return Waiting(reason, resources.text(waiting, "message")) if reason else None


def _exit(state: Resource) -> ContainerExit | None:
    ended = resources.section(state, "terminated")
    if not ended:
        return None
    message = resources.text(ended, "message").strip()
    report: ExitReport | None = None
    with contextlib.suppress(ValidationError):
        report = ExitReport.model_validate_json(message)
    return ContainerExit(
        code=resources.number(ended, "exitCode"),
        reason=resources.text(ended, "reason"),
        message="" if report is not None else message,
        report=report,
    )
