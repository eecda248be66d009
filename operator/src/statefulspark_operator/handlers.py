"""Converts Kubernetes' watch events to updates of the cache and wake-ups of jobs: the only module that imports kopf.

kopf lists and watches jobs, savepoint objects and pods, and connects again. Nothing depends on its detection of changes, its
finalizer or its timers. An event updates the cache and starts a pass of its job. A pass that acts reads the API server, and
the cache is compared with it now and then, so that a missed, late or repeated event costs time only.

What differs from kopf's defaults, and why:
- `_NoDiffBase`: for handlers of changes, of which there are none, kopf copies each object of each event.
- `IDLE_WORKER_S`, `LISTED_AT_ONCE`: kopf keeps the object of an event until its worker is idle, and lists a kind at once.
- An event passes its wake-up on in an empty context: kopf's has the object of the event, and a task keeps its context.
- `cache.InitialSync`: in kopf's own gate, its indices, each object that arrives wakes all that have arrived before; with 200
  jobs and their pods that took half a minute.
- Passes and watches end in `kopf.on.cleanup`: kopf waits five seconds for tasks that still run when it ends.
- `_patient_watch`: kopf ends at the 404 or 403 of a watch, so the operator would end when its kinds are deleted, or one of
  its namespaces. It asks again. At its end, kopf cancels a watch together with the task that tells the watch of a pause. The
  watch takes the first for the second, and goes on for as long as the API server lets it. So it is told of no pauses; there
  are none here.
- `_ReadPatiently`: one object that nests too much for Python's JSON parser would end the watch of everybody's.
- A ConfigMap with code is watched by `KubernetesGateway.watch`: kopf selects by labels, and would read each ConfigMap of the
  cluster with its content.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import kopf
from aiohttp import web
from kopf._cogs.clients import api as kopf_api
from kopf._cogs.clients import errors as kopf_errors
from kopf._cogs.clients import watching
from kopf._cogs.structs import references
from pydantic import JsonValue
from statefulspark import errors

from statefulspark_operator.api import base, names
from statefulspark_operator.api.job_defaults import JobDefaults
from statefulspark_operator.api.pod_templates import PodTemplates
from statefulspark_operator.cluster import (
    answers,
    cache,
    driver_api,
    kubernetes_gateway,
    permits,
    resources,
    storage_reader,
)
from statefulspark_operator.cluster.cache import LONGEST_SYNC_S, Cache, InitialSync
from statefulspark_operator.cluster.config_map_watches import OpenWatches
from statefulspark_operator.cluster.gateway import Gateway, JobKey
from statefulspark_operator.engine import leadership, processmemory, queue, reconcile
from statefulspark_operator.engine.leadership import Leadership, LeaseName, LoopThread
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.engine.rollouts import Rollouts
from statefulspark_operator.engine.starts import Starts
from statefulspark_operator.lifecycle.pace import Pace
from statefulspark_operator.render import network_policy
from statefulspark_operator.telemetry import logs, metrics, server
from statefulspark_operator.telemetry.server import KeptText

_LOG = logging.getLogger("statefulspark.operator")

WATCH_TIMEOUT_S = 300
"""The API server ends each watch after this time, so a watch without events is not relied on for longer."""
CONNECT_TIMEOUT_S = 10
LISTED_AT_ONCE = 250
"""Objects in a page of a watch's first list, so that a thousand jobs and their pods are not in memory at once."""
IDLE_WORKER_S = 0.2
"""How long kopf keeps the worker of an object after its last event, and with it that event's whole object."""
ASKED_AGAIN_S = 10
"""How often the API server is asked for a kind or a namespace that it does not have, or that the operator may not watch."""
LEADERSHIP_LOST = 3
"""Exit code of an operator that could not renew its Lease; the kubelet starts it again, and it stands by."""


def build_settings() -> kopf.OperatorSettings:
    """Return kopf's settings.

    Watches have timeouts on both sides (a load balancer may drop one silently), kopf posts no events, and CRDs and
    namespaces are not watched, so that no permissions for them are needed.
    """
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_TIMEOUT_S
    settings.watching.client_timeout = WATCH_TIMEOUT_S + 60
    settings.watching.connect_timeout = CONNECT_TIMEOUT_S
    settings.watching.reconnect_backoff = 1.0
    settings.watching.chunk_size = LISTED_AT_ONCE
    settings.queueing.idle_timeout = IDLE_WORKER_S
    settings.watching.label_selectors["pods"] = names.role_selector()
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = CONNECT_TIMEOUT_S
    settings.persistence.finalizer = f"{base.GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"kopf.{base.GROUP}", v1=False)
    settings.persistence.diffbase_storage = _NoDiffBase()
    return settings


