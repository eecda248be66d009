"""Spark, simulated: a session whose queries write the real files of a checkpoint root behind the real gate's rules.

What is simulated is the engine alone: planning a batch, running it, and the log entries of its own, with the order of
writes, the conditional creates and the words of failure of Spark and of our file manager. Everything of ours that Spark
calls is called: `foreachBatch`, the fence, the gate.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pyarrow as pa
from faultrig import faults, fibers, truth
from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.storage.port import MOST_BYTES

RUNS_TWICE = 0.1
"""How many partitions are also written by an attempt whose result nobody takes."""
UPLOADS = 0.35
"""After how many batches the state's snapshots are uploaded."""
_TRIES = 5


class QueryFailedError(Exception):
    """What ends a query, in Spark's words."""


class StoppedError(BaseException):
    """`stop()` interrupts a query."""


@dataclass(slots=True)
class _GateState:
    begun: int
    last_offsets: int
    last_committed: int
    is_closed: bool = False

    def to_json(self) -> dict[str, object]:
        at_boundary = self.is_closed and self.begun <= self.last_committed
        return {"lastOffsets": self.last_offsets, "lastCommitted": self.last_committed, "atBoundary": at_boundary}


class Gate:
    """`QueryGate` of the file manager, by the names that py4j shows."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.states: dict[str, _GateState] = {}
        self._changed = changed

    def register(self, root: str, last_offsets: int, last_committed: int) -> None:
        self.states[root] = _GateState(last_offsets, last_offsets, last_committed)

    def close(self, root: str) -> None:
        self.states[root].is_closed = True
        self._changed()

    def open(self, root: str) -> None:
        self.states[root].is_closed = False
        self._changed()

    def snapshot(self) -> str:
        return json.dumps({root: state.to_json() for root, state in self.states.items()})


class Signed(bytes):
    """What the file manager creates: in the object's metadata is the claim of its driver, in a store that keeps it."""

    claim: str

    def __new__(cls, body: bytes, claim: str) -> Signed:
        signed = super().__new__(cls, body)
        signed.claim = claim
        return signed


class Fence:
    """`EpochFence` of the file manager."""

    def __init__(self, store: faults.RigStore) -> None:
        self._store = store
        self._asked: str | None = None
        self._own: str | None = None
        self._is_fenced = False
        self.claim = ""

    def configure(self, uri: str) -> None:
        self._asked = below_bucket(uri)
        folder, _, name = self._asked.rpartition("/")
        self._own = f"{folder}/{layout.number((layout.parse_number(name) or 1) - 1)}.json"

    def sign(self, claim_id: str) -> None:
        self.claim = claim_id

    def fenced(self) -> bool:
        return self._is_fenced

    def check(self, path: str) -> None:
        """Let a write pass while no newer epoch exists and the own one does."""
        assert self._asked is not None
        assert self._own is not None
        is_replaced = self._is_fenced or self._store.info(self._asked) is not None
        self._is_fenced = is_replaced or self._store.info(self._own) is None
        if self._is_fenced:
            raise QueryFailedError(
                f"io.statefulspark.checkpoint.FencedException: A newer driver owns the job. {path} was not written."
            )


def below_bucket(uri: str) -> str:
    """Return the key that a Hadoop URI names."""
    return uri.replace("s3a://", "s3://", 1).removeprefix(f"{faults.BUCKET}/")


class Session:
    """What a driver needs of a Spark session."""

    def __init__(self, process: EngineProcess) -> None:
        self.process = process
        self.gate = Gate(process.note_change)
        self.fence = Fence(process.store())
        checkpoint = SimpleNamespace(QueryGate=self.gate, EpochFence=self.fence)
        trigger = SimpleNamespace(SteadyClock=SimpleNamespace(install=lambda query: None))  # time is the scheduler's
        self._jvm = SimpleNamespace(
            io=SimpleNamespace(statefulspark=SimpleNamespace(checkpoint=checkpoint, trigger=trigger))
        )
        self.conf = SimpleNamespace(get=lambda name: None)
        self.local_properties: dict[str, str] = {}
        self.sparkContext = SimpleNamespace(setLocalProperty=self.local_properties.__setitem__)


