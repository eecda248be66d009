"""What `status`, `why` and `history` answer, as documents: what `-o json` prints, and what the pages are written from. Pure.

Names of fields stay within a major release; a program may rely on them.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.savepoint_schedule import SavepointsStatus
from statefulspark_operator.api.status import (
    DriverState,
    QueryProgress,
    RestartStatus,
    RevisionRecord,
    SnapshotStatus,
    StandbyStatus,
    UpgradeStatus,
)
from statefulspark_operator.kubectl import findings, losses
from statefulspark_operator.kubectl.findings import Finding
from statefulspark_operator.kubectl.view import View

EVENTS_SHOWN = 8


class DriverReport(ApiModel):
    """The driver that runs, or ran last."""

    epoch: int
    """Its epoch."""
    revision: str
    """Revision of the spec that it runs."""
    pod: str
    """Name of its pod."""
    node: str | None = None
    """Node of its pod, if that is there."""
    is_running: bool
    """Whether its process runs, or may run."""
    since: UtcDatetime
    """When it was started; of one that has ended, when that was seen."""
    end: str | None = None
    """How it ended."""


class EventReport(ApiModel):
    """An event."""

    at: UtcDatetime
    """When it happened last."""
    about: str
    """Name of the job or pod."""
    reason: str
    """PascalCase word."""
    message: str
    """One sentence."""
    is_warning: bool
    """Whether it is a warning."""


class _Page(ApiModel):
    """What each page begins with."""

    namespace: str
    """Namespace of the job."""
    name: str
    """Name of the job."""
    at: UtcDatetime
    """When this was read."""


class StatusReport(_Page):
    """The page of `status`."""

    phase: str
    """The state in one word."""
    ready: bool
    """Whether the job runs as the spec says."""
    ready_since: UtcDatetime | None = None
    """When that answer last changed."""
    message: str | None = None
    """The operator's sentence about the state."""
    image: str | None = None
    """Image of the spec."""
    driver: DriverReport | None = None
    """The driver that runs, or ran last."""
    standby: StandbyStatus | None = None
    """The standby driver."""
    restored_from: str | None = None
    """The snapshot that the driver started from."""
    other_spark: str | None = None
    """Which release of Spark wrote that snapshot, if the image has another one."""
    queries: tuple[QueryProgress, ...] = ()
    """Progress by query."""
    progress_at: UtcDatetime | None = None
    """When the progress was updated."""
    last_checkpoint: SnapshotStatus | None = None
    """The latest completed checkpoint."""
    last_savepoint: SnapshotStatus | None = None
    """The latest completed savepoint."""
    savepoints: SavepointsStatus | None = None
    """What the savepoints cost that the operator took by itself, and keeps."""
    upgrade: UpgradeStatus | None = None
    """The latest upgrade."""
    restarts: RestartStatus = RestartStatus()
    """Failures and restarts."""
    lost_now: tuple[str, ...] = ()
    """What would be lost if the driver ended now."""
    findings: tuple[Finding, ...] = ()
    """What is not as it should be, and what to do about it."""
    unread: tuple[str, ...] = ()
    """What could not be read."""


class WhyReport(_Page):
    """The page of `why`."""

    phase: str
    """The state in one word."""
    ready: bool
    """Whether the job runs as the spec says."""
    ready_since: UtcDatetime | None = None
    """When that answer last changed."""
    findings: tuple[Finding, ...] = ()
    """What is not as it should be, and what to do about it."""
    last_end: DriverReport | None = None
    """How the last driver ended."""
    restarts: RestartStatus = RestartStatus()
    """Failures and restarts."""
    events: tuple[EventReport, ...] = ()
    """The latest events about the job and its pods, the newest first; at most 8."""
    unread: tuple[str, ...] = ()
    """What could not be read."""


class HistoryReport(_Page):
    """The page of `history`."""

    requested: str | None = None
    """Revision of the spec; absent if the spec cannot be read."""
    running: str | None = None
    """Revision that runs, or ran last."""
    revisions: tuple[RevisionRecord, ...] = ()
    """The first revision and the latest upgrades, newest first."""
    upgrade: UpgradeStatus | None = None
    """The latest upgrade."""


def status(view: View) -> StatusReport:
    """Return the report of `status`."""
    recorded = view.status
    return StatusReport(
        namespace=view.namespace,
        name=view.name,
        at=view.now,
        phase=phase(view),
        ready=is_ready(view),
        ready_since=ready_since(view),
        message=recorded.message,
        image=view.spec.image if view.spec is not None else None,
        driver=driver(view),
        standby=recorded.standby,
        restored_from=recorded.restored_from,
        other_spark=recorded.other_spark,
        queries=recorded.queries,
        progress_at=recorded.progress_at,
        last_checkpoint=recorded.last_checkpoint,
        last_savepoint=recorded.last_savepoint,
        savepoints=recorded.savepoints,
        upgrade=recorded.upgrade,
        restarts=recorded.restarts,
        lost_now=losses.tell(view),
        findings=findings.find(view),
        unread=view.unread,
    )


def why(view: View) -> WhyReport:
    """Return the report of `why`."""
    end = driver(view)
    # Each start fails its readiness probe until the driver is ready.
    lines = [line for line in view.events if line.reason != "Unhealthy"][:EVENTS_SHOWN]
    return WhyReport(
        namespace=view.namespace,
        name=view.name,
        at=view.now,
        phase=phase(view),
        ready=is_ready(view),
        ready_since=ready_since(view),
        findings=findings.find(view),
        last_end=end if end is not None and not end.is_running else None,
        restarts=view.status.restarts,
        events=tuple(
            EventReport(
                at=line.at, about=line.about, reason=line.reason, message=line.message, is_warning=line.is_warning
            )
            for line in lines
        ),
        unread=view.unread,
    )


def history(view: View) -> HistoryReport:
    """Return the report of `history`."""
    return HistoryReport(
        namespace=view.namespace,
        name=view.name,
        at=view.now,
        requested=view.requested_revision,
        running=view.status.revision,
        revisions=view.status.history,
        upgrade=view.status.upgrade,
    )


def phase(view: View) -> str:
    """Return the state in one word; a job that no operator has seen is Unobserved."""
    if view.deleted_at is not None:
        return "Deleting"
    return view.status.phase.value if view.status.phase is not None else "Unobserved"


def is_ready(view: View) -> bool:
    """Tell whether the job runs as its current spec says."""
    return view.is_observed and view.says(ConditionType.READY, ConditionStatus.TRUE)


def ready_since(view: View) -> datetime | None:
    """Return when the answer of `is_ready` last changed; None if that is not known."""
    ready = view.status.condition(ConditionType.READY)
    is_outdated = not view.is_observed and view.says(ConditionType.READY, ConditionStatus.TRUE)
    return None if ready is None or is_outdated else ready.last_transition_time


def driver(view: View) -> DriverReport | None:
    """Return the driver that runs, or ran last; None if none was started."""
    recorded, pod = view.status.driver, view.live_driver
    if recorded is None:
        return None
    if pod is not None and pod.epoch == recorded.epoch and recorded.state is not DriverState.ENDED:
        return DriverReport(
            epoch=recorded.epoch,
            revision=recorded.revision,
            pod=pod.name,
            node=view.nodes.get(pod.name) or None,
            is_running=True,
            since=recorded.decided_at,
        )
    has_ended = recorded.state is DriverState.ENDED
    reason = f"{recorded.end_reason}: " if recorded.end_reason else ""
    return DriverReport(
        epoch=recorded.epoch,
        revision=recorded.revision,
        pod=recorded.pod,
        is_running=not has_ended,
        since=recorded.ended_at if has_ended and recorded.ended_at is not None else recorded.decided_at,
        end=f"{reason}{recorded.end_message or 'it gave no reason.'}" if has_ended else None,
    )