class _NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no copy of an object to compare the next one with."""

    def build(self, **_: object) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        pass


def build_registry(sync: InitialSync, objects: Cache) -> kopf.OperatorRegistry:
    """Return kopf's registry: events of jobs, of their savepoints and of their pods are kept, and wake their job.

    Args:
        sync: Told of each object, and of the job of each event unless it shows what the operator has written itself.
        objects: Keeps what the events show.
    """
    registry = kopf.OperatorRegistry()

    async def changed(event: Mapping[str, object], body: Mapping[str, JsonValue], **_: object) -> None:
        resource = dict(body)
        is_gone, is_own = event.get("type") == "DELETED", objects.is_own_write(resource)
        if is_gone:
            objects.remove(resource)
        else:
            objects.update(resource)
        key = cache.job_of(resource) if is_gone or not is_own else None
        contextvars.Context().run(_pass_on, sync, key, cache.uid_of(resource))

    labels = {names.LABEL_ROLE: kopf.PRESENT}
    for kind, only in ((resources.JOB, None), (resources.SAVEPOINT, None), (resources.POD, labels)):
        group, _, version = kind.api_version.rpartition("/")
        kopf.on.event(group, version, kind.plural, registry=registry, id=kind.name.lower(), labels=only)(changed)
    return registry


def _pass_on(sync: InitialSync, key: JobKey | None, uid: str) -> None:
    if key is not None:
        sync.wake(key)
    sync.arrived(uid)


_kopf_watch = watching.continuous_watch


def watch_patiently() -> None:
    """Have kopf's watches go on after what ends kopf otherwise; see the module."""
    watching.continuous_watch = functools.partial(_patient_watch, set())  # type: ignore[assignment]
    kopf_api.get = _list_patiently
    setattr(kopf_api, "json", _ReadPatiently)  # noqa: B010 - the module that it has imported


class _ReadPatiently:
    """The part of the module `json` with which kopf reads the events of a watch."""

    @staticmethod
    def loads(text: str) -> JsonValue:
        return answers.read(text.encode())


async def _list_patiently(url: str, **given: Any) -> JsonValue:  # noqa: ANN401 - kopf's own arguments
    """Return what the API server answers to GET, as kopf's own function does."""
    response = await kopf_api.request(method="get", url=url, **given)
    async with response:
        return answers.read(await response.read())


async def _patient_watch(
    refused: set[tuple[str, str | None]],
    *,
    settings: kopf.OperatorSettings,
    resource: kopf.Resource,
    namespace: references.Namespace,
    operator_pause_waiter: asyncio.Future[object],
) -> AsyncIterator[object]:
    """Watch a kind until the watch ends, as kopf does; kopf calls it again and again.

    A refusal in a namespace may be of that namespace alone. In the whole cluster it is of the installation, and ends kopf.

    Args:
        refused: The watches that the API server has refused last; they are logged once.
        settings: kopf's.
        resource: The kind.
        namespace: Where; None for the whole cluster.
        operator_pause_waiter: Tells of a pause; there are none.
    """
    del operator_pause_waiter
    watch = (resource.plural, namespace)
    never: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    try:
        async for event in _kopf_watch(
            settings=settings, resource=resource, namespace=namespace, operator_pause_waiter=never
        ):
            refused.discard(watch)
            yield event
    except (kopf_errors.APINotFoundError, kopf_errors.APIForbiddenError) as error:
        if namespace is None and isinstance(error, kopf_errors.APIForbiddenError):
            raise
        level = logging.DEBUG if watch in refused else logging.WARNING
        where = {"kind": resource.plural, "namespace": namespace or "(all)"}
        _LOG.log(level, "not watched", extra={**where, "error": error.message, "asked_again_s": ASKED_AGAIN_S})
        refused.add(watch)
        await asyncio.sleep(ASKED_AGAIN_S)


