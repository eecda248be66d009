"""Kubelet and driver for an API server on which nothing runs pods: real HTTP API, real S3, pods' status set by hand.

A driver here claims its epoch on storage as the real one does, serves the driver's HTTP API on loopback, completes a
checkpoint when it starts, and writes a savepoint's manifest before it ends with exit code 11. It processes nothing.
"""

from __future__ import annotations

import json
import threading
import uuid
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from apiserver import ApiServer
from playedsnapshots import next_manifest, summary_of
from statefulspark import errors, failures
from statefulspark.checkpoint import catalog, epochs
from statefulspark.contract import layout
from statefulspark.contract.api import (
    ActivateRequest,
    CheckpointCounts,
    JobState,
    JobStatus,
    Operation,
    OperationState,
    QueryStatus,
    SavepointRequest,
    StandbyState,
    StandbyStatus,
)
from statefulspark.contract.config import JobConfig
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd
from statefulspark.contract.manifest import Manifest, OwnerRecord, SnapshotKind, Trigger
from statefulspark.storage import ObjectStore
from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource


class LoopbackDriver:
    """The driver of one pod, and its kubelet.

    Attributes:
        config: What the operator told it.
        epoch: From its label.
        stop_requests: Ids of the stops it was asked for, in order.
        activations: What a standby was told, in order.
    """

    def __init__(self, server: ApiServer, namespace: str, pod: Resource, store: ObjectStore, *, port: int) -> None:
        self._server, self._namespace, self._store, self._port = server, namespace, store, port
        self._pod = resources.text(pod, "metadata", "name")
        self.epoch = int(resources.text(pod, "metadata", "labels", names.LABEL_EPOCH) or 0)
        job = resources.text(pod, "metadata", "labels", names.LABEL_JOB)
        config_map = server.get(namespace, f"configmap/{names.config_of(job, self._pod, self.epoch)}")
        self.config = JobConfig.model_validate_json(resources.text(config_map, "data", "job.json"))
        self.token = self._read_token(job)
        self.stop_requests: list[str] = []
        self.activations: list[ActivateRequest] = []
        self.batch_since: datetime | None = None
        self._operations: dict[str, Operation] = {}
        self._started_at = datetime.now(UTC)
        self._checkpoint: Manifest | None = None

    def _read_token(self, job: str) -> str:
        encoded = self._server.call(
            "-n", self._namespace, "get", "secret", names.token(job), "-o", "go-template={{.data.token | base64decode}}"
        )
        return encoded.strip()

    def start(self) -> None:
        """Claim the epoch, complete a checkpoint, and become ready."""
        owner = OwnerRecord(
            namespace=self._namespace,
            job=self.config.name,
            owner_id=self.config.owner_id,
            cluster_id=self.config.cluster_id,
            created_at=datetime.now(UTC),
            word=self.config.restore.word,
        )
        epochs.ensure_owner(self._store, owner, ownership=self.config.storage.ownership)
        epochs.claim(
            self._store, assigned=self.epoch, holder=self._pod, claim_id=uuid.uuid4().hex, now=datetime.now(UTC)
        )
        self._started_at = datetime.now(UTC)
        self._checkpoint = self._manifest(SnapshotKind.CHECKPOINT, Trigger.PERIODIC)
        catalog.write_checkpoint(self._store, self._checkpoint)
        self._show_port()
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "conditions": [ready]}
        self._server.patch_status(self._namespace, f"pod/{self._pod}", cast("Resource", status))

    def _show_port(self) -> None:
        """Note at the pod where the API is: on loopback it cannot be at its usual port, and no template may say so."""
        annotation = f"{names.ANNOTATION_API_PORT}={self._port}"
        self._server.call("-n", self._namespace, "annotate", "pod", self._pod, annotation)

    def stand_by(self) -> None:
        """Be a process that is ready to become the driver."""
        self._show_port()
        unready = {"type": "Ready", "status": "False"}
        status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "conditions": [unready]}
        self._server.patch_status(self._namespace, f"pod/{self._pod}", cast("Resource", status))

    def activate(self, request: ActivateRequest) -> Operation:
        """Answer `POST /v1/activate`: become the driver soon after."""
        if not self.activations:
            self.epoch = request.epoch
            if request.restore is not None:
                self.config = self.config.model_copy(update={"restore": request.restore})
            threading.Timer(0.1, self.start).start()
        self.activations.append(request)
        return Operation(request_id=request.request_id, kind="Activation", state=OperationState.IN_PROGRESS)

    def refuse(self, error: errors.StatefulSparkError) -> None:
        """End because of an error, as the real driver does."""
        self.end(failures.classify_error(error).code, error.message, reason=error.reason)

    def end(
        self, how: ExitCode | PlannedEnd, message: str, snapshot: str | None = None, *, reason: str | None = None
    ) -> None:
        """End with an exit code and a report, as the kubelet shows it."""
        code, word = (0, how.value) if isinstance(how, PlannedEnd) else (int(how), how.name.title())
        reason = reason or word
        report = {"exitCode": code, "reason": reason, "message": message, "snapshot": snapshot}
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "message": json.dumps(report)}
        container = {
            "name": names.DRIVER_CONTAINER,
            "state": {"terminated": ended},
            "ready": False,
            "restartCount": 0,
            "image": "x",
            "imageID": "x",
        }
        status = {"phase": "Failed" if code else "Succeeded", "conditions": None, "containerStatuses": [container]}
        self._server.patch_status(self._namespace, f"pod/{self._pod}", cast("Resource", status))

    def status(self) -> JobStatus:
        """Answer `GET /v1/status`."""
        checkpoint = self._checkpoint
        return JobStatus(
            job=self.config.name,
            namespace=self.config.namespace,
            state=self._state(),
            epoch=self.epoch,
            standby=StandbyStatus(state=StandbyState.READY) if self.epoch == 0 else None,
            checkpoints=CheckpointCounts(completed=1 if checkpoint else 0),
            started_at=self._started_at,
            restored_from=self.config.restore.snapshot,
            queries=(QueryStatus(uid="delays", active=True, batch_id=1, batch_since=self.batch_since),),
            last_checkpoint=summary_of(self._store, checkpoint, layout.checkpoint(checkpoint.id))
            if checkpoint
            else None,
        )

    def _state(self) -> JobState:
        if self.epoch == 0:
            return JobState.STANDBY
        return JobState.RUNNING if self._checkpoint is not None else JobState.STARTING

    def savepoint(self, request: SavepointRequest) -> Operation:
        """Answer `POST /v1/savepoints`: write it, and go on."""
        if request.request_id not in self._operations:
            manifest = self._manifest(SnapshotKind.SAVEPOINT, request.trigger, request.request_id)
            folder = layout.savepoint(manifest.id, request.name)
            for query in manifest.queries:
                for file in query.files:
                    self._store.write(f"{folder}/{query.path}/{file.path}", bytes(file.size_bytes))
            catalog.write_manifest(self._store, folder, manifest)
            self._operations[request.request_id] = Operation(
                request_id=request.request_id,
                kind="Savepoint",
                state=OperationState.COMPLETED,
                snapshot=summary_of(self._store, manifest, folder),
            )
        return self._operations[request.request_id]

    def stop(self, request_id: str) -> Operation:
        """Answer `POST /v1/stop`: write the savepoint, then end."""
        if request_id not in self._operations:
            self.stop_requests.append(request_id)
            manifest = self._manifest(SnapshotKind.SAVEPOINT, Trigger.UPGRADE, request_id)
            folder = layout.savepoint(manifest.id, "upgrade")
            catalog.write_manifest(self._store, folder, manifest)
            self._operations[request_id] = Operation(
                request_id=request_id,
                kind="Stop",
                state=OperationState.COMPLETED,
                snapshot=summary_of(self._store, manifest, folder),
            )
            location = f"{self._store.uri}/{folder}"
            threading.Timer(0.5, self.end, (PlannedEnd.STOPPED, "Stopped with a savepoint.", location)).start()
        return self._operations[request_id]

    def operation(self, request_id: str) -> Operation | None:
        """Answer `GET /v1/operations/<id>`."""
        return self._operations.get(request_id)

    def _manifest(self, kind: SnapshotKind, trigger: Trigger, request_id: str | None = None) -> Manifest:
        namespace, job = self.config.namespace, self.config.name
        return next_manifest(
            self._store, kind, trigger, namespace=namespace, job=job, epoch=self.epoch, request_id=request_id
        )


