"""The manifest of a snapshot: `_metadata.json`, written last.

A snapshot is a checkpoint (its files stay where Spark wrote them, in a generation) or a savepoint (its files are
copies in its own folder, owned by the user). A folder without a manifest is no snapshot. Paths are relative: to the
job's root for a checkpoint, to the savepoint's folder for a savepoint, so that a savepoint may be moved as a folder.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Self

from pydantic import Field

from statefulspark.contract import formats, layout
from statefulspark.contract.base import SealedDocument, StoredDocument, UtcDatetime, WireModel


class SnapshotKind(StrEnum):
    """The kind of a snapshot, and who owns its files."""

    CHECKPOINT = "checkpoint"
    """Its files stay in the generation; the job prunes them."""
    SAVEPOINT = "savepoint"
    """A self-contained copy that the user owns; it is pruned only if a policy says so."""


class SnapshotFormat(StrEnum):
    """The form in which a snapshot's state is stored."""

    NATIVE = "native"
    """Spark's own files: fast, incremental, for the same engine and the same number of key groups."""
    CANONICAL = "canonical"
    """Parquet: independent of Spark's format, of partitions and of key groups; readable with any tool."""


class Trigger(StrEnum):
    """Why a snapshot was taken."""

    PERIODIC = "periodic"
    """The interval passed."""
    MANUAL = "manual"
    """A person or a tool requested it."""
    UPGRADE = "upgrade"
    """The operator requested it before it replaces the driver."""
    STOP = "stop"
    """Taken while stopping: drain on SIGTERM, or stop with savepoint."""
    RECOVERY = "recovery"
    """A start found a committed batch newer than the latest checkpoint, and completed a checkpoint of it."""


class FileEntry(WireModel):
    """One file that the snapshot needs."""

    path: str
    """Relative to the query's `path`."""
    size_bytes: int = Field(ge=0)
    checksum: str | None = None
    """`etag:<value>` as the store reported it; absent if it was not asked."""
    crc32: str | None = None
    """CRC-32 of the content, eight hexadecimal digits, for the small files that a start reads: logs, metadata, records,
    segments of sources. Absent for large files, and if the writer did not read the file."""


class KeyedStateEntry(WireModel):
    """One state of a keyed operator of this library."""

    name: str
    kind: str
    """`ValueState`, `ListState`, `MapState`, `ReducingState` or `AggregatingState`."""
    type: str
    """The declared type, `any` if none was declared."""
    has_ttl: bool = False
    """Whether each entry has the time of its last renewal."""


class OperatorEntry(WireModel):
    """One stateful operator of a query."""

    uid: str
    """The user's uid for the library's operators (`ss.keyed_process(..., uid=)`), `<name>-<operatorId>` for Spark's own."""
    operator_id: int
    """Position in the plan, which is the folder's name below `state/`."""
    name: str
    """Spark's name of the operator, for example `transformWithStateInPandasExec`."""
    partitions: int
    max_parallelism: int | None = None
    """Number of key groups, for the library's operators."""
    key: str | None = None
    """Types of the key's columns, for example `string, bigint`; absent if they were not known."""
    value: str | None = None
    """Types of the value's columns, for Spark's aggregations; absent for all others."""
    mode: str | None = None
    """Output mode that the operator was declared with, where its state depends on it."""
    definition: dict[str, str] = Field(default_factory=dict)
    """Other properties that its state depends on, for Spark's own operators: `window`, `functions`, `joinType`, `columns`,
    `gap`, `watermark`, `condition`, as text; absent properties were not known."""
    states: tuple[KeyedStateEntry, ...] | None = None
    """Declared states of one of the library's operators; absent if they were not known."""


class SourceEntry(WireModel):
    """One source of a query, from the plan of the job that wrote the state."""

    name: str
    """The user's name (`ss.named_source(df, uid=)`), else the description; with `#2`, `#3` if it is not unique."""
    description: str
    """What it reads, for example `kafka(subscribe=clicks)`."""
    log: int = 0
    """Number of its folder below `sources/`."""


class OperatorStateEntry(WireModel):
    """The operator state of a function at the cut."""

    uid: str
    """Uid of the function."""
    path: str
    """Relative to the query's `path`; one of the query's files."""
    batch_id: int
    """The batch that changed it last."""


class PreparedEntry(WireModel):
    """A sink's transaction that may have to be committed when this snapshot is restored."""

    uid: str
    """Uid of the sink."""
    path: str
    """Path of its record, relative to the query's `path`; one of the query's files."""
    batch_id: int
    is_empty: bool = False
    """True if the batch had nothing to commit, so that a job without the sink loses nothing."""


