"""All facts that a decision may use, as one frozen value.

The engine collects it; rules read it. Answers of other systems are closed unions in which "no answer" is a separate value: a
driver that does not answer is silent, not dead, and storage that cannot be read is unknown, not empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from statefulspark.contract.api import ExitReport, JobState, JobStatus, Operation

from statefulspark_operator.api import names, revision
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    StallStatus,
    StandbyState,
    StatefulSparkJobStatus,
)
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.savepoints import naming
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject
from statefulspark_operator.lifecycle.savepoints.schedule import Calendar
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

TLS_SECRET_MISSING = "TlsSecretMissing"  # noqa: S105 - a reason, not a secret
"""Why a container has not started: the Secret of its certificate does not exist. Kubernetes tells that in an event only."""
HARMLESS_WAITS = frozenset({"ContainerCreating", "PodInitializing"})
"""Kubernetes' reasons of a container that is on its way."""
LOST_AFTER = timedelta(seconds=20)
"""A pod that still exists this long after its grace period is on a node that does not answer any more."""


class PodPhase(StrEnum):
    """The phase of a pod in Kubernetes."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container has not started.

    Attributes:
        reason: Kubernetes' reason, for example `ImagePullBackOff`.
        message: Kubernetes' message.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How the driver's container ended.

    Attributes:
        code: Exit code of the process.
        reason: Kubernetes' reason, for example `OOMKilled`.
        message: The termination message, if it is not an exit report.
        report: The exit report that the driver wrote at its end.
    """

    code: int
    reason: str = ""
    message: str = ""
    report: ExitReport | None = None


@dataclass(frozen=True, slots=True)
class DriverPod:
    """A driver or standby pod as the API server reports it.

    Attributes:
        name: Name of the pod.
        uid: Identity of this pod.
        epoch: Epoch from its label; 0 for a standby, which has none.
        revision: Revision from its label.
        phase: Its phase.
        created_at: Creation time.
        is_ready: Its readiness probe succeeds.
        ip: Address, once it has one.
        api_port: Port of its HTTP API.
        tls_secret: The Secret of its API's certificate; None if it speaks HTTP.
        deletion_deadline: When its grace period ends, if it is being deleted (Kubernetes' deletionTimestamp).
        waiting: Why its container has not started.
        unschedulable: Why it has no node: the message of the scheduler, or of a gate that holds the pod back.
        exit: How its container ended.
        status_reason: The pod's own reason, for example `Evicted`.
        status_message: The pod's own message.
        disruption: Why Kubernetes ends it, as its condition `DisruptionTarget` says: an eviction, a preemption, a taint.
        asked_executors: Number of executors that it asks for, as far as it says.
        described: What it says it has from pod templates (`pod_metadata`); empty if nothing.
    """

    name: str
    uid: str
    epoch: int
    revision: str
    phase: PodPhase
    created_at: datetime
    is_ready: bool = False
    ip: str | None = None
    api_port: int = 8090
    tls_secret: str | None = None
    deletion_deadline: datetime | None = None
    waiting: Waiting | None = None
    unschedulable: str | None = None
    exit: ContainerExit | None = None
    status_reason: str = ""
    status_message: str = ""
    disruption: str | None = None
    asked_executors: int = 0
    described: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the driver's process has certainly ended; a sidecar may still run."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED) or self.exit is not None

    @property
    def has_started(self) -> bool:
        """Whether the driver's process has begun; a pod runs for Kubernetes as soon as any of its containers does."""
        return self.phase is not PodPhase.PENDING and self.waiting is None

    def is_lost(self, now: datetime) -> bool:
        """Tell whether it outlived its deadline, because its node does not answer. It may still run; its epoch is fenced."""
        return not self.is_over and self.deletion_deadline is not None and now > self.deletion_deadline + LOST_AFTER

    def is_live(self, now: datetime) -> bool:
        """Tell whether it runs or may run, and its node is not known to be lost."""
        return not self.is_over and not self.is_lost(now)


@dataclass(frozen=True, slots=True)
class ExecutorPod:
    """An executor's pod as the API server reports it.

    Attributes:
        name: Name of the pod.
        uid: Identity of this pod.
        owner_uid: Identity of the driver or standby pod that it belongs to; empty if nobody owns it.
        phase: Its phase.
        is_leaving: It is being deleted.
        obstacle: Why it does not run, as a sentence; None if it runs, or is about to.
        described: What it says it has from pod templates; empty if nothing.
    """

    name: str
    uid: str
    owner_uid: str
    phase: PodPhase
    is_leaving: bool = False
    obstacle: str | None = None
    described: str = ""

    @property
    def runs(self) -> bool:
        """Whether it can have tasks."""
        return self.phase is PodPhase.RUNNING and not self.is_leaving and self.obstacle is None


