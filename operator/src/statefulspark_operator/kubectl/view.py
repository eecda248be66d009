"""What was read about a job, as one frozen value: the resource, its pods, its events. Pure.

It is read leniently: a field that a newer operator has added is ignored, and a spec that the models refuse is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError
from statefulspark import errors

from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.revision import revision_of
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import pods, resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle import code
from statefulspark_operator.lifecycle.situation import DriverPod

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event about the job or one of its pods.

    Attributes:
        at: When it happened last.
        about: Name of the object.
        reason: PascalCase.
        message: One sentence.
        is_warning: Whether its type is Warning.
    """

    at: datetime
    about: str
    reason: str
    message: str
    is_warning: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was read beside the resource.

    Attributes:
        pods: Driver and standby pods of the job, as they are stored.
        events: Events about the job and its pods, as they are stored.
        unread: One sentence for each part that could not be read.
    """

    pods: Sequence[Resource] = ()
    events: Sequence[Resource] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A job as a person can see it.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        generation: Generation of its spec.
        resource_version: Version of the resource.
        created_at: When it was created.
        deleted_at: When its deletion was requested.
        raw_spec: Its spec as it is stored.
        spec: Its spec, with the checksum of the code in its ConfigMap; None if the models refuse it.
        status: Its status.
        now: When it was read.
        drivers: Its driver pods, the newest epoch first.
        standbys: Its standby pods.
        nodes: Node by pod.
        events: Events, the newest first.
        unread: One sentence for each part that could not be read.
    """

    namespace: str
    name: str
    generation: int
    resource_version: str
    created_at: datetime
    deleted_at: datetime | None
    raw_spec: Resource
    spec: StatefulSparkJobSpec | None
    status: StatefulSparkJobStatus
    now: datetime
    drivers: tuple[DriverPod, ...] = ()
    standbys: tuple[DriverPod, ...] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)
    events: tuple[EventLine, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def is_observed(self) -> bool:
        """Whether the status is about the current spec."""
        return (self.status.observed_generation or 0) >= self.generation

    @property
    def requested_revision(self) -> str | None:
        """Name of the revision of the current spec: the operator's, which compares what is stored, else this release's."""
        if self.is_observed and self.status.update_revision is not None:
            return self.status.update_revision
        return revision_of(self.spec) if self.spec is not None else None

    @property
    def live_driver(self) -> DriverPod | None:
        """The pod of the newest epoch that runs or may run."""
        return next((pod for pod in self.drivers if pod.is_live(self.now)), None)

    @property
    def ended_driver(self) -> DriverPod | None:
        """The pod of the newest epoch whose driver has ended."""
        return next((pod for pod in self.drivers if pod.is_over), None)

    def says(self, kind: ConditionType, status: ConditionStatus) -> bool:
        """Tell whether a condition has an answer."""
        condition = self.status.condition(kind)
        return condition is not None and condition.status is status


def read(job: Resource, surroundings: Surroundings, *, now: datetime) -> View:
    """Read a job.

    Args:
        job: The resource.
        surroundings: Its pods and events.
        now: The current time.

    Raises:
        SpecRejectedError: `StatusUnknown`: the status is that of a release that this one does not know.
    """
    drivers = [pod for pod in map(pods.read_driver_pod, surroundings.pods) if pod is not None]
    status = _status(job)
    metadata = resources.section(job, "metadata")
    lines = (
        EventLine(
            at=resources.time(event, "lastTimestamp")
            or resources.time(event, "eventTime")
            or resources.time(event, "metadata", "creationTimestamp")
            or _NEVER,
            about=resources.text(event, "involvedObject", "name"),
            reason=resources.text(event, "reason"),
            message=resources.text(event, "message").strip(),
            is_warning=resources.text(event, "type") == "Warning",
        )
        for event in surroundings.events
    )
    try:
        spec: StatefulSparkJobSpec | None = StatefulSparkJobSpec.model_validate(resources.section(job, "spec"))
    except ValidationError:
        spec = None
    if spec is not None and status.code is not None:
        spec = code.pin(spec, status.code)
    return View(
        namespace=resources.text(metadata, "namespace"),
        name=resources.text(metadata, "name"),
        generation=resources.number(metadata, "generation"),
        resource_version=resources.text(metadata, "resourceVersion"),
        created_at=resources.time(metadata, "creationTimestamp") or _NEVER,
        deleted_at=resources.time(metadata, "deletionTimestamp"),
        raw_spec=resources.section(job, "spec"),
        spec=spec,
        status=status,
        now=now,
        drivers=tuple(sorted(drivers, key=lambda pod: -pod.epoch)),
        standbys=tuple(pod for pod in map(pods.read_standby_pod, surroundings.pods) if pod is not None),
        nodes={
            resources.text(pod, "metadata", "name"): resources.text(pod, "spec", "nodeName")
            for pod in surroundings.pods
        },
        events=tuple(sorted(lines, key=lambda line: line.at, reverse=True)),
        unread=surroundings.unread,
    )


def _status(job: Resource) -> StatefulSparkJobStatus:
    try:
        return StatefulSparkJobStatus.model_validate(resources.section(job, "status"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(("status", *(str(part) for part in first["loc"])))
        raise errors.SpecRejectedError(
            "StatusUnknown",
            f"This release cannot read the job's status: {where}: {first['msg']} (found {first['input']!r}). Install the "
            "release of the operator that runs.",
        ) from error


def pods_with_events(stored: Sequence[Resource], *, now: datetime) -> tuple[str, ...]:
    """Return the names of the pods that have not ended, whose events may say why they do not start."""
    candidates = [
        pod for raw in stored for pod in (pods.read_driver_pod(raw), pods.read_standby_pod(raw)) if pod is not None
    ]
    return tuple(sorted({pod.name for pod in candidates if pod.is_live(now)}))


def stored_spec(revision: Resource) -> Resource:
    """Return the spec in the ControllerRevision of a revision."""
    return resources.section(revision, "data", "spec")