class Position(WireModel):
    """A batch among all batches of all lineages; batches are comparable within one generation of one lineage."""

    lineage: str
    generation: int
    batch_id: int


class SinkOpening(WireModel):
    """A driver that opened a sink, and the batch after which it began."""

    epoch: int
    """Its epoch, in the lineage of the batch."""
    after: Position
    """The batch of the state that it restored, in its own generation. The sink had no later batch then."""


class SinkEntry(WireModel):
    """What a sink has committed at least when the snapshot was taken, and since when there is one."""

    uid: str
    kind: str
    """The sink's class, for example `KafkaSink`."""
    target: str | None = None
    """What it writes to, without credentials; absent for a sink that does not tell."""
    committed: Position | None = None
    """The last batch that the sink has committed; absent if it has committed none."""
    kept_after: Position | None = None
    """The last batch before the transactions that the snapshot names; absent if these begin with the sink's first one. A
    sink that has this batch gets all later ones from the snapshot."""
    origin: str | None = None
    """Lineage in which the sink began, or a later one; absent if nothing has told it."""
    openings: tuple[SinkOpening, ...] = ()
    """The last drivers of the job's root that opened it, the newest last. A sink that names an earlier one, and has later
    batches than the next one began after, has gone back to another life of the root."""


class QueryEntry(WireModel):
    """One query at its committed batch."""

    uid: str
    batch_id: int = Field(ge=-1)
    """The last committed batch; -1 if the query had committed none, and so has no files."""
    path: str
    """Folder of the query's Spark checkpoint root, a relative path as in the module's description."""
    files: tuple[FileEntry, ...] = ()
    operators: tuple[OperatorEntry, ...] = ()
    offsets: tuple[str, ...] = ()
    """One line per source as the offset log holds it, for people and for comparing sources."""
    sources: tuple[SourceEntry, ...] = ()
    """The source of each of those lines; empty if the writer did not know them."""
    time_zone: str | None = None
    """Session time zone of the job that wrote the state; absent if it was not known."""
    operator_states: tuple[OperatorStateEntry, ...] = ()
    prepared: tuple[PreparedEntry, ...] = ()
    """In the order of batches: those that may not be committed, and those committed since the snapshot before this one."""
    sinks: tuple[SinkEntry, ...] = ()


class Ancestor(WireModel):
    """A lineage that the state descends from, and the cut that was restored from it.

    Generations, batches and epochs can be compared only within one lineage.
    """

    lineage: str | None = None
    """Its identity; absent if the record of the generation was damaged."""
    root: str | None = None
    """URI of its job's root, for people; absent if it was not known."""
    generation: int = Field(ge=1)
    """Generation of that lineage that contains the cut."""
    batches: dict[str, int] = Field(default_factory=dict)
    """Last batch that the cut contains, by query uid; -1 for a query without one."""

    @property
    def job(self) -> str | None:
        """The job of that root, as `namespace/name`."""
        return None if self.root is None else layout.job_at(self.root)


class MasterStateEntry(WireModel):
    """The state that a master hook of the job returned when the snapshot was triggered."""

    identifier: str
    """Identifier of the hook, which its state is restored by."""
    checkpoint_id: int = Field(ge=1)
    """Number of the snapshot that the hook was called for; an older one in a checkpoint that a recovery completed."""
    state: str
    """Base64."""

    @classmethod
    def encode(cls, identifier: str, checkpoint_id: int, body: bytes) -> Self:
        """Return an entry with these bytes."""
        return cls(identifier=identifier, checkpoint_id=checkpoint_id, state=base64.b64encode(body).decode())

    @property
    def body(self) -> bytes:
        """The bytes that the hook returned."""
        return base64.b64decode(self.state)


