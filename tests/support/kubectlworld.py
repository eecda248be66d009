"""The world of `kubectl statefulspark` in tests: jobs as the API server returns them, a cluster that answers, a terminal."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fakecluster import apply_merge_patch
from statefulspark import errors
from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.revision import revision_of
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    Phase,
    QueryProgress,
    RevisionOutcome,
    RevisionRecord,
    SnapshotStatus,
    StatefulSparkJobStatus,
)
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.kubectl import view
from statefulspark_operator.kubectl.refusals import Attempt, translate
from statefulspark_operator.kubectl.terminal import Terminal
from statefulspark_operator.kubectl.view import Surroundings, View

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SPEC: Resource = {
    "image": "registry.example/flights:2",
    "job": {"file": "/opt/job/flights.py"},
    "storage": {"uri": "s3://state/jobs"},
}
OLD_SPEC: Resource = {**SPEC, "image": "registry.example/flights:1"}


def revision(spec: Resource) -> str:
    return revision_of(StatefulSparkJobSpec.model_validate(spec))


NEW_REVISION, OLD_REVISION = revision(SPEC), revision(OLD_SPEC)
SAVEPOINT = "s3://state/jobs/demo/flights/savepoints/00000043-upgrade"


def before(**amount: float) -> datetime:
    """Return a time before now: `before(hours=1)`."""
    return NOW - timedelta(**amount)


def a_condition(
    kind: ConditionType, status: ConditionStatus, reason: str = "Running", message: str = "", **ago: float
) -> Condition:
    at = before(**(ago or {"hours": 3}))
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=at)


READY = a_condition(ConditionType.READY, ConditionStatus.TRUE)
GOOD = (
    READY,
    a_condition(ConditionType.STALLED, ConditionStatus.FALSE),
    a_condition(ConditionType.STORAGE_REACHABLE, ConditionStatus.TRUE),
)


def not_ready(reason: str, message: str, **ago: float) -> tuple[Condition, ...]:
    return (a_condition(ConditionType.READY, ConditionStatus.FALSE, reason, message, **ago),)


def a_recorded_driver(**changes: object) -> DriverIntent:
    driver = DriverIntent(
        epoch=7,
        revision=NEW_REVISION,
        state=DriverState.CREATED,
        decided_at=before(hours=3, minutes=12),
        pod="flights-driver-7",
    )
    return driver.model_copy(update=changes)


def a_snapshot(number: int, **changes: object) -> SnapshotStatus:
    snapshot = SnapshotStatus(
        id=number, completed_at=before(seconds=8), size_bytes=12_900_000, trigger="periodic", batches={"counts": 1198}
    )
    return snapshot.model_copy(update=changes)


HISTORY = (
    RevisionRecord(
        revision=NEW_REVISION,
        image="registry.example/flights:2",
        snapshot=SAVEPOINT,
        outcome=RevisionOutcome.STABLE,
        at=before(hours=3),
    ),
    RevisionRecord(
        revision=OLD_REVISION, image="registry.example/flights:1", outcome=RevisionOutcome.STABLE, at=before(hours=30)
    ),
)


def a_stored_status(**changes: object) -> StatefulSparkJobStatus:
    """The status of a job that runs well."""
    status = StatefulSparkJobStatus(
        phase=Phase.RUNNING,
        message=f"Running; the driver started from {SAVEPOINT}.",
        observed_generation=4,
        conditions=GOOD,
        epoch=7,
        revision=NEW_REVISION,
        driver=a_recorded_driver(),
        history=HISTORY,
        last_checkpoint=a_snapshot(51),
        last_savepoint=a_snapshot(
            43, completed_at=before(hours=3, minutes=12), location=SAVEPOINT, trigger="upgrade", batches={"counts": 900}
        ),
        restored_from=SAVEPOINT,
        queries=(QueryProgress(uid="counts", batch=1200),),
        progress_at=before(seconds=12),
    )
    return status.model_copy(update=changes)


def a_stored_job(
    status: StatefulSparkJobStatus | None = None, spec: Resource | None = None, **metadata: object
) -> Resource:
    """A job as the API server returns it; it runs well unless a status says otherwise."""
    told = status if status is not None else a_stored_status()
    meta: Resource = {
        "name": "flights",
        "namespace": "demo",
        "uid": "6f9c0000-0000-4000-8000-000000000001",
        "generation": 4,
        "resourceVersion": "100",
        "creationTimestamp": "2025-12-30T12:00:00Z",
    }
    return {
        "apiVersion": resources.JOB.api_version,
        "kind": resources.JOB.name,
        "metadata": {**meta, **metadata},  # type: ignore[dict-item]
        "spec": spec if spec is not None else SPEC,
        "status": json.loads(told.to_json()),
    }


def a_stored_pod(
    epoch: int = 7, *, state: Resource | None = None, phase: str = "Running", **changes: object
) -> Resource:
    """A driver pod as the API server returns it."""
    status: Resource = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
    if state is not None:
        status["containerStatuses"] = [{"name": "driver", "state": state}]
    metadata: Resource = {
        "name": f"flights-driver-{epoch}",
        "namespace": "demo",
        "uid": f"uid-{epoch}",
        "creationTimestamp": "2026-01-01T08:48:00Z",
        "labels": {
            "statefulspark.io/job": "flights",
            "statefulspark.io/role": "driver",
            "statefulspark.io/epoch": str(epoch),
            "statefulspark.io/revision": NEW_REVISION,
        },
    }
    pod: Resource = {
        "metadata": metadata,
        "spec": {"nodeName": "node-2"} if phase != "Pending" else {},
        "status": status,
    }
    return pod | changes  # type: ignore[operator]


def an_ended_pod(epoch: int = 6, code: int = 1, reason: str = "Error") -> Resource:
    return a_stored_pod(epoch, phase="Failed", state={"terminated": {"exitCode": code, "reason": reason}})


def a_waiting_pod(reason: str, message: str = "") -> Resource:
    return a_stored_pod(phase="Pending", state={"waiting": {"reason": reason, "message": message}})


def a_stored_standby_pod(number: int = 3) -> Resource:
    pod = a_stored_pod()
    labels: Resource = {"statefulspark.io/job": "flights", "statefulspark.io/role": "standby"}
    metadata = {**resources.section(pod, "metadata"), "name": f"flights-standby-{number}", "labels": labels}
    return {**pod, "metadata": metadata}


def an_event(
    reason: str, message: str, at: datetime, *, about: str = "flights", kind: str = "Normal", uid: str = ""
) -> Resource:
    return {
        "involvedObject": {"name": about, "uid": uid},
        "reason": reason,
        "message": message,
        "type": kind,
        "lastTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def a_view(
    status: StatefulSparkJobStatus | None = None,
    *,
    spec: Resource | None = None,
    pods: Sequence[Resource] = (),
    events: Sequence[Resource] = (),
    unread: tuple[str, ...] = (),
    **metadata: object,
) -> View:
    """A job as the plugin sees it."""
    around = Surroundings(pods=pods, events=events, unread=unread)
    return view.read(a_stored_job(status, spec, **metadata), around, now=NOW)


Change = Callable[[Resource], None]


@dataclass
class FakeCluster:
    """An API server in memory with one job, and an operator that does one step before each further read of it.

    Attributes:
        job: The job; None if there is none.
        pods: Its pods.
        events: Events.
        revisions: Spec by name of its ControllerRevision.
        steps: What the operator does, one step for each read of the job after the first patch.
        forbidden: Verb and resource that are refused, as `list pods`.
        patches: The patches that were applied.
        logs: Log by pod.
        conflicts: Number of patches that are refused, because the operator has just written the status.
        others: Names of other jobs, as `namespace/name`.
        savepoints: Savepoint objects by name.
    """

    job: Resource | None = field(default_factory=a_stored_job)
    pods: tuple[Resource, ...] = ()
    events: tuple[Resource, ...] = ()
    revisions: dict[str, Resource] = field(default_factory=dict)
    steps: list[Change] = field(default_factory=list)
    forbidden: frozenset[str] = frozenset()
    patches: list[Resource] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    conflicts: int = 0
    others: tuple[str, ...] = ()
    savepoints: dict[str, Resource] = field(default_factory=dict)

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        self._permit(Attempt("get", kind, namespace, name))
        if kind == resources.SAVEPOINT:
            return self.savepoints.get(name)
        if kind == resources.CONTROLLER_REVISION:
            spec = self.revisions.get(name)
            return {"data": {"spec": spec}} if spec is not None else None
        if (self.patches or self.savepoints) and self.steps and self.job is not None:
            self.steps.pop(0)(self.job)
        if self.job is None or resources.text(self.job, "metadata", "name") != name:
            return None
        return self.job

    def list(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> tuple[Resource, ...]:
        self._permit(Attempt("list", kind, namespace))
        if kind == resources.JOB:
            return self._jobs(namespace)
        if kind == resources.POD:
            return self.pods
        about = fields.removeprefix("involvedObject.name=")
        return tuple(event for event in self.events if resources.text(event, "involvedObject", "name") == about)

    def create_savepoint(self, namespace: str, manifest: Resource) -> str:
        name = (
            resources.text(manifest, "metadata", "name")
            or f"{resources.text(manifest, 'metadata', 'generateName')}x7k2p"
        )
        attempt = Attempt("create", resources.SAVEPOINT, namespace, name)
        self._permit(attempt)
        if name in self.savepoints:
            raise translate(attempt, 409, b"")
        self.savepoints[name] = manifest
        return name

    def patch_job(self, namespace: str, name: str, patch: Resource) -> Resource:
        self._permit(Attempt("patch", resources.JOB, namespace, name))
        if self.job is None:
            raise translate(Attempt("patch", resources.JOB, namespace, name), 404, b"")
        if self.conflicts:
            self.conflicts -= 1
            raise translate(Attempt("patch", resources.JOB, namespace, name), 409, b"")
        self.patches.append(patch)
        self.job["spec"] = apply_merge_patch(resources.section(self.job, "spec"), resources.section(patch, "spec"))
        metadata = resources.section(self.job, "metadata")
        metadata["generation"] = resources.number(metadata, "generation") + 1
        return self.job

    def log(self, namespace: str, pod: str, *, container: str, follow: bool, tail: int | None) -> Iterator[bytes]:
        lines = self.logs[pod].splitlines(keepends=True)
        content = "".join(lines[-tail if tail is not None else 0 :]).encode()
        yield from (content[start : start + 3] for start in range(0, len(content), 3))

    def _jobs(self, namespace: str | None) -> tuple[Resource, ...]:
        places = [tuple(other.split("/")) for other in self.others]
        if self.job is not None:
            metadata = resources.section(self.job, "metadata")
            places.append((resources.text(metadata, "namespace"), resources.text(metadata, "name")))
        return tuple(
            {"metadata": {"namespace": place, "name": name}} for place, name in places if namespace in (None, place)
        )

    def _permit(self, attempt: Attempt) -> None:
        if f"{attempt.verb} {attempt.resource}" in self.forbidden:
            said = f'{attempt.resource} is forbidden: User "ann" cannot {attempt.verb} resource'
            raise translate(attempt, 403, json.dumps({"message": said}).encode())


def told(**changes: object) -> Change:
    """A step of the operator: it writes its status about the newest generation."""

    def write(job: Resource) -> None:
        generation = resources.number(job, "metadata", "generation")
        status = a_stored_status(observed_generation=generation, **changes)
        job["status"] = json.loads(status.to_json())

    return write


class Screen:
    """A terminal that keeps what is written, and whose time passes only while somebody waits."""

    def __init__(self, *, is_terminal: bool = False, **environment: str) -> None:
        self.out, self.err = _Stream(is_terminal=is_terminal), _Stream(is_terminal=is_terminal)
        self.time = NOW
        self.terminal = Terminal(self.out, self.err, lambda: self.time, self._wait, environment.get)

    def _wait(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        if self.time > NOW + timedelta(days=1):
            raise errors.InternalError("WaitedTooLong", "A command waits for ever.")


class _Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal
