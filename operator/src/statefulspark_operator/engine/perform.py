"""Performs a decision's actions, in order. It decides nothing.

Every action can be repeated: an existing object is kept or updated to the same state, a missing one is no error, and a
request to a driver carries its id. The next pass observes whether a driver received a request.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import assert_never

from statefulspark import errors
from statefulspark.contract.api import ActivateRequest, SavepointRequest, StopRequest
from statefulspark.contract.manifest import Trigger

from statefulspark_operator.api import names, pod_metadata
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.driver_api import DriverAccess
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine import access, objects, observe, record, validate
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import actions, history, pruning
from statefulspark_operator.lifecycle.situation import Accepted, DriverPod, Situation
from statefulspark_operator.render import children, config, defaults, driver, network_policy
from statefulspark_operator.render.base import Manifest, Subject

_LOG = logging.getLogger("statefulspark.perform")
_FOLDER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Pass:
    """The parts of one reconcile pass that actions need.

    Attributes:
        ports: The ports.
        key: The job.
        resource: The resource as it was read.
        situation: The situation that the decision was made from.
        resource_version: Version of the resource after its status was recorded.
    """

    ports: Ports
    key: JobKey
    resource: Resource
    situation: Situation
    resource_version: str

    @property
    def own_subject(self) -> Subject:
        """The job and its own spec, without the installation's defaults."""
        if self.situation.spec is None:
            raise errors.InternalError("SpecMissing", f"{self.key} has no spec, but a rule requested an action for it.")
        is_withheld = self.situation.withheld is not None or self.situation.rejection is not None
        subject = self.ports.subject(self.situation.job, self.situation.spec)
        returns = history.goes_back(self.situation.status, self.situation.desired_revision)
        return replace(subject, is_withheld=is_withheld, goes_back=returns)

    @property
    def subject(self) -> Subject:
        """What the job's manifests are rendered from."""
        return defaults.with_defaults(self.ports.job_defaults, self.own_subject)


async def perform(current: Pass, acts: tuple[actions.Action, ...]) -> None:
    """Perform actions, in order; if one raises, the remaining ones are dropped.

    Raises:
        TransientError: A server did not answer, or this operator leads no longer; the next pass tries again.
        PreconditionFailedError: The observed state has changed; the next pass decides again.
        SpecRejectedError: The API server refuses an object of the spec.
        StateUnknownError: The operator has no permission for an action.
    """
    for act in acts:
        current.ports.require_leadership()
        match act:
            case actions.SetFinalizers():
                others = (name for name in observe.finalizers(current.resource) if name not in names.FINALIZERS)
                patch: Resource = {"metadata": {"finalizers": [*others, *act.names]}}
                await current.ports.gateway.patch(current.key, patch, resource_version=current.resource_version)
            case actions.EnsureRevision():
                await objects.store_revision(current.ports, current.own_subject, act.revision)
            case actions.EnsureToken() | actions.EnsureAccess() | actions.EnsureService() | actions.EnsureConfig():
                await _ensure(current, act)

            case actions.CreateDriver():
                pod = driver.pod(current.subject, epoch=act.epoch, revision=act.revision)
                await _create_pod(current, pod, names.driver_pod(current.key.name, act.epoch))
            case actions.CreateStandby():
                manifest = config.standby_config_map(current.subject, pod=act.pod, revision=act.revision)
                await objects.create(current.ports.gateway, current.situation.job, manifest)
                pod = driver.standby_pod(current.subject, name=act.pod, revision=act.revision)
                await _create_pod(current, pod, act.pod)
            case actions.ActivateStandby() | actions.DescribePods():
                await (_activate(current, act) if isinstance(act, actions.ActivateStandby) else _describe(current, act))
            case actions.DeleteDriver() | actions.DeleteExecutors() | actions.DeleteStandby() | actions.ForgetDriver():
                await _delete(current, act)
            case actions.RequestStop() | actions.RequestSavepoint() | actions.ConfigureDriver():
                await _request(current, act)
            case actions.PurgeStorage():
                await _purge(current)
            case _:
                assert_never(act)


async def _ensure(
    current: Pass,
    act: actions.EnsureToken | actions.EnsureAccess | actions.EnsureService | actions.EnsureConfig,
) -> None:
    gateway, subject, versions = current.ports.gateway, current.subject, current.ports.memories.get(current.key).applied
    match act:
        case actions.EnsureToken():
            token = children.token_secret(subject, current.ports.new_token())
            await objects.keep(gateway, subject.job, token, versions)
        case actions.EnsureAccess():
            secret = children.network_secret(subject, current.ports.new_token())
            await objects.keep(gateway, subject.job, secret, versions)
            for manifest in children.access(subject):
                await objects.apply(gateway, subject.job, manifest, versions)
        case actions.EnsureService():
            peers = current.ports.job_peers
            if peers is not None:
                await objects.apply(gateway, subject.job, network_policy.policy(subject.job, peers), versions)
            service = children.service(subject, epoch=act.epoch, revision=act.revision)
            await objects.apply(gateway, subject.job, service, versions)
        case actions.EnsureConfig():
            document = config.config_map(subject, epoch=act.epoch, revision=act.revision, restore=act.restore)
            await objects.create(gateway, subject.job, document)
        case _:
            assert_never(act)