async def _existing(gateway: Gateway, namespaces: tuple[str, ...]) -> frozenset[str]:
    """Return the identities of the jobs and pods that the watches are going to show; none if they cannot be listed.

    Savepoint objects are not awaited: a role without them may not list them, and the pass that needs them does. It waits for
    both kinds of this operator, because kopf looks once which kinds there are.
    """
    kinds = ((resources.JOB, ""), (resources.POD, names.role_selector()))
    where = namespaces or (None,)
    while True:
        try:
            with contextlib.suppress(errors.StateUnknownError):
                await gateway.list_uids(resources.SAVEPOINT, where[0])
            listed = [
                await gateway.list_uids(kind, namespace, selector) for namespace in where for kind, selector in kinds
            ]
        except errors.PreconditionFailedError as error:
            _LOG.warning("kinds missing", extra={"error": error.message, "asked_again_s": ASKED_AGAIN_S})
            await asyncio.sleep(ASKED_AGAIN_S)
        except errors.StatefulSparkError as error:
            _LOG.warning("jobs not listed", extra={"reason": error.reason, "error": error.message})
            return frozenset()
        else:
            return frozenset().union(*listed)


@dataclass(frozen=True, slots=True)
class JobRules:
    """What the installation says of all jobs.

    Attributes:
        job_peers: Who may reach a driver beside the job's own pods; None if jobs get no NetworkPolicy.
        allowed: What may be opened on storage in the name of a job.
        pod_templates: What the templates of pods may set.
        defaults: What jobs have that do not say otherwise.
        user_id: User and group of jobs' pods; None if images or the platform say it.
        max_concurrent_upgrades: Number of upgrades that may run at once; None for any number.
        starts_per_minute: Number of drivers that may be started in a minute; None for any number.
    """

    job_peers: network_policy.Peers | None = None
    allowed: permits.Permits = field(default_factory=permits.Permits)
    pod_templates: PodTemplates = PodTemplates.RESTRICTED
    defaults: JobDefaults = field(default_factory=JobDefaults)
    user_id: int | None = None
    max_concurrent_upgrades: int | None = None
    starts_per_minute: int | None = None


@contextlib.asynccontextmanager
async def _connect(leader: Leadership | None, rules: JobRules) -> AsyncIterator[Ports]:
    """Open the connections to Kubernetes, drivers and storage, and close them at the end."""
    permit = leader.require if leader is not None else (lambda: None)
    objects = Cache()
    gateway = await kubernetes_gateway.KubernetesGateway.connect(written=objects.update_written, permit=permit)
    drivers = driver_api.HttpDriverApi(permit=permit)
    try:
        yield Ports(
            gateway,
            drivers,
            storage_reader.SnapshotStorageReader(allowed=rules.allowed),
            cache=objects,
            job_peers=rules.job_peers,
            pod_templates=rules.pod_templates,
            job_defaults=rules.defaults,
            user_id=rules.user_id,
            rollouts=Rollouts(rules.max_concurrent_upgrades),
            starts=Starts(Pace(rules.starts_per_minute) if rules.starts_per_minute is not None else None),
            cluster_id=await gateway.read_cluster_id(),
            require_leadership=permit,
        )
    finally:
        await drivers.close()
        await gateway.close()


@contextlib.asynccontextmanager
async def _serve(
    work: queue.WorkQueue,
    gauges: metrics.JobMetrics,
    leader: Leadership | None,
    ports: Ports,
    *,
    health_port: int,
    metrics_port: int,
) -> AsyncIterator[None]:
    """Serve health and metrics."""

    async def health() -> bytes:
        return b"ok"  # This loop answers, so it runs. A pass that hangs is counted, and ends nobody else's.

    def exposition() -> str:
        own = metrics.operator_families(
            jobs=work.jobs,
            passes=work.passes,
            failed_passes=work.failed_passes,
            hung_passes=work.hung_passes,
            is_leader=leader is None or leader.may_act,
            freed_bytes=dataclasses.asdict(ports.freed),
            upgrades_running=ports.rollouts.running,
            upgrades_waiting=ports.rollouts.waiting,
            starts_waiting=ports.starts.waiting,
        )
        return metrics.render((*own, *gauges.families()))

    runners: list[web.AppRunner] = []
    try:
        scraped = KeptText(exposition).read
        for path, port, text in (("/healthz", health_port, health), ("/metrics", metrics_port, scraped)):
            runner, bound = await server.serve(path, port, text)
            runners.append(runner)
            _LOG.info("serving", extra={"path": path, "port": bound})
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


