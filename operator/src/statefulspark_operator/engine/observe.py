"""Collects the facts for a decision: the resource, its pods, the driver's answer, and storage if it is needed.

Observing never changes anything. A job is read from the cache, which `sync` compares with the API server; drivers
always answer for themselves. Storage is read only if the decision needs it: no driver runs, or the state is to be deleted.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError
from statefulspark.contract.api import JobStatus, Operation, OperationState

from statefulspark_operator.api import names
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.spec import DeletionPolicy
from statefulspark_operator.api.status import (
    DriverState,
    OperationKind,
    OperationPhase,
    OperationStatus,
    StandbyState,
    StatefulSparkJobStatus,
)
from statefulspark_operator.cluster import cache, calendar, pods, resources
from statefulspark_operator.cluster.driver_api import LONGEST_WAIT_S
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine import access
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.situation import (
    Accepted,
    DriverPod,
    DriverSilent,
    ExecutorPod,
    Job,
    OperationAbsent,
    PodPhase,
    Situation,
)
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

LATE_STOP = timedelta(minutes=5)
"""How long a savepoint is looked for after the end of a driver whose stop was given up: on a node that nobody can reach it
may have gone on with it."""


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """The answer of the driver.

    Attributes:
        status: The status of the job, or that the driver did not answer; None if no driver can be asked.
        operation: The driver's answer about `status.operation`.
    """

    status: JobStatus | DriverSilent | None = None
    operation: Operation | OperationAbsent | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """A job as it was looked at: what Kubernetes has of it, and what its drivers answered.

    Attributes:
        now: When.
        resource: The resource.
        job: Its metadata.
        status: Its status.
        pods: Its pods, as they were read.
        drivers: Its driver pods, oldest epoch first.
        standbys: Its standby pods.
        executors: Its executor pods.
        live: The driver pods that may run and were not released.
        driver: The driver's answer.
        standby: The recorded standby's answer.
    """

    now: datetime
    resource: Resource
    job: Job
    status: StatefulSparkJobStatus
    pods: tuple[Resource, ...]
    drivers: tuple[DriverPod, ...]
    standbys: tuple[DriverPod, ...]
    executors: tuple[ExecutorPod, ...]
    live: tuple[DriverPod, ...]
    driver: DriverAnswer
    standby: JobStatus | DriverSilent | None

    @property
    def answer(self) -> JobStatus | None:
        """What the driver of the current epoch answered; None if it did not."""
        answer, driver = self.driver.status, self.status.driver
        if not isinstance(answer, JobStatus) or driver is None or answer.epoch != driver.epoch:
            return None
        return answer


async def read_job(ports: Ports, key: JobKey) -> Resource | None:
    """Return the live resource without what no decision reads, or None if it does not exist."""
    answer = await ports.gateway.get(resources.JOB, key.namespace, key.name)
    resource = cache.slim(answer) if answer is not None else None
    ports.cache.update_read(resources.JOB, key.namespace, key.name, resource)
    return resource


async def sync(ports: Ports, key: JobKey) -> None:
    """Read a job and its pods from the API server into the cache, which has nothing older afterwards."""
    if await read_job(ports, key) is None:
        return
    before = ports.cache.pod_entries(key)
    listed = await ports.gateway.list_pods(key.namespace, names.pod_selector(key.name))
    ports.cache.replace(listed, before)


def read_status(resource: Resource) -> StatefulSparkJobStatus:
    """Read the status of a resource; an unreadable status counts as empty.

    Its facts can be observed again: pods carry their epoch and revision, storage has the others.
    """
    try:
        return StatefulSparkJobStatus.model_validate(resources.section(resource, "status"))
    except ValidationError:
        return StatefulSparkJobStatus()


def read_metadata(resource: Resource) -> Job:
    """Read the parts of a resource's metadata that a decision needs."""
    return Job(
        namespace=resources.text(resource, "metadata", "namespace"),
        name=resources.text(resource, "metadata", "name"),
        uid=resources.text(resource, "metadata", "uid"),
        generation=resources.number(resource, "metadata", "generation"),
        resource_version=resources.text(resource, "metadata", "resourceVersion"),
        finalizers=tuple(name for name in finalizers(resource) if name in names.FINALIZERS),
        deletion_requested_at=resources.time(resource, "metadata", "deletionTimestamp"),
    )


