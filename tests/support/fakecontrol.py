"""A job behind the HTTP API that does what the test says, served over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from statefulspark.contract import api, config, observations, statistics
from statefulspark.contract.config import CheckpointConfig
from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark.coordinator import stats
from statefulspark.driver.status import Operations
from statefulspark.server.http import ApiServer
from statefulspark.server.tokens import FixedToken, Tokens

TOKEN = "a-secret"
_TOKEN = FixedToken(TOKEN)
Request = api.CheckpointRequest | api.SavepointRequest | api.StopRequest | api.ActivateRequest
NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def a_summary(*, kind: SnapshotKind = SnapshotKind.CHECKPOINT, number: int = 41) -> api.SnapshotSummary:
    return api.SnapshotSummary(
        kind=kind,
        id=number,
        location=f"s3://bucket/default/words/{kind.value}s/{number:08d}",
        trigger=Trigger.PERIODIC,
        triggered_at=NOON,
        completed_at=NOON + timedelta(seconds=2),
        size_bytes=3_000_000,
        batches={"counts": 12},
    )


def a_status(
    *,
    state: api.JobState = api.JobState.RUNNING,
    last_checkpoint: api.SnapshotSummary | None = None,
    **changes: object,
) -> api.JobStatus:
    status = api.JobStatus(
        job="words",
        namespace="default",
        state=state,
        epoch=7,
        generation=3,
        started_at=NOON,
        restored_from="checkpoint 40",
        queries=(api.QueryStatus(uid="counts", active=True, batch_id=12, input_rows=500, rows_per_second=250.5),),
        checkpoints=api.CheckpointCounts(triggered=5, completed=3, failed=2, in_progress=0),
        last_checkpoint=last_checkpoint,
    )
    return status.model_copy(update=changes)


def some_batches(uid: str = "counts", *, newest: int = 12, count: int = 3) -> observations.Batches:
    """Build the batches that a query has just run, a second and a hundred rows each."""
    batches = tuple(
        observations.BatchReport(
            batch_id=number,
            began_at=NOON + timedelta(seconds=number),
            duration_ms=1000 + 10 * number,
            input_rows=100,
            rows_per_second=98.5,
        )
        for number in range(newest - count + 1, newest + 1)
    )
    return observations.Batches(queries=(observations.QueryBatches(uid=uid, batches=batches),))


def some_state(*sizes: int) -> observations.StateSizes:
    """Build the state of one keyed operator with partitions of these sizes."""
    given = sizes or (2_000_000, 1_000_000)
    partitions = tuple(
        observations.PartitionSize(partition=number, size_bytes=size, files=2, key_groups=64)
        for number, size in enumerate(given)
    )
    operator = observations.OperatorSize(
        query="counts",
        uid="count-by-word",
        name="transformWithStateInPandasExec",
        size_bytes=sum(given),
        files=2 * len(given),
        max_parallelism=64 * len(given),
        partitions=partitions,
        skew=round(max(given) * len(given) / sum(given), 2),
    )
    return observations.StateSizes(snapshot="checkpoint 41", operators=(operator,))


class FakeControl:
    """Implements `server.control.Control`; `operations` is driven by the test."""

    def __init__(self) -> None:
        self.current = a_status()
        self.alive = True
        self.operations = Operations()
        self.stats = stats.begin()
        self.newest = some_batches()
        self.sizes = some_state()
        self.told: statistics.EffectiveConfig | None = statistics.EffectiveConfig(
            job="words", namespace="default", storage_uri="s3://bucket/prefix", checkpoint=config.CheckpointConfig()
        )
        self.started: list[Request] = []
        self.refusal: Exception | None = None
        self.completes_with: api.SnapshotSummary | None = None

    def status(self) -> api.JobStatus:
        return self.current

    def checkpoints(self) -> statistics.Checkpoints:
        return stats.answer(self.stats)

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails | None:
        return stats.find(self.stats, snapshot_id)

    def config(self) -> statistics.EffectiveConfig | None:
        return self.told

    def batches(self) -> observations.Batches:
        return self.newest

    def state(self) -> observations.StateSizes:
        return self.sizes

    def request_checkpoint(self, request: api.CheckpointRequest) -> api.Operation:
        return self._begin(request, api.OperationKind.CHECKPOINT)

    def request_savepoint(self, request: api.SavepointRequest) -> api.Operation:
        return self._begin(request, api.OperationKind.SAVEPOINT)

    def request_stop(self, request: api.StopRequest) -> api.Operation:
        return self._begin(request, api.OperationKind.STOP)

    def request_activation(self, request: api.ActivateRequest) -> api.Operation:
        return self._begin(request, api.OperationKind.ACTIVATION)

    def configure(self, checkpoint: CheckpointConfig) -> statistics.EffectiveConfig:
        if self.refusal is not None:
            raise self.refusal
        assert self.told is not None
        self.told = self.told.model_copy(update={"checkpoint": checkpoint})
        return self.told

    def operation(self, request_id: str) -> api.Operation | None:
        return self.operations.get(request_id)

    def is_alive(self) -> bool:
        return self.alive

    def _begin(self, request: Request, kind: api.OperationKind) -> api.Operation:
        if self.refusal is not None:
            raise self.refusal
        operation, is_new = self.operations.begin(request.request_id, kind)
        if is_new:
            self.started.append(request)
            if self.completes_with is not None:
                self.operations.complete(request.request_id, self.completes_with)
        return operation


@contextmanager
def served(
    control: FakeControl, *, tokens: Tokens | None = _TOKEN, tls: config.ApiTlsConfig | None = None
) -> Iterator[str]:
    """Serve a control on a free loopback port; yields the URL."""
    server = ApiServer(control, tokens=tokens, host="127.0.0.1", port=0, tls=tls)
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.port}"
    finally:
        server.close()
