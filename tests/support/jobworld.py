"""A whole small world for the operator: a cluster in memory, its kubelet, drivers that work, and their storage.

A driver here claims its epoch, starts, commits batches, completes a checkpoint every ten seconds, takes savepoints and
stops when asked, and notices when it is fenced; so a test can kill any part of it at any time and look at the end
whether state was kept. Time is a number that the test moves.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fakecluster import FakeGateway
from fakewatches import FakeWatches
from statefulspark import errors
from statefulspark.contract.api import (
    ActivateRequest,
    CheckpointCounts,
    JobState,
    JobStatus,
    Operation,
    OperationState,
    QueryStatus,
    SavepointRequest,
    SnapshotSummary,
    StandbyState,
    StandbyStatus,
    StopRequest,
)
from statefulspark.contract.config import CheckpointConfig
from statefulspark.contract.manifest import SnapshotFormat, SnapshotKind, Trigger
from statefulspark.retention.ownership import Ownership
from statefulspark_operator.api import names
from statefulspark_operator.api.code import ObjectCode
from statefulspark_operator.api.spec import Checkpoint
from statefulspark_operator.api.status import SnapshotStatus, StatefulSparkJobStatus
from statefulspark_operator.cluster import cache, resources
from statefulspark_operator.cluster.driver_api import DriverAccess
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import NoSavepoint, Sought, StorageTarget
from statefulspark_operator.engine import observe, reconcile
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle.pruning import Freed, PrunedFolder
from statefulspark_operator.lifecycle.situation import DriverPod, DriverSilent, OperationAbsent
from statefulspark_operator.lifecycle.storage_facts import (
    CheckpointFact,
    SavepointFact,
    StorageFacts,
    StorageUnreadable,
)
from statefulspark_operator.render.network_policy import Peers
from statefulspark_operator.telemetry.metrics import JobMetrics

KEY = JobKey("demo", "flights")
START = datetime(2026, 1, 1, tzinfo=UTC)
CHECKPOINT_EVERY = timedelta(seconds=10)
START_TAKES = timedelta(seconds=3)

SPEC: Resource = {
    "image": "registry.example/flights:1",
    "job": {"file": "/opt/job/flights.py"},
    "storage": {"uri": "s3://state/jobs", "s3": {"credentialsSecretRef": {"name": "s3"}}},
    "upgrade": {"strategy": "Cold"},
}
"""With cold upgrades, so that a test that wants a standby says so."""


class OperatorDiedError(BaseException):
    """The operator process is gone, in the middle of whatever it did; nothing of ours may catch it."""


@dataclass(frozen=True)
class Snapshot:
    """A completed snapshot on storage: how many rows had been counted, and by which driver."""

    id: int
    kind: SnapshotKind
    location: str
    rows: int
    epoch: int
    at: datetime
    trigger: Trigger
    request_id: str | None = None
    name: str | None = None
    """The name that the request gave it."""
    form: SnapshotFormat = SnapshotFormat.NATIVE


@dataclass
class FakeStorage:
    """What is on S3."""

    claims: dict[int, str] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)
    head: int = 0
    """The last row of the newest state: every batch is committed with its rows, whether a checkpoint follows or not."""
    restored: set[str] = field(default_factory=set)
    """Ids of the restores that were carried out."""
    output: list[tuple[int, int]] = field(default_factory=list)
    """The rows that a sink has, with the epochs that wrote them."""
    unreadable: StorageUnreadable | None = None
    unused: int = 0
    """Number of files that no snapshot needs and nobody has marked."""
    marked: int = 0
    """Number of those that are marked."""
    pruned_as: list[int] = field(default_factory=list)
    """The epochs in whose name it was pruned."""
    code: dict[str, str] = field(default_factory=dict)
    """Checksum of each object with code, by its address."""
    kept_code: set[str] = field(default_factory=set)
    files_asked: list[str] = field(default_factory=list)
    """Files that were looked for in code."""
    standing: Ownership | None = None
    """Whose the state is, if it is not the job's."""
    forgotten: list[JobKey] = field(default_factory=list)
    """Jobs whose connections were dropped."""

    @property
    def newest_epoch(self) -> int:
        return max(self.claims, default=0)

    @property
    def repeated(self) -> list[int]:
        """The rows that the sink has more than once."""
        rows = Counter(row for row, _ in self.output)
        return sorted(row for row, times in rows.items() if times > 1)

    def add(
        self,
        kind: SnapshotKind,
        *,
        rows: int,
        epoch: int,
        at: datetime,
        trigger: Trigger,
        request: SavepointRequest | None = None,
        request_id: str | None = None,
    ) -> Snapshot:
        number = max((found.id for found in self.snapshots), default=0) + 1
        location = f"s3://state/jobs/demo/flights/{kind.value}s/{number:08d}"
        snapshot = Snapshot(number, kind, location, rows, epoch, at, trigger, request_id=request_id)
        if request is not None:
            snapshot = dataclasses.replace(snapshot, name=request.name, form=request.format)
        self.snapshots.append(snapshot)
        return snapshot

    def latest(self, kind: SnapshotKind) -> Snapshot | None:
        return next((found for found in reversed(self.snapshots) if found.kind is kind), None)

    async def read(
        self, target: StorageTarget, *, savepoint: str | None, requests: tuple[str, ...] = ()
    ) -> StorageFacts | StorageUnreadable:
        del target
        if self.unreadable is not None:
            return self.unreadable
        latest = self.latest(SnapshotKind.CHECKPOINT)
        fact = None
        if latest is not None:
            shown = SnapshotStatus(id=latest.id, completed_at=latest.at, location=latest.location)
            fact = CheckpointFact(shown, latest.epoch, is_recovery=latest.trigger is Trigger.RECOVERY)
        known = {found.location for found in self.snapshots}
        asked = SavepointFact.NOT_LOOKED
        if savepoint is not None and savepoint.startswith("s3://"):
            asked = SavepointFact.FOUND if savepoint in known else SavepointFact.MISSING
        found = next((found for found in self.snapshots if found.location == savepoint), None)
        requested = next((found for found in self.snapshots if found.request_id in requests), None)
        return StorageFacts(
            self.newest_epoch,
            fact,
            asked,
            is_empty=not self.claims and not self.snapshots,
            found_savepoint=_shown(found),
            requested=_shown(requested),
            standing=self.standing,
        )

    async def find_savepoint(
        self, target: StorageTarget, location: str
    ) -> SnapshotStatus | NoSavepoint | StorageUnreadable:
        del target
        if self.unreadable is not None:
            return self.unreadable
        found = next((found for found in self.snapshots if found.location == location), None)
        if found is None or found.kind is not SnapshotKind.SAVEPOINT:
            return NoSavepoint(f"{location} has no savepoint.")
        return SnapshotStatus(id=found.id, completed_at=found.at, location=location, size_bytes=found.rows)

    async def find_named(
        self, target: StorageTarget, sought: tuple[Sought, ...]
    ) -> Mapping[str, SnapshotStatus] | StorageUnreadable:
        del target
        if self.unreadable is not None:
            return self.unreadable
        named = {(found.name, found.form): found for found in self.snapshots if found.name is not None}
        return {
            one.name: SnapshotStatus(id=found.id, completed_at=found.at, location=found.location, size_bytes=found.rows)
            for one in sought
            if (found := named.get((one.name, one.form))) is not None
        }

    async def dispose(self, target: StorageTarget, location: str) -> None:
        del target
        if self.unreadable is not None:
            raise errors.TransientError(self.unreadable.reason, self.unreadable.message)
        self.snapshots[:] = [found for found in self.snapshots if found.location != location]

    async def prune(self, target: StorageTarget, checkpoint: Checkpoint, *, epoch: int, now: datetime) -> PrunedFolder:
        del target, checkpoint, now
        if self.unreadable is not None:
            raise errors.TransientError(self.unreadable.reason, self.unreadable.message)
        if self.newest_epoch != epoch:
            raise errors.PreconditionFailedError("EpochNotNewest", f"{self.newest_epoch} is newer than {epoch}.")
        self.pruned_as.append(epoch)
        freed, self.marked, self.unused = self.marked, self.unused, 0
        return PrunedFolder(Freed(freed, freed * 100), Freed(self.marked, self.marked * 100), timedelta(seconds=60))

    async def check_code(self, target: StorageTarget, source: ObjectCode, file: str) -> None:
        del target
        if self.unreadable is not None:
            raise errors.TransientError(self.unreadable.reason, self.unreadable.message)
        if source.sha256 in self.kept_code:
            return
        if source.uri not in self.code:
            raise errors.SpecRejectedError("CodeMissing", f"There is no code at {source.uri}.")
        if self.code[source.uri] != source.sha256:
            raise errors.SpecRejectedError("CodeChecksumMismatch", f"{source.uri} has another checksum.")
        self.files_asked.append(file)

    async def keep_code(self, target: StorageTarget, source: ObjectCode) -> None:
        await self.check_code(target, source, "")
        self.kept_code.add(source.sha256)

    async def drop_code(self, target: StorageTarget, checksums: frozenset[str]) -> None:
        del target
        self.kept_code -= checksums

    def forget(self, key: JobKey) -> None:
        self.forgotten.append(key)

    async def purge(self, target: StorageTarget) -> Freed:
        del target
        freed = Freed(len(self.snapshots), sum(snapshot.rows for snapshot in self.snapshots))
        self.claims.clear()
        self.snapshots.clear()
        self.restored.clear()
        return freed


