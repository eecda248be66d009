"""Reads driver and standby pods from the API server's JSON. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import ValidationError
from statefulspark.contract.api import ExitReport

from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle.situation import ContainerExit, DriverPod, PodPhase, Waiting

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def read_driver_pod(pod: Resource) -> DriverPod | None:
    """Read a driver pod.

    Args:
        pod: The object.

    Returns:
        The pod, or None if it has no epoch label, so that it is no driver pod of the operator.
    """
    epoch = resources.text(pod, "metadata", "labels", names.LABEL_EPOCH)
    return _read(pod, int(epoch)) if epoch.isdecimal() else None


def read_standby_pod(pod: Resource) -> DriverPod | None:
    """Read a standby pod.

    Args:
        pod: The object.

    Returns:
        The pod, with epoch 0; None if it is not in the role of a standby.
    """
    is_standby = resources.text(pod, "metadata", "labels", names.LABEL_ROLE) == names.ROLE_STANDBY
    return _read(pod, 0) if is_standby else None


def _read(pod: Resource, epoch: int) -> DriverPod:
    phase = resources.text(pod, "status", "phase")
    port = resources.text(pod, "metadata", "annotations", names.ANNOTATION_API_PORT)
    state = _container_state(pod)
    return DriverPod(
        name=resources.text(pod, "metadata", "name"),
        uid=resources.text(pod, "metadata", "uid"),
        epoch=epoch,
        revision=resources.text(pod, "metadata", "labels", names.LABEL_REVISION),
        phase=PodPhase(phase) if phase in PodPhase._value2member_map_ else PodPhase.UNKNOWN,
        created_at=resources.time(pod, "metadata", "creationTimestamp") or _NEVER,
        is_ready=_condition(pod, "Ready").get("status") == "True",
        ip=resources.text(pod, "status", "podIP") or None,
        api_port=int(port) if port.isdecimal() else names.API_PORT,
        deletion_deadline=resources.time(pod, "metadata", "deletionTimestamp"),
        waiting=_waiting(state),
        unschedulable=_unschedulable(pod),
        exit=_exit(state),
        status_reason=resources.text(pod, "status", "reason"),
        status_message=resources.text(pod, "status", "message"),
    )


def _condition(pod: Resource, kind: str) -> Resource:
    conditions = (item for item in resources.items(pod, "status", "conditions") if item.get("type") == kind)
    return next(conditions, {})


def _unschedulable(pod: Resource) -> str | None:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return None
    return resources.text(scheduled, "message") or "no reason given"


def _container_state(pod: Resource) -> Resource:
    """Return the state of the driver's container, or of an init container that it is waiting for."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for status in resources.items(pod, "status", field):
            state = resources.section(status, "state")
            if status.get("name") == names.DRIVER_CONTAINER or (field.startswith("init") and "waiting" in state):
                return state
    return {}


def _waiting(state: Resource) -> Waiting | None:
    waiting = resources.section(state, "waiting")
    reason = resources.text(waiting, "reason")
    return Waiting(reason, resources.text(waiting, "message")) if reason else None


def _exit(state: Resource) -> ContainerExit | None:
    ended = resources.section(state, "terminated")
    if not ended:
        return None
    message = resources.text(ended, "message").strip()
    report = _report(message)
    return ContainerExit(
        code=resources.number(ended, "exitCode"),
        reason=resources.text(ended, "reason"),
        message="" if report else message,
        report=report,
    )


def _report(message: str) -> ExitReport | None:
    try:
        return ExitReport.model_validate_json(message)
    except ValidationError:
        return None