def finalizers(resource: Resource) -> tuple[str, ...]:
    """Return the finalizers of a resource."""
    entries = resources.find(resource, "metadata", "finalizers")
    return tuple(name for name in entries if isinstance(name, str)) if isinstance(entries, list) else ()


async def observe(ports: Ports, resource: Resource, found: tuple[Resource, ...]) -> Observation:
    """Look at a job, and ask its driver and its standby.

    Args:
        ports: The ports.
        resource: The resource.
        found: The pods that carry its labels.
    """
    job, status, now = read_metadata(resource), read_status(resource), ports.now()
    if job.deletion_requested_at is not None:
        job = dataclasses.replace(job, is_in_ending_namespace=await ports.gateway.is_ending(job.namespace))
    # Executors of an earlier resource with the same name count: they belong to pods that this job does not have.
    owned = [pod for pod in found if resources.has_owner(pod, job.uid)]
    read_drivers = [driver for pod in owned if (driver := pods.read_driver_pod(pod)) is not None]
    read_standbys = [standby for pod in owned if (standby := pods.read_standby_pod(pod)) is not None]
    executors = [executor for pod in found if (executor := pods.read_executor_pod(pod)) is not None]
    executors.sort(key=lambda pod: names.executor_number(pod.name))
    read_drivers.sort(key=lambda pod: pod.epoch)
    drivers = tuple([await access.note_missing_secret(ports, job, pod) for pod in read_drivers])
    standbys = tuple([await access.note_missing_secret(ports, job, pod) for pod in read_standbys])
    # A standby takes over from a driver that has ended its work, although its pod may still run.
    ended = status.driver is not None and status.driver.state is DriverState.ENDED and status.standby is not None
    released = status.driver.epoch if status.driver is not None and ended else -1
    live = [pod for pod in drivers if pod.is_live(now) and pod.epoch > released]
    return Observation(
        now=now,
        resource=resource,
        job=job,
        status=status,
        pods=found,
        drivers=drivers,
        standbys=standbys,
        executors=tuple(executors),
        live=tuple(live),
        driver=await _ask_driver(ports, job, status, live),
        standby=await _ask_standby(ports, job, status, [pod for pod in standbys if pod.is_live(now)]),
    )


async def gather_facts(ports: Ports, observation: Observation, accepted: Accepted) -> Situation:
    """Return all facts about a job but the savepoint objects.

    Args:
        ports: The ports.
        observation: The job as it was looked at.
        accepted: The spec to carry out.
    """
    job, status = observation.job, observation.status
    storage: StorageFacts | StorageUnreadable | None = None
    start_at = ports.starts.due_at(JobKey(job.namespace, job.name), observation.now)
    if _needs_storage(observation, accepted, is_queued=start_at is not None):
        target = await access.storage_target(ports, job, accepted)
        if isinstance(target, StorageTarget):
            operation = status.operation
            storage = await ports.storage.read(
                target,
                savepoint=status.restore.snapshot if status.restore else None,
                requests=operations.ids(operation) if operation is not None and _is_unanswered(operation) else (),
            )
        else:
            storage = target
    schedule = accepted.spec.savepoint.schedule if accepted.spec is not None else None
    return Situation(
        now=observation.now,
        job=job,
        spec=accepted.spec,
        status=status,
        rejection=accepted.rejection,
        pods=observation.drivers,
        driver=observation.driver.status,
        operation=observation.driver.operation,
        storage=storage,
        standbys=observation.standbys,
        standby=observation.standby,
        withheld=accepted.withheld,
        queued=accepted.queued,
        executors=observation.executors,
        calendar=calendar.read(schedule.cron, schedule.time_zone) if schedule is not None else None,
        code=accepted.code,
        ignored_code=accepted.ignored_code,
        named=accepted.revision,
        start_at=start_at,
    )