class EngineProcess(faults.FaultyProcess):
    """A process that holds a Spark session.

    Attributes:
        place: Names where its rows are written, for the tags of rows; complete once a query runs.
        granted: Batches that each query may still run, since its input has come so far.
        changes: Grows whenever something happens that the job's loop would see at its next look.
    """

    def __init__(self, scheduler: fibers.Scheduler, name: str, network: faults.Network, place: str) -> None:
        super().__init__(scheduler, name, network)
        self.random = scheduler.random
        self.place = place
        self.granted: dict[str, int] = {}
        self.changes = 0
        self.found: dict[str, int] = {}
        """The offset at which each query of this driver began."""
        self.violations: list[str] = []

    def note_change(self) -> None:
        self.changes += 1


class _Plan:
    """The plan of a stream that reads nothing from Kafka."""

    def getClass(self) -> SimpleNamespace:  # noqa: N802 - py4j's name
        return SimpleNamespace(getSimpleName=lambda: "StreamingExecutionRelation")

    def children(self) -> SimpleNamespace:
        return SimpleNamespace(size=lambda: 0)

    def toString(self) -> str:  # noqa: N802 - py4j's name
        return "a stream without event time"


@dataclass
class Frame:
    """A streaming DataFrame, and what makes a query of it."""

    session: Session
    options: dict[str, str] = field(default_factory=dict)
    batch: Callable[[object, int], None] | None = None

    @property
    def _spark(self) -> Session:
        return self.session

    @property
    def _jdf(self) -> SimpleNamespace:
        return SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=_Plan))

    @property
    def writeStream(self) -> Frame:  # noqa: N802 - Spark's name
        return self

    def outputMode(self, mode: str) -> Frame:  # noqa: N802 - Spark's name
        return self.option("mode", mode)

    def foreachBatch(self, function: Callable[[object, int], None]) -> Frame:  # noqa: N802 - Spark's name
        return Frame(self.session, self.options, function)

    def queryName(self, name: str) -> Frame:  # noqa: N802 - Spark's name
        return self.option("name", name)

    def option(self, name: str, value: str) -> Frame:
        return Frame(self.session, {**self.options, name: value}, self.batch)

    def start(self) -> Query:
        assert self.batch is not None
        return Query(self.session, self.options["name"], self.options["checkpointLocation"], self.batch)


