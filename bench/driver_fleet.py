"""Simulated drivers and their kubelet, a thousand of them in one process, as far as an operator can tell.

A driver pod that appears in the API server is shown as running, with an address of its own on loopback at which its API
answers: the status of a job that waits for input or that commits a batch a second, and a stop with a savepoint, which is
written to storage. No Spark, no container.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

import aiohttp
import yaml
from aiohttp import web
from playedsnapshots import next_manifest, summary_of
from statefulspark.checkpoint import catalog, epochs
from statefulspark.contract import layout
from statefulspark.contract.api import (
    CheckpointCounts,
    JobState,
    JobStatus,
    Operation,
    OperationState,
    QueryStatus,
    StopRequest,
)
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import Manifest, OwnerRecord, SnapshotKind, Trigger
from statefulspark.storage import ObjectStore
from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Kind, Resource

_JSON, _MERGE = "application/json", "application/merge-patch+json"
_AT_ONCE = 32


class Api:
    """The API server for whoever is not the operator; counts its requests, to be taken off what the server counts."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        """Use a session; `connect` opens one."""
        self._session, self._url = session, url
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.requests: Counter[tuple[str, str]] = Counter()

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, kubeconfig: Path) -> AsyncIterator[Self]:
        """Connect with a kubeconfig of `build/bin/cluster`: it names the authority's file, and has a token."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        headers = {"Authorization": f"Bearer {user['token']}"}
        authority = ssl.create_default_context(cafile=cluster["certificate-authority"])
        connector = aiohttp.TCPConnector(ssl=authority, limit=0)
        async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=1 << 22) as session:
            yield cls(session, cluster["server"])

    async def call(
        self, verb: str, kind: Kind, path: str, body: Resource | None = None, content: str = _JSON
    ) -> Resource:
        """Send a request, and return its answer."""
        self.requests[verb, kind.plural] += 1
        headers = {"Content-Type": content}
        async with (
            self._turns,
            self._session.request(verb, self._url + path, json=body, headers=headers) as response,
        ):
            if response.status >= 300:
                raise RuntimeError(f"{verb} {path}: {response.status} {await response.text()}")
            return cast("Resource", await response.json())

    async def create(self, manifest: Resource) -> Resource:
        """Create an object."""
        kind = resources.kind_of(manifest)
        return await self.call("POST", kind, kind.path(resources.text(manifest, "metadata", "namespace")), manifest)

    async def patch(self, kind: Kind, namespace: str, name: str, change: Resource, part: str | None = None) -> Resource:
        """Change an object, or a part such as its status."""
        return await self.call("PATCH", kind, kind.path(namespace, name, part), change, _MERGE)

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object."""
        await self.call("DELETE", kind, kind.path(namespace, name))

    async def items(self, kind: Kind, namespace: str) -> tuple[Resource, ...]:
        """Return all objects of a kind."""
        return resources.items(await self.call("GET", kind, kind.path(namespace)), "items")

    async def counted(self) -> Counter[tuple[str, str]]:
        """Return the requests that the API server has counted, by verb and resource, without watches."""
        async with self._session.get(f"{self._url}/metrics") as response:
            text = await response.text()
        counted: Counter[tuple[str, str]] = Counter()
        for line in text.splitlines():
            if line.startswith("apiserver_request_total{"):
                labels = dict(part.split("=", 1) for part in line[line.index("{") + 1 : line.rindex("}")].split(","))
                verb, resource = labels["verb"].strip('"'), labels["resource"].strip('"')
                counted[verb, resource] += 0 if verb == "WATCH" else int(float(line.rsplit(" ", 1)[1]))
        return counted

    async def watch(self, kind: Kind, namespace: str, selector: str) -> AsyncIterator[tuple[str, Resource]]:
        """Show all objects of a kind and every change; it is opened again when the server ends it."""
        while True:
            query = {"labelSelector": selector}
            listed = await self.call("GET", kind, f"{kind.path(namespace)}?labelSelector={selector}")
            for item in resources.items(listed, "items"):
                yield "ADDED", item
            query |= {"watch": "true", "resourceVersion": resources.text(listed, "metadata", "resourceVersion")}
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                timeout = aiohttp.ClientTimeout(total=None)
                url = self._url + kind.path(namespace)
                async with self._session.get(url, params=query, timeout=timeout) as response:
                    async for line in response.content:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            break
                        yield event["type"], event["object"]


@dataclass(slots=True)
class SimulatedDriver:
    """One driver process.

    Attributes:
        pod: Name of its pod.
        job: Its job.
        epoch: Its epoch.
        root: The job's folder on storage.
        is_busy: Whether it commits a batch a second.
        checkpoint: What it has completed.
        operations: What it was asked for.
    """

    pod: str
    job: str
    epoch: int
    root: ObjectStore
    is_busy: bool
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    checkpoint: Manifest | None = None
    operations: dict[str, Operation] = field(default_factory=dict)

    def begin(self, namespace: str, owner_id: str) -> None:
        """Own the folder, claim the epoch, and complete a checkpoint."""
        owner = OwnerRecord(namespace=namespace, job=self.job, owner_id=owner_id, created_at=datetime.now(UTC))
        epochs.ensure_owner(self.root, owner)
        epochs.claim(self.root, assigned=self.epoch, holder=self.pod, claim_id=uuid.uuid4().hex, now=datetime.now(UTC))
        self.checkpoint = self._manifest(namespace, SnapshotKind.CHECKPOINT, Trigger.PERIODIC)
        catalog.write_checkpoint(self.root, self.checkpoint)

    def stop(self, namespace: str, request_id: str) -> str:
        """Write a savepoint, and return where it is."""
        manifest = self._manifest(namespace, SnapshotKind.SAVEPOINT, Trigger.UPGRADE, request_id)
        folder = layout.savepoint(manifest.id, "upgrade")
        catalog.write_manifest(self.root, folder, manifest)
        self.operations[request_id] = Operation(
            request_id=request_id,
            kind="Stop",
            state=OperationState.COMPLETED,
            snapshot=summary_of(self.root, manifest, folder),
        )
        return f"{self.root.uri}/{folder}"

    def status(self, namespace: str) -> JobStatus:
        """Return what it answers."""
        since_s = (datetime.now(UTC) - self.started_at).total_seconds()
        batch = int(since_s) if self.is_busy else 1
        query = QueryStatus(
            uid="delays",
            active=True,
            batch_id=batch,
            input_rows=100 * batch,
            rows_per_second=float(100 + batch % 7) if self.is_busy else 0.0,
            last_commit_at=datetime.now(UTC) if self.is_busy else self.started_at,
        )
        latest = self.checkpoint
        return JobStatus(
            job=self.job,
            namespace=namespace,
            state=JobState.RUNNING if latest is not None else JobState.STARTING,
            epoch=self.epoch,
            started_at=self.started_at,
            queries=(query,),
            checkpoints=CheckpointCounts(completed=1 if latest is not None else 0),
            last_checkpoint=summary_of(self.root, latest, layout.checkpoint(latest.id)) if latest is not None else None,
        )

    def _manifest(
        self, namespace: str, kind: SnapshotKind, trigger: Trigger, request_id: str | None = None
    ) -> Manifest:
        return next_manifest(
            self.root, kind, trigger, namespace=namespace, job=self.job, epoch=self.epoch, request_id=request_id
        )


class Fleet:
    """All drivers of a namespace.

    Attributes:
        port: Of every driver's API, at the address of its pod.
        stops: When a job's driver was asked to stop for the first time, by job and epoch, in seconds of `time.monotonic`.
    """

    def __init__(self, api: Api, namespace: str, store: ObjectStore, *, busy_every: int) -> None:
        """Play the drivers of a namespace.

        Args:
            api: The API server.
            namespace: Their namespace.
            store: What `spec.storage.uri` names.
            busy_every: Every so manieth job is busy; 0 for none.
        """
        self._api, self._namespace, self._store, self._busy_every = api, namespace, store, busy_every
        self._drivers: dict[str, SimulatedDriver] = {}
        self._addresses = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: set[str] = set()
        self.port = 0
        self.stops: dict[tuple[str, int], float] = {}

    @contextlib.asynccontextmanager
    async def playing(self) -> AsyncIterator[None]:
        """Play them while the block runs."""
        application = web.Application()
        application.router.add_get("/v1/status", self._status)
        application.router.add_post("/v1/stop", self._stop)
        application.router.add_get("/v1/operations/{id}", self._operation)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        # At every address of loopback: the operator reaches a driver at the address of its pod.
        site = web.TCPSite(runner, "0.0.0.0", 0, backlog=4096)  # noqa: S104
        await site.start()
        self.port = int(runner.addresses[0][1])
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            for task in (watching, *self._tasks):
                task.cancel()
            await asyncio.gather(watching, *self._tasks, return_exceptions=True)
            await runner.cleanup()

    async def _watch(self) -> None:
        selector = f"{names.LABEL_ROLE}={names.ROLE_DRIVER}"
        async for event, pod in self._api.watch(resources.POD, self._namespace, selector):
            uid = resources.text(pod, "metadata", "uid")
            if event != "DELETED" and uid not in self._seen:
                self._seen.add(uid)
                self._start_task(self._run(pod))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, pod: Resource) -> None:
        """Be the kubelet of a pod that has been created, and start its driver."""
        labels = resources.section(pod, "metadata", "labels")
        job, epoch = str(labels[names.LABEL_JOB]), int(str(labels[names.LABEL_EPOCH]))
        self._addresses += 1
        address = f"127.{1 + self._addresses // 62500}.{self._addresses // 250 % 250}.{1 + self._addresses % 250}"
        number = int(job.rpartition("-")[2])
        is_busy = self._busy_every > 0 and number % self._busy_every == 0
        root = self._store.child(layout.job_prefix(self._namespace, job))
        driver = SimulatedDriver(resources.text(pod, "metadata", "name"), job, epoch, root, is_busy)
        self._drivers[address] = driver
        await asyncio.to_thread(
            driver.begin, self._namespace, str(resources.items(pod, "metadata", "ownerReferences")[0]["uid"])
        )
        noted: Resource = {"metadata": {"annotations": {names.ANNOTATION_API_PORT: str(self.port)}}}
        await self._api.patch(resources.POD, self._namespace, driver.pod, noted)
        ready: Resource = {"type": "Ready", "status": "True"}
        status: Resource = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}
        await self._show(driver, status)

    async def _show(self, driver: SimulatedDriver, status: Resource) -> None:
        await self._api.patch(resources.POD, self._namespace, driver.pod, {"status": status}, "status")

    def _find(self, request: web.Request) -> SimulatedDriver | None:
        transport = request.transport
        address = transport.get_extra_info("sockname")[0] if transport is not None else ""
        return self._drivers.get(address)

    async def _status(self, request: web.Request) -> web.Response:
        driver = self._find(request)
        if driver is None:
            return web.Response(status=503)
        return web.Response(text=driver.status(self._namespace).to_json(), content_type=_JSON)

    async def _operation(self, request: web.Request) -> web.Response:
        driver = self._find(request)
        found = driver.operations.get(request.match_info["id"]) if driver is not None else None
        return web.Response(text=found.to_json(), content_type=_JSON) if found else web.Response(status=404)

    async def _stop(self, request: web.Request) -> web.Response:
        driver, asked = self._find(request), StopRequest.model_validate_json(await request.read())
        if driver is None:
            return web.Response(status=503)
        self.stops.setdefault((driver.job, driver.epoch), time.monotonic())
        if asked.request_id not in driver.operations:
            running = Operation(request_id=asked.request_id, kind="Stop", state=OperationState.IN_PROGRESS)
            driver.operations[asked.request_id] = running
            self._start_task(self._end(driver, asked.request_id))
        return web.Response(status=202, text=driver.operations[asked.request_id].to_json(), content_type=_JSON)

    async def _end(self, driver: SimulatedDriver, request_id: str) -> None:
        """Complete a stop: the savepoint, and then the exit as the kubelet shows it."""
        location = await asyncio.to_thread(driver.stop, self._namespace, request_id)
        code = int(ExitCode.SUCCESS)
        report = {"exitCode": code, "reason": "Stopped", "message": "Stopped with a savepoint.", "snapshot": location}
        container: Resource = {
            "name": names.DRIVER_CONTAINER,
            "state": {"terminated": {"exitCode": code, "reason": "Completed", "message": json.dumps(report)}},
            "ready": False,
            "restartCount": 0,
            "image": "x",
            "imageID": "x",
        }
        await self._show(driver, {"phase": "Succeeded", "conditions": None, "containerStatuses": [container]})