async def _ask_driver(ports: Ports, job: Job, status: StatefulSparkJobStatus, live: list[DriverPod]) -> DriverAnswer:
    """Ask the newest driver that may answer."""
    running = [pod for pod in live if pod.phase is PodPhase.RUNNING and pod.ip is not None]
    if not running:
        return DriverAnswer()
    pod = running[-1]
    granted = await access.find(ports, job, pod)
    if isinstance(granted, DriverSilent):
        access.invalidate(ports, job, pod)
        return DriverAnswer(granted)
    answer = await ports.drivers.status(pod, granted)
    if isinstance(answer, DriverSilent):
        access.invalidate(ports, job, pod)
    operation = status.operation
    if operation is None or operation.epoch != pod.epoch or operation.state is not OperationPhase.REQUESTED:
        return DriverAnswer(answer)
    memory = ports.memories.get(JobKey(job.namespace, job.name))
    if memory.ended is not None and memory.ended.request_id == operation.id:
        return DriverAnswer(answer, memory.ended)
    if isinstance(answer, DriverSilent):
        return DriverAnswer(answer)
    # A driver that has stopped exits at once. Who asks later has to wait for its pod's end to be reported.
    wait_s = LONGEST_WAIT_S if operation.kind is OperationKind.STOP and status.standby is not None else 0
    said = await ports.drivers.operation(pod, granted, operation.id, wait_s=wait_s)
    if isinstance(said, Operation) and said.state is not OperationState.IN_PROGRESS:
        memory.ended = said
    return DriverAnswer(answer, said)


async def _ask_standby(
    ports: Ports, job: Job, status: StatefulSparkJobStatus, live: list[DriverPod]
) -> JobStatus | DriverSilent | None:
    """Ask the recorded standby, once its process runs."""
    record = status.standby
    pod = next((pod for pod in live if record is not None and pod.name == record.pod), None)
    if pod is None or pod.phase is not PodPhase.RUNNING or pod.ip is None:
        return None
    granted = await access.find(ports, job, pod)
    answer = granted if isinstance(granted, DriverSilent) else await ports.drivers.status(pod, granted)
    if isinstance(answer, DriverSilent):
        access.invalidate(ports, job, pod)
    return answer


def _needs_storage(observation: Observation, accepted: Accepted, *, is_queued: bool) -> bool:
    """Tell whether the decision depends on the content of storage, or the job's conditions on whether it can be read.

    While a driver runs it is not read, unless it could not be the last time, or a standby does not get ready. It was
    read before a start began to wait for its turn, and is read again when that has come.
    """
    if accepted.spec is None:
        return False
    if observation.live:
        standby, reachable = observation.status.standby, observation.status.condition(ConditionType.STORAGE_REACHABLE)
        is_held_up = standby is not None and standby.state is StandbyState.WARMING and standby.reason is not None
        return is_held_up or (reachable is not None and reachable.status is ConditionStatus.FALSE)
    policy = accepted.spec.deletion_policy
    if observation.job.deletion_requested_at is not None and policy is not DeletionPolicy.SAVEPOINT:
        return policy is DeletionPolicy.DELETE
    if not accepted.spec.suspend:
        return not is_queued
    operation, driver = observation.status.operation, observation.status.driver
    if operation is None or driver is None or operation.epoch != driver.epoch or not _is_unanswered(operation):
        return False
    # The driver may have made the savepoint that it was asked for, unseen.
    return driver.ended_at is None or observation.now - driver.ended_at < LATE_STOP


def _is_unanswered(operation: OperationStatus) -> bool:
    """Tell whether an operation has no result that a driver has told: a stop that was given up goes on."""
    is_given_up = operation.state is OperationPhase.FAILED and operation.kind is OperationKind.STOP
    return operation.state is OperationPhase.REQUESTED or is_given_up