async def _create_pod(current: Pass, manifest: Manifest, name: str) -> None:
    """Create a pod; wait if a pod with its name belongs to another object.

    Raises:
        SpecRejectedError: `PodTemplateRefused`: the spec is one that was accepted under another rule of the installation.
    """
    gateway = current.ports.gateway
    refused = validate.refused_template(current.ports, current.own_subject)
    if refused is not None:
        raise errors.SpecRejectedError(refused.reason, refused.message)
    if await gateway.create(manifest):
        return
    existing = await gateway.get(resources.POD, current.key.namespace, name)
    if existing is None or not resources.has_owner(existing, current.situation.job.uid):
        raise errors.TransientError(
            "PodNameTaken", f"A pod {name} that does not belong to this job exists; the driver waits until it is gone."
        )


async def _delete(
    current: Pass,
    act: actions.DeleteDriver | actions.DeleteExecutors | actions.DeleteStandby | actions.ForgetDriver,
) -> None:
    """Delete pods, after what only they need."""
    gateway, namespace, job = current.ports.gateway, current.key.namespace, current.situation.job
    grace_s = None
    match act:
        case actions.DeleteExecutors():
            for pod in act.pods:
                await gateway.delete(resources.POD, namespace, pod.name, uid=pod.uid)
            return
        case actions.DeleteStandby():
            await objects.delete(gateway, job, resources.CONFIG_MAP, names.standby_config(act.name))
        case actions.ForgetDriver():
            config_map = names.config_of(current.key.name, act.name, act.epoch)
            await objects.delete(gateway, job, resources.CONFIG_MAP, config_map)
        case actions.DeleteDriver():
            grace_s = act.grace_s
        case _:
            assert_never(act)
    await gateway.delete(resources.POD, namespace, act.name, uid=act.uid, grace_s=grace_s)


async def _describe(current: Pass, act: actions.DescribePods) -> None:
    """Change labels and annotations of pods, by what each has at this moment."""
    gateway, namespace, spec = current.ports.gateway, current.key.namespace, current.subject.spec
    beneath = pod_metadata.of_executors(spec) if act.are_executors else pod_metadata.of_drivers(spec)
    for reference in act.pods:
        pod = await gateway.get(resources.POD, namespace, reference.name)
        if pod is None or resources.text(pod, "metadata", "uid") != reference.uid:
            continue
        labels, annotations = pod_metadata.changes(resources.section(pod, "metadata"), act.metadata, beneath)
        await gateway.label_pod(namespace, reference.name, labels, annotations=annotations, uid=reference.uid)


async def _activate(current: Pass, act: actions.ActivateStandby) -> None:
    """Label the pod as the driver of its epoch, and ask its process to become that.

    The labels come first: from then on every pass finds the pod as the driver, and repeats the request until it is heard.
    """
    labels = names.activation_labels(act.epoch)
    await current.ports.gateway.label_pod(current.key.namespace, act.name, labels, uid=act.uid)
    candidates = (pod for pod in (*current.situation.standbys, *current.situation.pods) if pod.uid == act.uid)
    pod = next(candidates, None)
    granted = await _access_to(current, pod)
    if pod is None or granted is None:
        return
    restore = config.restore_config(current.subject, act.restore)
    request = ActivateRequest(request_id=f"{pod.name}-{act.epoch}", epoch=act.epoch, restore=restore)
    answer = await current.ports.drivers.activate(pod, granted, request)
    if answer is not None:
        _LOG.warning(
            "activation not accepted", extra={"job": str(current.key), "pod": pod.name, "error": answer.message}
        )


async def _access_to(current: Pass, pod: DriverPod | None) -> DriverAccess | None:
    """Return what a driver is asked with; None if there is no such pod, or it cannot be asked now."""
    granted = await access.find(current.ports, current.situation.job, pod) if pod is not None else None
    return granted if isinstance(granted, DriverAccess) else None


async def _request(
    current: Pass, act: actions.RequestStop | actions.RequestSavepoint | actions.ConfigureDriver
) -> None:
    pod = next((pod for pod in current.situation.pods if pod.epoch == act.epoch), None)
    granted = await _access_to(current, pod)
    if pod is None or granted is None:
        return
    match act:
        case actions.RequestStop():
            stop = StopRequest(
                request_id=act.request_id,
                savepoint=True,
                location=act.location,
                trigger=act.trigger,
                name=act.trigger.value,
            )
            answer = await current.ports.drivers.stop(pod, granted, stop)
        case actions.RequestSavepoint():
            savepoint = SavepointRequest(
                request_id=act.request_id,
                location=act.location,
                trigger=Trigger.MANUAL,
                name=act.name if act.name is not None and _FOLDER_NAME.fullmatch(act.name) else "manual",
                format=act.written_as,
            )
            answer = await current.ports.drivers.savepoint(pod, granted, savepoint)
        case actions.ConfigureDriver():
            answer = await current.ports.drivers.configure(pod, granted, act.checkpoint)
        case _:
            assert_never(act)
    if answer is not None:
        _LOG.warning("request not accepted", extra={"job": str(current.key), "pod": pod.name, "error": answer.message})


async def _purge(current: Pass) -> None:
    accepted = Accepted(current.situation.spec)
    target = await access.storage_target(current.ports, current.situation.job, accepted)
    if not isinstance(target, StorageTarget):
        return
    freed = await current.ports.storage.purge(target)
    current.ports.freed.purged += freed.size_bytes
    if freed.files:
        await record.tell(current.ports, current.key, current.situation.job, (pruning.purged(freed),))