class _Option:
    """A Scala Option of an exception."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def isEmpty(self) -> bool:  # noqa: N802 - Scala's name
        return self._text is None

    def get(self) -> SimpleNamespace:
        return SimpleNamespace(toString=lambda: self._text)


class Query:
    """A started query: a fiber that runs batches, and Spark's handle of it."""

    def __init__(self, session: Session, uid: str, root: str, function: Callable[[object, int], None]) -> None:
        self.isActive = True
        self.runId = uid
        self._error: str | None = None
        self._session = session
        self._process = session.process
        self._uid = uid
        self._root = root
        self._path = below_bucket(root)
        self._store = self._process.store()
        self._function = function
        self._cut = truth.Cut(-1, 0, {})
        self._ssts: dict[int, list[tuple[str, int]]] = {}
        self._process.granted.setdefault(uid, 0)
        self._fiber = self._process.spawn(f"query {uid}", self._run)

    @property
    def _jsq(self) -> SimpleNamespace:
        # A long batch is asked for its stage. It has none: what takes long here is storage.
        tracker = SimpleNamespace(getActiveStageIds=list, getActiveJobIds=list, getJobIdsForGroup=lambda group: [])
        session = SimpleNamespace(sparkContext=lambda: SimpleNamespace(statusTracker=lambda: tracker))
        return SimpleNamespace(
            recentProgress=list,
            exception=lambda: _Option(self._error),
            sparkSession=lambda: session,
            status=lambda: SimpleNamespace(message=str),
        )

    def stop(self) -> None:
        """End the query, in the middle of a batch too."""
        if not self._fiber.is_done:
            self._fiber.interruption = StoppedError()
            fibers.here().pause(lambda: self._fiber.is_done)

    def _run(self) -> None:
        try:
            self._stream()
        except StoppedError:
            pass
        except (QueryFailedError, truth.StateDamagedError) as error:
            self._error = str(error)
        except errors.StatefulSparkError as error:
            self._error = f"{type(error).__name__}: {error}"
        finally:
            self.isActive = False
            self._process.note_change()

    def _stream(self) -> None:
        planned, committed = self._newest("offsets"), self._newest("commits")
        self._cut = truth.read_cut(self._patient, self._path, committed)
        if self._cut.problem:
            self._process.violations.append(f"{self._process.name} loads {self._path} wrongly: {self._cut.problem}")
        self._process.found.setdefault(self._uid, self._cut.offset)
        if committed >= 0:
            self._require_schema()
        while True:
            batch = self._cut.batch + 1
            end = truth.read_offset(self._patient, self._path, batch) if batch <= planned else self._plan(batch)
            self._run_batch(batch, end)

    def _newest(self, log: str) -> int:
        """List a log; unlike ours, Spark's listings are taken as true here, since it has no other way to look."""
        names = self._process.network.truth.list_names(f"{self._path}/{log}")
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _require_schema(self) -> None:
        """Read the schema of the state where the operator's metadata says, which is an absolute path."""
        body = self._patient.read(f"{self._path}/state/0/_metadata/v2/0").decode().split("\n")[1]
        for path in json.loads(body)["stateStoreInfo"][0]["stateSchemaFilePaths"]:
            if self._patient.info(below_bucket(path)) is None:
                raise QueryFailedError(f"java.io.FileNotFoundException: the schema {path} of {self._root}")

    def _plan(self, batch: int) -> int:
        granted, gate = self._process.granted, self._session.gate.states[self._root]
        fibers.here().pause(lambda: granted[self._uid] > 0)
        end = self._cut.offset + self._process.random.randint(1, 6)
        fibers.here().pause(lambda: not gate.is_closed)
        granted[self._uid] -= 1
        gate.begun = batch
        if batch == 0:
            self._begin()
        others = "".join(f"\n{line}" for line in self._other_offsets(batch - 1))
        self._log("offsets", batch, f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{{"offset":{end}}}{others}'.encode())
        gate.last_offsets = batch
        return end

    def _other_offsets(self, batch: int) -> list[str]:
        """Return the lines of the sources that never have a record."""
        key, truth_of_bucket = f"{self._path}/offsets/{batch}", self._process.network.truth
        return truth_of_bucket.read(key).decode().split("\n")[3:] if truth_of_bucket.info(key) else []

    def _begin(self) -> None:
        schema = f"state/0/_stateSchema/default/0_{uuid.uuid4()}"
        self._put_once("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        self._put(schema, b"schema")
        info = {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"}
        store = {
            "storeName": "default",
            "numColsPrefixKey": 0,
            "numPartitions": truth.PARTITIONS,
            "stateSchemaFilePaths": [f"{self._root}/{schema}"],
        }
        variables = json.dumps({"stateVariables": [{"stateName": "head_total"}]})
        body = {"operatorInfo": info, "stateStoreInfo": [store], "operatorPropertiesJson": variables}
        self._put_once("state/0/_metadata/v2/0", f"v2\n{json.dumps(body)}".encode())

    def _run_batch(self, batch: int, end: int) -> None:
        run = _Batch(self._process, self._cut, end, self._write_changes)
        self._function(run, batch)
        ids = json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": [[one] for one in run.ids]}})
        self._log("commits", batch, f"v2\n{ids}".encode())
        self._cut = truth.Cut(batch, end, run.state)
        self._session.gate.states[self._root].last_committed = batch
        self._process.note_change()
        if self._process.random.random() < UPLOADS:
            self._upload(run.ids)

    def _log(self, log: str, batch: int, body: bytes) -> None:
        """Write a log entry as the file manager does: the fence, then a create that only one writer wins."""
        key = f"{self._path}/{log}/{batch}"
        try:
            self._session.fence.check(key)
            self._create(key, body)
        except errors.ObjectExistsError as error:
            raise QueryFailedError(f"[CONCURRENT_STREAM_LOG_UPDATE] {key}") from error
        except errors.TransientError as error:
            raise QueryFailedError(f"java.io.IOException: {error}") from error

    def _create(self, key: str, body: bytes) -> None:
        try:
            self._store.create(key, Signed(body, self._session.fence.claim))
        except errors.TransientError:
            found = self._patient.info(key)
            if found is None or self._patient.read(key) != body:
                raise

    def _write_changes(self, partition: int, version: int, changes: truth.State) -> str:
        unique_id = str(uuid.uuid4())
        self._guarded(f"{truth.folder(partition)}/{version}_{unique_id}.changelog", json.dumps(changes).encode())
        return unique_id

    def _upload(self, ids: list[str]) -> None:
        """Upload the state's snapshots, as maintenance does: new files first, then the archive that names old ones too."""
        for partition, unique_id in enumerate(ids):
            state = {key: one for key, one in self._cut.state.items() if truth.partition_of(key) == partition}
            body = truth.sst(state)
            name = f"{self._cut.batch:06d}-{uuid.uuid4()}.sst"
            self._guarded(f"{truth.folder(partition)}/SSTs/{name}", body)
            self._ssts[partition] = [*self._ssts.get(partition, [])[-1:], (name, len(body))]
            stem = f"{truth.folder(partition)}/{self._cut.batch + 1}_{unique_id}"
            self._guarded(f"{stem}.zip", truth.archive(self._ssts[partition]))

    def _guarded(self, name: str, body: bytes) -> None:
        self._put(f"{name}.crc", truth.checksum(body))
        self._put(name, body)

    def _put_once(self, name: str, body: bytes) -> None:
        """Write what the file manager never overwrites, unless an earlier attempt has; the fence holds for it, too."""
        key = f"{self._path}/{name}"
        if self._patient.info(key) is not None:
            return
        self._session.fence.check(key)
        try:
            self._create(key, body)
        except errors.ObjectExistsError as error:
            raise QueryFailedError(f"org.apache.hadoop.fs.FileAlreadyExistsException: {key}") from error
        except errors.TransientError as error:
            raise QueryFailedError(f"java.io.IOException: {error}") from error

    def _put(self, name: str, body: bytes) -> None:
        self._patient.write(f"{self._path}/{name}", body)

    @property
    def _patient(self) -> PatientStore:
        return PatientStore(self._store)


@dataclass(frozen=True, slots=True)
class PatientStore:
    """Storage as the engine's client reaches it, which tries again by itself."""

    store: faults.RigStore

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        try:
            return self._try(lambda: self.store.read(key, most_bytes=most_bytes))
        except errors.ObjectNotFoundError as error:
            raise QueryFailedError(f"java.io.FileNotFoundException: {key}") from error

    def info(self, key: str) -> object:
        return self._try(lambda: self.store.info(key))

    def write(self, key: str, body: bytes) -> None:
        self._try(lambda: self.store.write(key, body))

    def _try(self, act: Callable[[], object]) -> object:
        for _ in range(_TRIES - 1):
            try:
                return act()
            except errors.TransientError:
                continue
        try:
            return act()
        except errors.TransientError as error:
            raise QueryFailedError(f"java.io.IOException: {error}") from error


class _Batch:
    """The frame of one batch: its partitions run when its rows are collected."""

    columns = ("number", "place")

    def __init__(
        self, process: EngineProcess, cut: truth.Cut, end: int, write: Callable[[int, int, truth.State], str]
    ) -> None:
        self._process = process
        self._cut = cut
        self._end = end
        self._write = write
        self._function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = iter
        self.ids: list[str] = []
        self.state = self._next_state()

    def mapInArrow(self, function: Callable[..., Iterator[pa.RecordBatch]], schema: str) -> _Batch:  # noqa: N802
        del schema
        self._function = function
        return self

    def collect(self) -> list[SimpleNamespace]:
        rows: list[SimpleNamespace] = []
        self.ids = []
        for partition in range(truth.PARTITIONS):
            if self._process.random.random() < RUNS_TWICE:
                list(self._function(self._rows(partition)))
            for batch in self._function(self._rows(partition)):
                rows += [SimpleNamespace(**row) for row in batch.to_pylist()]
            changes = {key: one for key, one in self.state.items() if self._changes(key, partition)}
            self.ids.append(self._write(partition, self._cut.batch + 2, changes))
        return rows

    def _next_state(self) -> truth.State:
        stretches = list(self._cut.state.get(truth.HISTORY, []))
        if not stretches or stretches[-1][0] != self._process.place:  # type: ignore[index]
            stretches.append([self._process.place, self._cut.offset])
        return {**truth.after(self._end), truth.HISTORY: stretches}

    def _changes(self, key: str, partition: int) -> bool:
        return truth.partition_of(key) == partition and self._cut.state.get(key) != self.state[key]

    def _rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        numbers = [
            number
            for number in range(self._cut.offset, self._end)
            if truth.partition_of(str(number % truth.KEYS)) == partition
        ]
        yield pa.RecordBatch.from_pydict(
            {"number": pa.array(numbers, pa.int64()), "place": [self._process.place] * len(numbers)}
        )