def _shown(snapshot: Snapshot | None) -> SnapshotStatus | None:
    if snapshot is None:
        return None
    batches = {"delays": snapshot.rows}
    return SnapshotStatus(id=snapshot.id, completed_at=snapshot.at, location=snapshot.location, batches=batches)


LACKS_PLACE = StandbyStatus(state=StandbyState.REFUSED, reason="NonRestoredState", message="'added' has no place.")


@dataclass
class FakeDriver:
    """One driver process, from its start to its exit."""

    pod: str
    uid: str
    epoch: int
    config: Mapping[str, object]
    storage: FakeStorage
    started_at: datetime
    state: JobState = JobState.STARTING
    rows: int = 0
    starts_at: datetime | None = None
    restored_from: str | None = None
    fallback: str | None = None
    """Why it started from older state than the newest."""
    other_spark: str | None = None
    """Which other Spark wrote the state that it started from."""
    restore_skipped: str | None = None
    """Why it did not carry out the restore that it was asked for."""
    exit_code: int | None = None
    end_reason: str | None = None
    exit_report: str = ""
    operations: dict[str, Operation] = field(default_factory=dict)
    checkpoints: int = 0
    last_checkpoint: Snapshot | None = None
    last_savepoint: Snapshot | None = None
    next_checkpoint_at: datetime = START
    stop_id: str | None = None
    configurations: int = 0
    """How often it was told how to take checkpoints."""
    savepoints_fail: bool = False
    savepoints_take: timedelta = timedelta(0)
    """How long after its first tick with a request a savepoint or stop is complete."""
    savepoint_formats: dict[str, SnapshotFormat] = field(default_factory=dict)
    requests: dict[str, SavepointRequest] = field(default_factory=dict)
    answers: bool = True
    lingers: bool = False
    """Whether its process goes on after a completed stop."""
    hangs_since: datetime | None = None
    """Since when its batch has been running that never ends."""
    hangs_in: str | None = None
    """What Spark does of that batch."""
    refuses_newest: str | None = None
    """The reason for which it refuses the newest state, if it does."""
    lacks_place: bool = False
    """Whether the newest state has a uid that its version of the job does not have."""
    kept_aside: str | None = None
    """The state that it has left aside."""
    withdraws: bool = False
    """Whether its sinks withdraw the rows of batches that come again."""
    has_committed: bool = False
    committed_at: datetime | None = None
    standby: StandbyStatus | None = None
    """What a standby says of itself; None for a driver."""
    refusal: StandbyStatus | None = None
    """What it says once it has looked at the job."""
    warming_takes: timedelta = START_TAKES
    activations: list[ActivateRequest] = field(default_factory=list)
    _began_at: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.checkpoint_config = CheckpointConfig.model_validate(self.config["checkpoint"])

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended."""
        return self.exit_code is not None

    def tick(self, now: datetime) -> None:
        """Do what a driver does in a second."""
        if self.exit_code is not None:
            return
        if self.standby is not None:
            if now - self.started_at >= self.warming_takes:
                refused = self.refusal or (LACKS_PLACE if self.lacks_place and not self._may_keep_aside() else None)
                self.standby = refused or StandbyStatus(state=StandbyState.READY)
            return
        if self.storage.claims.get(self.epoch, self.uid) != self.uid or self.storage.newest_epoch > self.epoch:
            self.end(12, "Fenced", "A newer epoch owns the job.")
            return
        self.storage.claims[self.epoch] = self.uid
        if self.state is JobState.STARTING:
            if now >= (self.starts_at or self.started_at + START_TAKES):
                self._restore(now)
            return
        if self.hangs_since is not None:
            return
        if self.state is JobState.RUNNING:
            self.rows, self.has_committed, self.committed_at = self.rows + 1, True, now
            self.storage.head = self.rows
            self.storage.output.append((self.rows, self.epoch))
        self._finish_operations(now)
        if not self.has_ended and self.state is JobState.RUNNING and now >= self.next_checkpoint_at:
            self._checkpoint(now, Trigger.PERIODIC)

    def activate(self, request: ActivateRequest) -> DriverSilent | None:
        """Become the driver; what is not started yet is started then."""
        self.activations.append(request)
        if self.standby is None:
            return None if request.epoch == self.epoch else DriverSilent("409 AlreadyActivated")
        if self.standby.state is StandbyState.REFUSED:
            return DriverSilent("409 StandbyRefused")
        was_ready = self.standby.state is StandbyState.READY
        self.standby, self.epoch = None, request.epoch
        self.state = JobState.STARTING
        self.starts_at = self.started_at if was_ready else self.started_at + START_TAKES
        if request.restore is not None:
            self.config = {**self.config, "restore": json.loads(request.restore.to_json())}
        return None

    def take_stop(self, request_id: str) -> None:
        """Begin to stop, unless another stop is under way."""
        if request_id in self.operations:
            return
        operation = Operation(request_id=request_id, kind="Stop", state=OperationState.IN_PROGRESS)
        if self.stop_id is not None:
            refused = {"state": OperationState.FAILED, "reason": "StopInProgress", "message": "It is stopping already."}
            operation = operation.model_copy(update=refused)
        self.operations[request_id] = operation
        self.stop_id = self.stop_id or request_id

    def drain(self, now: datetime, deadline: datetime) -> None:
        """SIGTERM, and SIGKILL at the deadline, which a batch that hangs outlives."""
        if self.hangs_since is not None:
            self.exit_code = 137 if now >= deadline else None
            return
        if self.state is JobState.RUNNING:
            self._checkpoint(now, Trigger.STOP)
        self.end(0, "Drained", "The driver was told to end.")

    def end(self, code: int, reason: str, message: str, snapshot: str | None = None) -> None:
        self.exit_code, self.end_reason = code, reason
        report = {"exitCode": code, "reason": reason, "message": message, "snapshot": snapshot}
        self.exit_report = json.dumps(report)

    def _restore(self, now: datetime) -> None:
        restore = resources.section(dict(self.config), "restore")  # type: ignore[arg-type]
        asked, restore_id = resources.section(restore, "source"), resources.text(restore, "nonce")
        wanted = f"checkpoint:{asked['checkpointID']}" if "checkpointID" in asked else resources.text(asked, "uri")
        is_done = restore_id in self.storage.restored
        if is_done or not asked:
            self.restore_skipped = f"{restore_id} was done before." if is_done else None
            if self.refuses_newest is not None:
                self.end(14, self.refuses_newest, "the newest state does not fit")
                return
            if self.lacks_place and not self._keeps_aside():
                return
            source = self.storage.latest(SnapshotKind.CHECKPOINT)
            self.rows = self.storage.head
        else:
            source = next((found for found in self.storage.snapshots if found.location == wanted), None)
            if wanted and source is None:
                self.end(15, "SnapshotNotFound", f"There is no snapshot {wanted}.")
                return
            if self.lacks_place and not self._keeps_aside():
                return
            rows = source.rows if source else 0
            if restore.get("rollback") is True and self.storage.head > rows and not self.withdraws:
                self.end(14, "OutputRepeated", f"rows {rows + 1} to {self.storage.head} would be written once more")
                return
            self._go_to(rows, restore_id)
        self.restored_from = f"{source.kind.value} {source.id}" if source else None
        self.state = JobState.RUNNING
        self.next_checkpoint_at = now + CHECKPOINT_EVERY

    def _may_keep_aside(self) -> bool:
        restore = resources.section(dict(self.config), "restore")  # type: ignore[arg-type]
        return restore.get("keepAside") is True

    def _keeps_aside(self) -> bool:
        """Leave the state aside that has no place, or end."""
        if not self._may_keep_aside():
            self.end(14, "NonRestoredState", "'added' has no place")
            return False
        self.kept_aside = "'added' is kept aside."
        return True

    def _go_to(self, rows: int, restore_id: str) -> None:
        """Carry out a restore, which makes another state the newest."""
        self.rows = self.storage.head = rows
        self.storage.restored |= {restore_id} if restore_id else set()
        if self.withdraws:
            self.storage.output[:] = [(row, epoch) for row, epoch in self.storage.output if row <= rows]

    def _checkpoint(self, now: datetime, trigger: Trigger) -> None:
        self.checkpoints += 1
        self.last_checkpoint = self.storage.add(
            SnapshotKind.CHECKPOINT, rows=self.rows, epoch=self.epoch, at=now, trigger=trigger
        )
        self.next_checkpoint_at = now + CHECKPOINT_EVERY

    def _finish_operations(self, now: datetime) -> None:
        for request_id, operation in self.operations.items():
            if operation.state is not OperationState.IN_PROGRESS:
                continue
            if now - self._began_at.setdefault(request_id, now) < self.savepoints_take:
                continue
            if self.savepoints_fail:
                changes = {"state": OperationState.FAILED, "reason": "SavepointFailed", "message": "the disk is full"}
                self.operations[request_id] = operation.model_copy(update=changes)
                self.stop_id = None
                self.state = JobState.RUNNING
                continue
            self.last_savepoint = self.storage.add(
                SnapshotKind.SAVEPOINT,
                rows=self.rows,
                epoch=self.epoch,
                at=now,
                trigger=Trigger.UPGRADE,
                request_id=request_id,
                request=self.requests.get(request_id),
            )
            done = {"state": OperationState.COMPLETED, "snapshot": summary(self.last_savepoint)}
            self.operations[request_id] = operation.model_copy(update=done)
            if request_id == self.stop_id and self.lingers:
                self.state = JobState.STOPPED
            elif request_id == self.stop_id:
                self.end(0, "Stopped", "Stopped with a savepoint.", self.last_savepoint.location)

    def status(self) -> JobStatus:
        query = QueryStatus(
            uid="delays",
            active=self.state is JobState.RUNNING,
            batch_id=self.rows,
            input_rows=self.rows,
            batch_since=self.hangs_since,
            stage=self.hangs_in,
            last_commit_at=self.committed_at if self.has_committed else None,
        )
        return JobStatus(
            job=KEY.name,
            namespace=KEY.namespace,
            state=self.state if self.standby is None else JobState.STANDBY,
            epoch=self.epoch,
            standby=self.standby,
            started_at=self.started_at,
            restored_from=self.restored_from,
            fallback=self.fallback,
            kept_aside=self.kept_aside,
            other_spark=self.other_spark,
            restore_skipped=self.restore_skipped,
            queries=(query,) if self.state is not JobState.STARTING and self.standby is None else (),
            checkpoints=CheckpointCounts(completed=self.checkpoints),
            last_checkpoint=summary(self.last_checkpoint) if self.last_checkpoint else None,
            last_savepoint=summary(self.last_savepoint) if self.last_savepoint else None,
            checkpoint_config=self.checkpoint_config if self.state is JobState.RUNNING else None,
        )


def summary(snapshot: Snapshot) -> SnapshotSummary:
    """Return a snapshot as the driver's API shows it."""
    return SnapshotSummary(
        kind=snapshot.kind,
        id=snapshot.id,
        location=snapshot.location,
        trigger=snapshot.trigger,
        triggered_at=snapshot.at,
        completed_at=snapshot.at,
        size_bytes=snapshot.rows,
        batches={"delays": snapshot.rows},
    )