class Manifest(SealedDocument):
    """All facts that are needed to verify, restore, copy or prune one snapshot."""

    FORMAT: ClassVar = formats.MANIFEST
    format_version: int = formats.MANIFEST.writes

    kind: SnapshotKind
    format: SnapshotFormat = SnapshotFormat.NATIVE
    id: int = Field(ge=1)
    """Number from the job's sequence, which checkpoints and savepoints share; never reused."""
    namespace: str
    job: str
    trigger: Trigger
    epoch: int = Field(ge=1)
    claim: str | None = None
    """The claim of that epoch, as in its record; absent in savepoints. A checkpoint with another one is of another life of
    the root."""
    generation: int = Field(ge=1)
    triggered_at: UtcDatetime
    completed_at: UtcDatetime
    queries: tuple[QueryEntry, ...]
    request_id: str | None = None
    """Id of the request; a repeated request returns the same savepoint."""
    savepoint_name: str | None = None
    restored_from: str | None = None
    """The snapshot that the writing epoch had started from, for example `checkpoint 41` or a savepoint's URI."""
    lineage: str | None = None
    """Identity of the root that the snapshot was taken of; absent if the record of the generation was damaged."""
    root: str | None = None
    """URI of that root when the snapshot was taken."""
    ancestors: tuple[Ancestor, ...] = ()
    """Other lineages that the state descends from, the oldest first."""
    revision: str | None = None
    """The job's revision (from the operator) whose code wrote this state."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions of statefulspark, pyspark and python that wrote it."""
    master_states: tuple[MasterStateEntry, ...] = ()
    """States of the job's master hooks; hooks without state have none."""
    untried: tuple[str, ...] = ()
    """Queries whose state the writing epoch had restored and not loaded: they had not committed a batch since its start. A
    checkpoint with such a query does not count among those that are retained."""

    @property
    def size_bytes(self) -> int:
        """Sum of all files, in bytes."""
        return sum(entry.size_bytes for query in self.queries for entry in query.files)

    @property
    def label(self) -> str:
        """The snapshot's name for people, for example `checkpoint 42`."""
        return f"{self.kind.value} {self.id}"


class GenerationRecord(SealedDocument):
    """`generations/<n>/generation.json`: written after all other files of the generation.

    A generation without this record is incomplete and never used. With `queries` it serves as a checkpoint until the
    first one is taken in the generation.
    """

    FORMAT: ClassVar = formats.GENERATION
    format_version: int = formats.GENERATION.writes

    generation: int = Field(ge=1)
    created_at: UtcDatetime
    epoch: int = Field(ge=1)
    restored_from: str | None = None
    """The snapshot that it was made from, for people; absent for a start with empty state."""
    source: str | None = None
    """`checkpoint:<id>` or a savepoint's URI; absent for a start with empty state."""
    parent_generation: int | None = None
    """Generation of the checkpoint that it was made from; absent for savepoints and empty starts."""
    carried_out: tuple[str, ...] = ()
    """Key of every requested restore that was carried out in this root, and of every right for a sink that has
    counted, the oldest first: none of them ever has an effect again. Each generation takes them over from the one before."""
    abandoned: bool = False
    """True for a generation that a driver began to fill and did not complete; its successor writes this record, so that
    the driver cannot complete the generation, if it is still alive."""
    claimed: str | None = None
    """URI of the snapshot that it was made from, if the job has claimed it; the job deletes it when it is subsumed."""
    queries: tuple[QueryEntry, ...] = ()
    """The queries at its start; paths are relative to the job's root. A query without a commit has batch -1 and holds its
    declaration."""
    changes: tuple[str, ...] = ()
    """Its differences from the snapshot that it was made from, one sentence for each change."""
    lineage: str | None = None
    """Identity of the root that it was made in; absent in the record of one that was abandoned."""
    ancestors: tuple[Ancestor, ...] = ()
    """Other lineages that its state descends from, the oldest first."""
    master_states: tuple[MasterStateEntry, ...] = ()
    """States of master hooks in the snapshot that it was made from, or that was last restored in it."""
    restored_in_place: int | None = None
    """Number of the savepoint that was last restored in it without a copy."""
    cut: Ancestor | None = None
    """The cut that it was made from, which may be of its own lineage; absent for an empty start."""
    goes_back: bool = False
    """True if it was made from a snapshot that was asked for, from empty state that was asked for, or from an older snapshot
    because newer state is damaged: batches that followed the cut are produced again."""


class Purge(WireModel):
    """A deletion of all state on purpose: a later job of the name may start empty, and goes on with the next numbers."""

    epoch: int = Field(ge=1)
    """The epoch that was claimed for it."""
    generation: int = Field(ge=0)
    """The highest number of a generation until then; 0 if there was none."""
    snapshot: int = Field(ge=0)
    """The highest number of a checkpoint or savepoint until then; 0 if there was none."""


class EpochRecord(StoredDocument):
    """`epochs/<n>.json`: one start of a driver; the highest one owns the job."""

    FORMAT: ClassVar = formats.EPOCH
    format_version: int = formats.EPOCH.writes

    epoch: int = Field(ge=1)
    claimed_at: UtcDatetime
    holder: str
    """The driver that claimed it: pod name and uid, or host and process id."""
    claim_id: str
    """Unique for each process, so that a driver recognises its own claim if the answer was lost."""
    follows: str | None = None
    """The claim of the epoch before; absent for the first one. In one life of a root each follows the one before it."""
    filled: bool = False
    """True for a number that was skipped: no driver ever ran under it."""
    purged: Purge | None = None
    """Present if all state was deleted on purpose under this epoch; then it is the oldest record, and stays for good."""