async def operate(
    ports: Ports,
    *,
    namespaces: tuple[str, ...] = (),
    health_port: int = 0,
    metrics_port: int = 0,
    stop: asyncio.Event | None = None,
    lead: Lead | None = None,
) -> None:
    """Reconcile all jobs until `stop` is set, or until SIGTERM or SIGINT in the main thread.

    With a Lease this process stands by until it leads, and ends at once when it does not any more.

    Args:
        ports: The ports.
        namespaces: Namespaces to watch; empty means the whole cluster.
        health_port: Port of /healthz; 0 picks a free one.
        metrics_port: Port of /metrics; 0 picks a free one.
        stop: Ends the operator when it is set.
        lead: The Lease; None if no other operator may run beside this one.
    """
    gauges = metrics.JobMetrics()

    async def run_pass(key: JobKey) -> timedelta | None:
        return await reconcile.reconcile(ports, key, gauges)

    work, settings = queue.WorkQueue(run_pass), build_settings()
    watches = OpenWatches(functools.partial(ports.gateway.watch, resources.CONFIG_MAP), work.wake)
    ports = dataclasses.replace(ports, follow_code=watches.follow, wake=work.wake)
    leader = lead.leader if lead is not None else None
    serving = _serve(work, gauges, leader, ports, health_port=health_port, metrics_port=metrics_port)
    async with serving, _leading(lead):
        sync = InitialSync(work.wake, await _existing(ports.gateway, namespaces))
        asyncio.get_running_loop().call_later(LONGEST_SYNC_S, sync.end)
        registry = build_registry(sync, ports.cache)
        kopf.on.login(registry=registry, id="login")(_login)

        async def end(**_: object) -> None:
            await work.close()
            await watches.close()

        kopf.on.cleanup(registry=registry, id="passes")(end)
        watch_patiently()
        _LOG.info("watching", extra={"namespaces": list(namespaces) or ["(all)"]})
        await kopf.operator(
            registry=registry,
            settings=settings,
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=stop,
        )


@dataclass(frozen=True, slots=True)
class Lead:
    """The Lease, and the loop in which alone it is taken, renewed and given back.

    Attributes:
        leader: The Lease.
        loop: The loop.
    """

    leader: Leadership
    loop: LoopThread


@contextlib.asynccontextmanager
async def _leading(lead: Lead | None) -> AsyncIterator[None]:
    """Wait for the Lease, renew it meanwhile, and give it back at the end."""
    if lead is None:
        yield
        return
    await lead.loop.run(lead.leader.acquire())
    renewing = lead.loop.start(_renew(lead.leader))
    try:
        yield
    finally:
        renewing.cancel()
        await lead.loop.run(lead.leader.release())


async def _renew(leader: Leadership) -> None:
    """Renew the Lease, and end the process when it is lost: nothing that runs, in threads either, may go on."""
    await leader.hold()
    _LOG.error("leadership lost", extra={"exit_code": LEADERSHIP_LOST})
    logging.shutdown()
    os._exit(LEADERSHIP_LOST)


async def _login(settings: kopf.OperatorSettings, **_: object) -> kopf.ConnectionInfo | None:
    """Log in with the pod's service account, or with KUBECONFIG."""
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)


async def _main(
    *,
    namespaces: tuple[str, ...],
    health_port: int,
    metrics_port: int,
    lease: LeaseName | None,
    rules: JobRules,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(processmemory.given_back())
        lead: Lead | None = None
        if lease is not None:
            # A loop and a connection for the Lease alone: its renewals wait for nothing else.
            loop = await stack.enter_async_context(leadership.run_loop_thread("lease"))
            connecting = kubernetes_gateway.KubernetesGateway.connect(timeout_s=leadership.REQUEST_TIMEOUT_S)
            gateway = await loop.run(connecting)
            stack.push_async_callback(lambda: loop.run(gateway.close()))
            lead = Lead(Leadership(gateway, lease), loop)
        ports = await stack.enter_async_context(_connect(lead.leader if lead is not None else None, rules))
        await operate(ports, namespaces=namespaces, health_port=health_port, metrics_port=metrics_port, lead=lead)


def run(
    *,
    namespaces: tuple[str, ...],
    health_port: int,
    metrics_port: int,
    log_format: str,
    log_level: str = "info",
    lease: LeaseName | None = None,
    rules: JobRules,
) -> int:
    """Run the operator until SIGTERM.

    Args:
        namespaces: Namespaces to watch; empty means the whole cluster.
        health_port: Port of /healthz.
        metrics_port: Port of /metrics.
        log_format: `json` or `text`.
        log_level: The least severe lines that are logged.
        lease: The Lease that operators beside this one hold in turn; None if there are none.
        rules: What the installation says of all jobs.

    Returns:
        The exit code.
    """
    logs.configure(log_format, log_level)
    # The first process of a container ignores signals that it does not handle, and kopf handles them while it runs only.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    processmemory.tune_garbage_collection()
    asyncio.run(
        _main(namespaces=namespaces, health_port=health_port, metrics_port=metrics_port, lease=lease, rules=rules)
    )
    return 0