@dataclass(frozen=True, slots=True)
class DriverSilent:
    """The driver was asked and did not answer; it may still be working.

    Attributes:
        message: The request and its failure.
        is_untrusted: Whether it was not asked because it could not be verified that it is the driver.
    """

    message: str
    is_untrusted: bool = False


@dataclass(frozen=True, slots=True)
class OperationAbsent:
    """The driver answers but does not know the operation: the request did not arrive."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the spec cannot be carried out.

    Attributes:
        reason: PascalCase.
        message: The problem and what to do.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Queued:
    """A change of a job that waits for those of other jobs (`rollout`).

    Attributes:
        reason: `UPGRADE_QUEUED`, or `UPGRADE_HALTED` if it waits for a person.
        message: What it waits for.
    """

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The spec that the operator carries out.

    Attributes:
        spec: The current spec, or the last valid one; None if there is neither.
        rejection: Why the current spec is rejected; None if it is valid.
        revision: Name of the revision that `spec` is; None without one.
        withheld: Revision of the current spec, if it was refused, rolled back or aborted, or waits for its turn, so that the
            one before is carried out.
        queued: Why it waits for its turn; None if it does not.
        code: Checksum of the code in the ConfigMap of the current spec; None if it is elsewhere.
        ignored_code: Checksum of what that ConfigMap has, if the spec pins other code, which is kept; None otherwise.
    """

    spec: StatefulSparkJobSpec | None
    rejection: Rejection | None = None
    revision: str | None = None
    withheld: str | None = None
    queued: Queued | None = None
    code: str | None = None
    ignored_code: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """The resource's metadata.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its identity.
        generation: Grows with every change of the spec.
        resource_version: Version of the resource as it was read; writes are refused if it has changed.
        finalizers: The operator's finalizers that it has.
        deletion_requested_at: When it was deleted.
        is_in_ending_namespace: Whether its namespace is being deleted, too; nothing can be created there any more.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    deletion_requested_at: datetime | None = None
    is_in_ending_namespace: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """One job and all current facts about it.

    Attributes:
        now: The time of the pass.
        job: Metadata.
        spec: The spec to carry out: the current one, or the last valid one if that is rejected; None if neither.
        status: The status as recorded.
        rejection: Why the current spec is not carried out.
        pods: All driver pods, oldest epoch first.
        driver: The driver's answer; None if it was not asked.
        operation: The driver's answer about `status.operation`; None if it was not asked or did not answer.
        storage: The content of storage; None if it was not read in this pass.
        standbys: All standby pods.
        standby: The answer of the recorded standby; None if it was not asked.
        withheld: Revision of the current spec, if it was refused, rolled back or aborted, or waits for its turn, so that
            `spec` is the one before.
        queued: Why it waits for its turn; None if it does not.
        executors: All executor pods of the job, whoever they belong to.
        savepoints: All savepoint objects in the namespace, of any job.
        named_here: Those of them that name this job; None if nobody has looked for them.
        calendar: The schedule of savepoints, if the spec has one.
        code: Checksum of the code of the current spec, if it is in a ConfigMap; None if it is elsewhere.
        ignored_code: Checksum of what that ConfigMap has, if the spec pins other code, which is kept; None otherwise.
        named: Name of the revision that `spec` is; None if it is the hash of what `spec` means.
        start_at: When its turn to start a driver is expected; None if it need not wait for other jobs (`pace`).
    """

    now: datetime
    job: Job
    spec: StatefulSparkJobSpec | None
    status: StatefulSparkJobStatus = field(default_factory=StatefulSparkJobStatus)
    rejection: Rejection | None = None
    pods: tuple[DriverPod, ...] = ()
    driver: JobStatus | DriverSilent | None = None
    operation: Operation | OperationAbsent | None = None
    storage: StorageFacts | StorageUnreadable | None = None
    standbys: tuple[DriverPod, ...] = ()
    standby: JobStatus | DriverSilent | None = None
    withheld: str | None = None
    queued: Queued | None = None
    executors: tuple[ExecutorPod, ...] = ()
    savepoints: tuple[SavepointObject, ...] = ()
    named_here: tuple[SavepointObject, ...] | None = None
    calendar: Calendar | None = None
    code: str | None = None
    ignored_code: str | None = None
    named: str | None = None
    start_at: datetime | None = None

    def stalled(self, reason: str, message: str) -> StallStatus:
        """Return the stall of what the resource requests now: neither its spec nor its code helps as they are."""
        return StallStatus(generation=self.job.generation, reason=reason, message=message, code=self.code)

    @property
    def live_pods(self) -> tuple[DriverPod, ...]:
        """Driver pods that run or may run, on nodes that are not lost."""
        return tuple(pod for pod in self.pods if pod.is_live(self.now))

    @property
    def intent(self) -> DriverIntent | None:
        """The latest driver that was decided, from the status."""
        return self.status.driver

    @property
    def pod(self) -> DriverPod | None:
        """The pod of the current epoch, in any state."""
        epoch = self.status.driver.epoch if self.status.driver else None
        return next((pod for pod in self.pods if pod.epoch == epoch), None)

    @property
    def live_pod(self) -> DriverPod | None:
        """The pod of the current epoch, if it is live and its end has not been recorded."""
        if self.status.driver is None or self.status.driver.state is DriverState.ENDED:
            return None
        return self.pod if self.pod is not None and self.pod.is_live(self.now) else None

    @property
    def desired_revision(self) -> str | None:
        """Revision of the spec to carry out."""
        return (self.named or revision.revision_of(self.spec)) if self.spec else None

    @property
    def has_driver(self) -> bool:
        """Whether a driver exists or its start was decided."""
        driver = self.status.driver
        return driver is not None and driver.state is not DriverState.ENDED

    @property
    def own_savepoints(self) -> tuple[SavepointObject, ...]:
        """The savepoint objects of this job, the oldest first."""
        own = self.named_here
        if own is None:
            own = tuple(savepoint for savepoint in self.savepoints if savepoint.spec.job_name == self.job.name)
        return tuple(sorted(own, key=lambda savepoint: (savepoint.created_at, savepoint.name)))

    @property
    def named_restore(self) -> naming.Resolved | naming.Unresolved | None:
        """What a `spec.restore.source` that has not been carried out stands for; None if there is none."""
        source = self.spec.restore.source if self.spec else None
        if self.spec is None or source is None or revision.restore_id(self.spec) == self.status.restore_applied:
            return None
        return naming.resolve(source, {savepoint.name: savepoint.status for savepoint in self.savepoints})

    @property
    def pending_restore(self) -> str | None:
        """Id of the request of `spec.restore`, if it can and has not been carried out."""
        requested = revision.restore_id(self.spec) if self.spec else None
        if requested == self.status.restore_applied or isinstance(self.named_restore, naming.Unresolved):
            return None
        return requested

    @property
    def is_outdated(self) -> bool:
        """Whether the driver runs another revision than the spec, or a restore is requested."""
        if self.status.driver is None or self.spec is None:
            return False
        return self.status.driver.revision != self.desired_revision or self.pending_restore is not None

    @property
    def driver_status(self) -> JobStatus | None:
        """The driver's status, if it answered and is the one of the current epoch."""
        if not isinstance(self.driver, JobStatus) or self.status.driver is None:
            return None
        return self.driver if self.driver.epoch == self.status.driver.epoch else None

    @property
    def standby_pod(self) -> DriverPod | None:
        """The pod of the recorded standby, in any state."""
        record = self.status.standby
        return next((pod for pod in self.standbys if record is not None and pod.name == record.pod), None)

    @property
    def usable_standby(self) -> DriverPod | None:
        """The standby that can become the driver of the spec now: of its revision, not refused, and it answers."""
        record, pod = self.status.standby, self.standby_pod
        if record is None or pod is None or not pod.is_live(self.now) or pod.deletion_deadline is not None:
            return None
        if record.revision != self.desired_revision or record.state not in (StandbyState.WARMING, StandbyState.READY):
            return None
        return pod if isinstance(self.standby, JobStatus) and self.standby.state is JobState.STANDBY else None

    @property
    def is_activation(self) -> bool:
        """Whether the recorded driver was a standby before."""
        driver = self.status.driver
        return driver is not None and names.standby_number(self.job.name, driver.pod) > 0