class DriverPort:
    """One HTTP port on loopback behind which the newest driver answers.

    Attributes:
        port: The port.
        driver: Who answers; None refuses with 503.
    """

    def __init__(self) -> None:
        self.driver: LoopbackDriver | None = None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.answer(self, None)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                owner.answer(self, json.loads(self.rfile.read(length)))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def answer(self, handler: BaseHTTPRequestHandler, body: Resource | None) -> None:
        """Answer one request as the driver's API does."""
        status, text = self._route(handler, body)
        encoded = text.encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(encoded)))
        handler.end_headers()
        handler.wfile.write(encoded)

    def _route(self, handler: BaseHTTPRequestHandler, body: Resource | None) -> tuple[int, str]:
        driver = self.driver
        if driver is None:
            return 503, '{"reason": "Gone", "message": "no driver"}'
        if handler.headers.get("Authorization") != f"Bearer {driver.token}":
            return 401, '{"reason": "Unauthorized", "message": "wrong token"}'
        if handler.path == "/v1/status":
            return 200, driver.status().to_json()
        if handler.path == "/v1/activate" and body is not None:
            return 202, driver.activate(ActivateRequest.model_validate(body)).to_json()
        if handler.path == "/v1/savepoints" and body is not None:
            return 202, driver.savepoint(SavepointRequest.model_validate(body)).to_json()
        if handler.path == "/v1/stop" and body is not None:
            return 202, driver.stop(resources.text(body, "requestId")).to_json()
        path = urlsplit(handler.path).path
        found = driver.operation(Path(path).name) if path.startswith("/v1/operations/") else None
        return (200, found.to_json()) if found else (404, '{"reason": "NotFound", "message": "unknown"}')
