"""Gathers what a decision needs: the resource, its pods, the driver's word, and storage when it matters.

Observing never acts. Storage is read only when it decides something: no driver runs, or its state is to be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError
from statefulspark.contract.api import JobStatus, Operation

from statefulspark_operator.api import names
from statefulspark_operator.api.spec import DeletionPolicy
from statefulspark_operator.api.status import OperationPhase, StatefulSparkJobStatus
from statefulspark_operator.cluster import pods, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine.validate import Accepted
from statefulspark_operator.engine.world import World
from statefulspark_operator.lifecycle.situation import (
    DriverPod,
    DriverSilent,
    Job,
    OperationAbsent,
    PodPhase,
    Situation,
    StorageFacts,
    StorageUnreadable,
)
from statefulspark_operator.render import config


@dataclass(frozen=True, slots=True)
class DriverWord:
    """What the driver said.

    Attributes:
        status: How the job is, or that it did not answer; None if there is no driver to ask.
        operation: About the operation of the status.
    """

    status: JobStatus | DriverSilent | None = None
    operation: Operation | OperationAbsent | None = None


async def read_job(world: World, key: JobKey) -> Resource | None:
    """Return the resource, live, or None if it is gone."""
    return await world.gateway.get(resources.JOB, key.namespace, key.name)


def read_status(resource: Resource) -> StatefulSparkJobStatus:
    """Read the status of a resource; one that cannot be read counts as empty.

    The facts are found again by looking: pods carry their epoch and revision, storage knows the rest.
    """
    try:
        return StatefulSparkJobStatus.model_validate(resources.section(resource, "status"))
    except ValidationError:
        return StatefulSparkJobStatus()


def read_metadata(resource: Resource) -> Job:
    """Read what the decision needs of a resource's metadata."""
    return Job(
        namespace=resources.text(resource, "metadata", "namespace"),
        name=resources.text(resource, "metadata", "name"),
        uid=resources.text(resource, "metadata", "uid"),
        generation=resources.number(resource, "metadata", "generation"),
        resource_version=resources.text(resource, "metadata", "resourceVersion"),
        has_finalizer=names.FINALIZER in finalizers(resource),
        deletion_requested_at=resources.time(resource, "metadata", "deletionTimestamp"),
    )


def finalizers(resource: Resource) -> tuple[str, ...]:
    """Return the finalizers of a resource."""
    found = resources.find(resource, "metadata", "finalizers")
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


async def observe(world: World, resource: Resource, accepted: Accepted) -> Situation:
    """Gather everything about a job.

    Args:
        world: The ports.
        resource: The resource, as read in this pass.
        accepted: The spec to carry out.
    """
    job, status = read_metadata(resource), read_status(resource)
    found = await _driver_pods(world, job)
    now = world.now()
    live = [pod for pod in found if pod.is_live(now)]
    word = await _ask_driver(world, job, status, live)
    storage = await _look_at_storage(world, job, status, accepted) if _storage_matters(job, accepted, live) else None
    return Situation(
        now=now,
        job=job,
        spec=accepted.spec,
        status=status,
        rejection=accepted.rejection,
        pods=found,
        driver=word.status,
        operation=word.operation,
        storage=storage,
    )


async def _driver_pods(world: World, job: Job) -> tuple[DriverPod, ...]:
    """Return this job's driver pods; those of an earlier resource of the same name are not ours."""
    listed = await world.gateway.list_pods(job.namespace, names.driver_selector(job.name))
    ours = [pod for pod in listed if _is_owned(pod, job.uid)]
    read = [pods.read_driver_pod(pod) for pod in ours]
    return tuple(sorted((pod for pod in read if pod is not None), key=lambda pod: pod.epoch))


def _is_owned(pod: Resource, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in resources.items(pod, "metadata", "ownerReferences"))


async def _ask_driver(world: World, job: Job, status: StatefulSparkJobStatus, live: list[DriverPod]) -> DriverWord:
    """Ask the newest driver that can answer."""
    running = [pod for pod in live if pod.phase is PodPhase.RUNNING and pod.ip is not None]
    if not running:
        return DriverWord()
    pod = running[-1]
    token = await read_token(world, job)
    if token is None:
        return DriverWord(DriverSilent(f"Secret {names.token(job.name)} with its token is missing"))
    answer = await world.drivers.status(pod, token)
    operation = status.operation
    if isinstance(answer, DriverSilent) or operation is None or operation.epoch != pod.epoch:
        return DriverWord(answer)
    if operation.state is not OperationPhase.REQUESTED:
        return DriverWord(answer)
    return DriverWord(answer, await world.drivers.operation(pod, token, operation.id))


async def read_token(world: World, job: Job) -> str | None:
    """Return the token of a job's driver API, None if its Secret is missing."""
    secret = await world.gateway.read_secret(job.namespace, names.token(job.name))
    return secret.get("token") if secret else None


def _storage_matters(job: Job, accepted: Accepted, live: list[DriverPod]) -> bool:
    """Tell whether what storage holds can decide anything now."""
    if live or accepted.spec is None:
        return False
    if job.deletion_requested_at is not None:
        return accepted.spec.deletion_policy is DeletionPolicy.DELETE
    return not accepted.spec.suspend


async def _look_at_storage(
    world: World, job: Job, status: StatefulSparkJobStatus, accepted: Accepted
) -> StorageFacts | StorageUnreadable | None:
    target = await storage_target(world, job, accepted)
    if not isinstance(target, StorageTarget):
        return target
    return await world.storage.read(target, savepoint=status.restore.snapshot if status.restore else None)


async def storage_target(world: World, job: Job, accepted: Accepted) -> StorageTarget | StorageUnreadable | None:
    """Return how to reach a job's storage, or why it cannot be reached."""
    spec = accepted.spec
    if spec is None:
        return None
    reference = spec.storage.credentials_secret
    if reference is None:
        return StorageTarget(spec.storage, job.namespace, job.name, None)
    credentials = await world.gateway.read_secret(job.namespace, reference.name)
    if credentials is None:
        message = f"Secret {job.namespace}/{reference.name} does not exist; create it with the S3 credentials."
        return StorageUnreadable("CredentialsMissing", message, may_pass=False)
    absent = [key for key in config.CREDENTIAL_KEYS if not credentials.get(key)]
    if absent:
        # Without this the S3 client would go on with the operator's own identity.
        message = f"Secret {job.namespace}/{reference.name} has no {' and no '.join(absent)}; add what is missing."
        return StorageUnreadable("CredentialsMissing", message, may_pass=False)
    return StorageTarget(spec.storage, job.namespace, job.name, credentials)