@dataclass
class FakeDrivers:
    """The drivers' HTTP APIs, by pod name."""

    running: dict[str, FakeDriver] = field(default_factory=dict)
    before_request: Callable[[str], None] = lambda _what: None
    after_request: Callable[[str], None] = lambda _what: None
    waits_s: list[int] = field(default_factory=list)
    """How long each question about an operation would have waited."""

    def _find(self, pod: DriverPod) -> FakeDriver | None:
        driver = self.running.get(pod.name)
        return driver if driver is not None and driver.exit_code is None and driver.answers else None

    async def status(self, pod: DriverPod, access: DriverAccess) -> JobStatus | DriverSilent:
        del access
        driver = self._find(pod)
        return driver.status() if driver else DriverSilent("no answer")

    async def operation(
        self, pod: DriverPod, access: DriverAccess, request_id: str, *, wait_s: int = 0
    ) -> Operation | OperationAbsent | None:
        del access
        self.waits_s.append(wait_s)
        driver = self._find(pod)
        return driver.operations.get(request_id, OperationAbsent()) if driver else None

    async def stop(self, pod: DriverPod, access: DriverAccess, request: StopRequest) -> DriverSilent | None:
        del access
        self.before_request(f"stop {pod.name}")
        driver = self._find(pod)
        if driver is not None:
            driver.take_stop(request.request_id)
        self.after_request(f"stop {pod.name}")
        return None if driver else DriverSilent("no answer")

    async def savepoint(self, pod: DriverPod, access: DriverAccess, request: SavepointRequest) -> DriverSilent | None:
        del access
        driver = self._find(pod)
        if driver is not None:
            running = Operation(request_id=request.request_id, kind="Savepoint", state=OperationState.IN_PROGRESS)
            driver.operations.setdefault(request.request_id, running)
            driver.savepoint_formats[request.request_id] = request.format
            driver.requests[request.request_id] = request
        return None if driver else DriverSilent("no answer")

    async def activate(self, pod: DriverPod, access: DriverAccess, request: ActivateRequest) -> DriverSilent | None:
        del access
        self.before_request(f"activate {pod.name}")
        driver = self._find(pod)
        answer = driver.activate(request) if driver is not None else DriverSilent("no answer")
        self.after_request(f"activate {pod.name}")
        return answer

    async def configure(
        self, pod: DriverPod, access: DriverAccess, checkpoint: CheckpointConfig
    ) -> DriverSilent | None:
        del access
        driver = self._find(pod)
        if driver is not None:
            driver.checkpoint_config = checkpoint
            driver.configurations += 1
        return None if driver else DriverSilent("no answer")