class ReservationRecord(EpochRecord):
    """`generations/<n>/reserved.json`: the epoch that fills a generation; created before any other file of it.

    It exists, so no two drivers fill the same generation. A start reads it only to tell generations of two lives apart.
    """

    FORMAT: ClassVar = formats.RESERVATION
    format_version: int = formats.RESERVATION.writes

    standby: str | None = None
    """The standby that carries state ahead into the generation, and has no epoch yet: pod name, or host and process id. It
    writes this record anew every minute. Absent if a driver fills the generation; `epoch` is that of the running driver."""


class OwnerRecord(StoredDocument):
    """`owner.json`: the owner of this state."""

    FORMAT: ClassVar = formats.OWNER
    format_version: int = formats.OWNER.writes

    namespace: str
    job: str
    owner_id: str
    """Uid of the Kubernetes resource, or `local` outside a cluster."""
    cluster_id: str | None = None
    """Uid of the namespace `kube-system` of its cluster; absent outside a cluster, or if it was not known."""
    created_at: UtcDatetime
    word: str = ""
    """The name of the owner's word for taking state over, whether or not it has needed it."""
    spent: tuple[str, ...] = ()
    """The words of the owners before, the oldest first: a word of somebody who has lost the state does not count again."""

    @property
    def key(self) -> str:
        """The word, and whose it is."""
        return f"{self.owner_id} {self.word}"

    def reason_to_doubt(self, other: OwnerRecord) -> str | None:
        """Return why the resource of this record may exist beside another one; None if it was deleted.

        In one cluster, a namespace has one resource of a name at a time: if the other one exists, this one does not.

        Args:
            other: The record of a resource that exists.
        """
        if (self.namespace, self.job) != (other.namespace, other.job):
            return f"that resource has another name than {other.namespace}/{other.job}, and may exist"
        if other.cluster_id is None:
            return "this job does not know its cluster: the operator may not get the namespace kube-system"
        if self.cluster_id is None:
            return "the record of that owner names no cluster"
        if self.cluster_id != other.cluster_id:
            return f"that owner is of cluster {self.cluster_id} and this job of {other.cluster_id}, so it may run there"
        return None


class LineageRecord(StoredDocument):
    """`lineages/<n>.json`: the identity of a job's root; the newest record is valid.

    A root keeps its identity as long as it stays at its location. A root that was copied or moved contains the records of
    its old location, and gets a new one at its first start: its generations continue under that, and sinks can tell both
    apart.
    """

    FORMAT: ClassVar = formats.LINEAGE
    format_version: int = formats.LINEAGE.writes

    number: int = Field(ge=1)
    lineage: str
    """32 hexadecimal digits, random."""
    root: str
    """URI of the job's root at that time."""
    created_at: UtcDatetime
    epoch: int = Field(ge=1)
    """Epoch of the driver that made it."""
    after: Purge | None = None
    """The deletion after which the root began with this lineage, if there was one."""


def retained(ids: Collection[int], untried: Collection[int], number: int) -> tuple[int, ...]:
    """Return the newest checkpoints, and as many that count, newest first.

    A checkpoint counts when the driver that completed it has loaded the state of every query (`Manifest.untried`). Spark
    loads a query's state with its first batch, which may be long after the start of a query without input, or of a slow one.
    Until then the others complete checkpoints that all share the state that was restored; if that cannot be loaded, none of
    them can be used. So the checkpoints of before the start stay until every query has committed a batch.

    Args:
        ids: All that are complete, in any order.
        untried: Those that do not count.
        number: How many to retain, at least 1.
    """
    newest_first = sorted(ids, reverse=True)
    counted = [checkpoint_id for checkpoint_id in newest_first if checkpoint_id not in untried]
    kept = {*newest_first[:number], *counted[:number]}
    return tuple(checkpoint_id for checkpoint_id in newest_first if checkpoint_id in kept)


def restored_batches(queries: Sequence[QueryEntry]) -> Mapping[str, int]:
    """Return the batch of each query with state, by uid: Spark loads that state with the first batch after a start."""
    return {query.uid: query.batch_id for query in queries if query.operators and query.files}


def untried(restored: Mapping[str, int], batches: Mapping[str, int]) -> tuple[str, ...]:
    """Return the queries that have not committed a batch since the start, sorted. Nobody has loaded their restored state.

    Args:
        restored: See `restored_batches`.
        batches: The batches of a snapshot, by query; those of other participants may be among them.
    """
    return tuple(sorted(uid for uid, batch in restored.items() if batches.get(uid, batch) <= batch))