@dataclass
class JobWorld:
    """One job and everything around it."""

    spec: Resource = field(default_factory=lambda: json.loads(json.dumps(SPEC)))
    time: datetime = START
    most_live_pods: int = 0
    job_peers: Peers | None = None
    key: JobKey = KEY
    shared_cluster: FakeGateway | None = None
    """The cluster, if other jobs are in it, too."""

    def __post_init__(self) -> None:
        self.cluster = self.shared_cluster or FakeGateway(lambda: self.time)
        self.drivers = FakeDrivers()
        self.storage = FakeStorage()
        self.code_watches = FakeWatches(self.wake)
        self.world = self._ports()
        self.gauges = JobMetrics()
        self.on_start: Callable[[FakeDriver], None] = lambda _driver: None
        self.lost_nodes: set[str] = set()
        self._runner = asyncio.Runner()
        self._look_at = START
        self.is_woken = True
        self.passes = 0
        self.late_events: list[tuple[str, Resource]] | None = None
        """What the watches have held back; None if they show everything at once."""
        self.cluster.on_event = self._watch
        self.cluster.written = self.world.cache.update_written
        self.kubelet_starts_pods = True
        self.has_room: Callable[[str], bool] = lambda _pod: True
        secret = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        meta: Resource = {"name": "s3", "namespace": self.key.namespace}
        self.cluster.add({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": dict(secret)})
        self.apply()

    def apply(self) -> None:
        """Create the job, as a user does."""
        meta: Resource = {"name": self.key.name, "namespace": self.key.namespace}
        kind, version = resources.JOB.name, resources.JOB.api_version
        self.cluster.add({"apiVersion": version, "kind": kind, "metadata": meta, "spec": self.spec})

    def delete(self) -> None:
        """Delete the job, as a user does."""
        self.cluster.remove((resources.JOB.name, self.key.namespace, self.key.name))

    @property
    def exists(self) -> bool:
        return (resources.JOB.name, self.key.namespace, self.key.name) in self.cluster.objects

    @property
    def status(self) -> StatefulSparkJobStatus:
        """The job's status as it is stored."""
        return observe.read_status(self.cluster.objects[(resources.JOB.name, self.key.namespace, self.key.name)])

    @property
    def driver(self) -> FakeDriver:
        """The newest driver."""
        return max(self.drivers.running.values(), key=lambda driver: driver.epoch)

    @property
    def standbys(self) -> list[FakeDriver]:
        """The processes that stand by."""
        running = self.drivers.running.values()
        return [driver for driver in running if driver.standby is not None and driver.exit_code is None]

    @property
    def reasons(self) -> list[str]:
        """Reasons of all events so far."""
        return [event.reason for event in self.cluster.events]

    def change(self, change: Resource) -> None:
        """Change the spec, as a user does."""
        self.cluster.change_spec(self.key, change)

    def ask_for_savepoint(self, name: str) -> None:
        """Create a SparkSavepoint, as a user does."""
        kind: Resource = {"kind": resources.SAVEPOINT.name, "apiVersion": resources.SAVEPOINT.api_version}
        spec: Resource = {"jobName": self.key.name}
        self.cluster.add({**kind, "metadata": {"name": name, "namespace": self.key.namespace}, "spec": spec})

    def _watch(self, event: str, resource: Resource) -> None:
        """Keep what the watches show, and wake the operator, unless it is what it has written itself."""
        if resources.text(resource, "kind") == resources.CONFIG_MAP.name:
            self.code_watches.show(resources.text(resource, "metadata", "name"))
        if resources.text(resource, "kind") not in {kind.name for kind in cache.KINDS}:
            return
        if self.late_events is not None:
            self.late_events.append((event, resource))
            return
        if not self.world.cache.is_own_write(resource) or event == "DELETED":
            self.is_woken = True
        if event == "DELETED":
            self.world.cache.remove(resource)
        else:
            self.world.cache.update(resource)

    def wake(self) -> None:
        """Request a pass."""
        self.is_woken = True

    def catch_up(self) -> None:
        """Let the watches show what they have held back."""
        held, self.late_events = self.late_events or [], None
        for event, resource in held:
            self._watch(event, resource)

    def replace_operator(self) -> None:
        """Start another operator: it remembers nothing, and its watches list everything."""
        self.world = self._ports()
        self.cluster.written = self.world.cache.update_written
        for resource in self.cluster.objects.values():
            self._watch("ADDED", copy.deepcopy(resource))
        self.is_woken = True

    def lead(self, *, may_act: bool) -> None:
        """Take the Lease from this operator, or give it back."""

        def require_leadership() -> None:
            if not may_act:
                raise errors.TransientError("NotLeading", "Another operator leads.")

        self.world = dataclasses.replace(self.world, require_leadership=require_leadership)

    def _ports(self) -> Ports:
        return Ports(
            self.cluster,
            self.drivers,
            self.storage,
            now=lambda: self.time,
            new_token=lambda: "token",
            follow_code=self.code_watches.follow,
            job_peers=self.job_peers,
        )

    def reconcile(self) -> timedelta | None:
        """Run one pass; errors that the queue would wait out are swallowed."""
        try:
            return self._runner.run(reconcile.reconcile(self.world, self.key, self.gauges))
        except errors.StatefulSparkError:
            return timedelta(seconds=1)

    def reconcile_if_due(self) -> None:
        """Run a pass if the queue would: something has changed, or the time that the last pass asked for has come."""
        if self.time < self._look_at and not self.is_woken:
            return
        self.is_woken = False
        self.passes += 1
        self._look_at = self.time + (self.reconcile() or timedelta(0))

    def pass_time(self, seconds: int = 1) -> None:
        """Let the kubelet and the drivers work."""
        for _ in range(seconds):
            self.time += timedelta(seconds=1)
            for pod in list(self.cluster.pods()):
                self._tend(pod)
            for driver in self.drivers.running.values():
                driver.tick(self.time)
        running = self.drivers.running.values()
        live = [driver for driver in running if driver.exit_code is None and driver.standby is None]
        self.most_live_pods = max(self.most_live_pods, len(live))

    def run(self, seconds: int) -> None:
        """Let everything work for a while: several passes a second, as the queue would."""
        for _ in range(seconds):
            for _ in range(4):
                if self.exists:
                    self.reconcile_if_due()
            self.pass_time()

    def run_until(self, condition: Callable[[], bool], *, within_s: int = 120) -> None:
        """Let everything work until something is true."""
        for _ in range(within_s):
            if condition():
                return
            self.run(1)
        status = self.status if self.exists else None
        raise AssertionError(f"not reached within {within_s} s: {status!r}, events {self.reasons}")

    def kill_driver(self) -> None:
        """Delete the driver's pod with grace period 0: the process is gone without a word."""
        driver = self.driver
        driver.exit_code = 137
        self.cluster.drop_pod(self.key.namespace, driver.pod)

    def fail_driver(self, code: int, reason: str = "Failed", message: str = "it failed") -> None:
        """Let the driver end by itself."""
        self.driver.end(code, reason, message)

    def _tend(self, pod: Resource) -> None:
        """Be the kubelet of a pod."""
        if resources.text(pod, "metadata", "labels", names.LABEL_ROLE) == names.ROLE_EXECUTOR:
            return  # Spark and its executors are played by the tests that need them.
        name = resources.text(pod, "metadata", "name")
        if resources.text(pod, "spec", "nodeName") in self.lost_nodes:
            return
        driver = self.drivers.running.get(name)
        if driver is None or driver.uid != resources.text(pod, "metadata", "uid"):
            if not self.has_room(name):
                self._show_no_room(pod)
            elif self.kubelet_starts_pods and "deletionTimestamp" not in resources.section(pod, "metadata"):
                self._start(pod, name)
            return
        deadline = resources.time(pod, "metadata", "deletionTimestamp")
        deleted = deadline is not None
        if deadline is not None and driver.exit_code is None:
            driver.drain(self.time, deadline)
        if driver.exit_code is not None:
            self._show_exit(pod, driver)
            if deleted:
                self.cluster.drop_pod(self.key.namespace, name)
            return
        conditions = [{"type": "Ready", "status": "True" if driver.state is JobState.RUNNING else "False"}]
        if resources.section(pod, "status")["conditions"] != conditions:
            resources.section(pod, "status")["conditions"] = conditions  # type: ignore[assignment]
            self.cluster.show(pod)

    def _show_no_room(self, pod: Resource) -> None:
        condition: Resource = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/2 nodes fit",
        }
        if "status" not in pod:
            pod["status"] = {"phase": "Pending", "conditions": [condition]}
            self.cluster.show(pod)

    def _start(self, pod: Resource, name: str) -> None:
        labels = resources.section(pod, "metadata", "labels")
        is_standby = labels[names.LABEL_ROLE] == names.ROLE_STANDBY
        epoch = 0 if is_standby else int(str(labels[names.LABEL_EPOCH]))
        config_name = names.config_of(self.key.name, name, epoch)
        config_map = self.cluster.objects[("ConfigMap", self.key.namespace, config_name)]
        config = json.loads(resources.text(config_map, "data", "job.json"))
        driver = FakeDriver(name, resources.text(pod, "metadata", "uid"), epoch, config, self.storage, self.time)
        driver.standby = StandbyStatus(state=StandbyState.WARMING) if is_standby else None
        self.drivers.running[name] = driver
        self.on_start(driver)
        resources.section(pod, "spec")["nodeName"] = "node-2" if is_standby else "node-1"
        pod["status"] = {"phase": "Running", "podIP": "10.0.0.1", "conditions": []}
        self.cluster.show(pod)

    def _show_exit(self, pod: Resource, driver: FakeDriver) -> None:
        if resources.text(pod, "status", "phase") in ("Succeeded", "Failed"):
            return
        reason = "Error" if driver.exit_code else "Completed"
        ended: Resource = {"exitCode": driver.exit_code, "reason": reason, "message": driver.exit_report}
        pod["status"] = {
            "phase": "Succeeded" if driver.exit_code == 0 else "Failed",
            "containerStatuses": [{"name": names.DRIVER_CONTAINER, "state": {"terminated": ended}}],
        }
        self.cluster.show(pod)
