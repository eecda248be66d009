"""The manifest of a snapshot: `_metadata.json`, written last.

A snapshot is a checkpoint (its files stay where the engine wrote them, in a generation) or a savepoint (its files are
copies in its own folder, owned by the user). A folder without a manifest is no snapshot. Paths are relative: to the
job's root for a checkpoint, to the savepoint's folder for a savepoint, so that a savepoint may be moved as a folder.
"""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import ClassVar, Self

from pydantic import Field

from statefulspark.contract import formats
from statefulspark.contract.base import SealedDocument, StoredDocument, UtcDatetime, WireModel
from statefulspark.contract.placement import Placement

MANIFEST_NAME = "_metadata.json"
"""Name of the manifest inside a snapshot's folder."""


class SnapshotKind(StrEnum):
    """What a snapshot is and who owns its files."""

    CHECKPOINT = "checkpoint"
    """Files stay in the generation; ours to prune."""
    SAVEPOINT = "savepoint"
    """Self-contained copy; the user's, never pruned by us unless a policy says so."""


class SnapshotFormat(StrEnum):
    """How a snapshot's state is written down."""

    NATIVE = "native"
    """The engine's own files: fast, incremental, for the same engine and the same number of key groups."""
    CANONICAL = "canonical"
    """Parquet: independent of the engine's format, of partitions and of key groups; readable with any tool."""


class Trigger(StrEnum):
    """Why a snapshot was taken."""

    PERIODIC = "periodic"
    """The interval passed."""
    MANUAL = "manual"
    """A person or a tool asked for it."""
    UPGRADE = "upgrade"
    """The operator asked for it before replacing the driver."""
    STOP = "stop"
    """Taken while stopping: drain on SIGTERM, or stop with savepoint."""
    RECOVERY = "recovery"
    """A committed batch newer than the latest checkpoint was found at a start and completed."""


class FileEntry(WireModel):
    """One file that the snapshot needs."""

    path: str
    """Relative to the query's `path`."""
    size_bytes: int = Field(ge=0)
    checksum: str | None = None
    """`etag:<value>` as the store reported it, or the engine's own `crc32c:<hex>`; absent if neither."""
    crc32: str | None = None
    """CRC-32 of the content, eight hexadecimal digits, for the small files that tell a start where it is: logs, metadata,
    records. Absent for large ones, and where the writer did not read the file."""


class KeyedStateEntry(WireModel):
    """One state of a keyed operator of ours."""

    name: str
    kind: str
    """`ValueState`, `ListState`, `MapState`, `ReducingState` or `AggregatingState`."""
    type: str
    """As it was declared, `any` when nothing was."""
    has_ttl: bool = False
    """Whether each entry has the time of its last renewal."""


class OperatorEntry(WireModel):
    """One stateful operator of a query."""

    uid: str
    """The uid given by the user for ours (`ss.keyed_process(..., uid=)`), `<name>-<operatorId>` for Spark's own."""
    operator_id: int
    """Position in the plan, which is the folder's name below `state/`."""
    name: str
    """Spark's name of the operator, for example `transformWithStateInPandasExec`."""
    partitions: int
    max_parallelism: int | None = None
    """Key groups, for operators of ours."""
    placement: Placement | None = None
    """How they are spread over partitions; absent for Spark's own, and for state written before there was a choice."""
    key: str | None = None
    """Types of the key's columns, for example `string, bigint`; absent if they were not known."""
    value: str | None = None
    """Types of the value's columns, for Spark's aggregations; absent for all others."""
    mode: str | None = None
    """Output mode that the operator was declared with, where its state depends on it."""
    definition: dict[str, str] = Field(default_factory=dict)
    """What else its state depends on, for Spark's own operators: `window`, `functions`, `joinType`, `columns`, `gap`,
    `watermark`, `condition`, as text; what is absent was not known."""
    states: tuple[KeyedStateEntry, ...] | None = None
    """What an operator of ours declared; absent if it was not known."""


class SourceEntry(WireModel):
    """One source of a query, as the plan of the job that wrote the state had it."""

    name: str
    """Given by the user (`ss.source(df, name=)`), else the description; with `#2`, `#3` if it is not unique."""
    description: str
    """What it reads, for example `kafka(subscribe=clicks)`."""
    log: int = 0
    """Its folder below `sources/`."""


class OperatorStateEntry(WireModel):
    """What a function without keys remembers at the cut."""

    uid: str
    """Of the function."""
    path: str
    """Relative to the query's `path`; one of its files."""
    batch_id: int
    """The batch that changed it last."""


class PreparedEntry(WireModel):
    """A sink's transaction that may have to be committed when this snapshot is restored."""

    uid: str
    """Of the sink."""
    path: str
    """Its record, relative to the query's `path`; one of its files."""
    batch_id: int
    is_empty: bool = False
    """True if the batch had nothing to commit, so that nothing is lost without the sink."""


class QueryEntry(WireModel):
    """One query at its committed batch."""

    uid: str
    batch_id: int = Field(ge=-1)
    """The last committed batch; -1: the query had not committed any, and has no files."""
    path: str
    """Folder of the query's Spark checkpoint root, relative as the module says."""
    files: tuple[FileEntry, ...] = ()
    operators: tuple[OperatorEntry, ...] = ()
    offsets: tuple[str, ...] = ()
    """One line per source as the offset log holds it, for people and for comparing sources."""
    sources: tuple[SourceEntry, ...] = ()
    """What each of those lines belongs to; empty if the writer did not know."""
    time_zone: str | None = None
    """Session time zone of the job that wrote the state; absent if it was not known."""
    operator_states: tuple[OperatorStateEntry, ...] = ()
    prepared: tuple[PreparedEntry, ...] = ()
    """In the order of batches; those that were committed already do no harm."""


class Ancestor(WireModel):
    """A lineage that state descends from, and the cut of it that was restored.

    Generations, batches and epochs compare within one lineage only.
    """

    lineage: str | None = None
    """Its identity; absent if a release without lineages wrote the state."""
    root: str | None = None
    """URI of the job's root that it lived in, for people; absent if it was not known."""
    generation: int = Field(ge=1)
    """Generation of that lineage in which the cut lies."""
    batches: dict[str, int] = Field(default_factory=dict)
    """Last batch that the cut contains, by query uid; -1 for a query without one."""


class MasterStateEntry(WireModel):
    """What a master hook of the job answered when the snapshot was triggered."""

    identifier: str
    """Of the hook; its state is found by it."""
    checkpoint_id: int = Field(ge=1)
    """Number of the snapshot for which the hook was asked. A checkpoint that a recovery completed has older answers."""
    state: str
    """Base64."""

    @classmethod
    def of(cls, identifier: str, checkpoint_id: int, body: bytes) -> Self:
        """Return an entry that holds these bytes."""
        return cls(identifier=identifier, checkpoint_id=checkpoint_id, state=base64.b64encode(body).decode())

    @property
    def body(self) -> bytes:
        """The bytes that the hook returned."""
        return base64.b64decode(self.state)


class Manifest(SealedDocument):
    """Everything that is needed to verify, restore, copy or prune one snapshot."""

    FORMAT: ClassVar = formats.MANIFEST
    format_version: int = formats.MANIFEST.writes

    kind: SnapshotKind
    format: SnapshotFormat = SnapshotFormat.NATIVE
    id: int = Field(ge=1)
    """From the job's one sequence of checkpoints and savepoints; never reused."""
    namespace: str
    job: str
    trigger: Trigger
    epoch: int = Field(ge=1)
    generation: int = Field(ge=1)
    triggered_at: UtcDatetime
    completed_at: UtcDatetime
    queries: tuple[QueryEntry, ...]
    request_id: str | None = None
    """Who asked: makes a repeated request return the same savepoint."""
    savepoint_name: str | None = None
    restored_from: str | None = None
    """What the epoch that wrote this had started from, for example `checkpoint 41` or a savepoint's URI."""
    lineage: str | None = None
    """Identity of the root whose generation this is a cut of; absent in snapshots of releases without lineages."""
    root: str | None = None
    """URI of that root when the snapshot was taken."""
    ancestors: tuple[Ancestor, ...] = ()
    """Other lineages that the state descends from, the oldest first."""
    revision: str | None = None
    """The job's revision (from the operator) whose code wrote this state."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions of statefulspark, pyspark and python that wrote it."""
    master_states: tuple[MasterStateEntry, ...] = ()
    """What the job's master hooks answered; of hooks without state there is none."""

    @property
    def size_bytes(self) -> int:
        """Sum of all files, in bytes."""
        return sum(entry.size_bytes for query in self.queries for entry in query.files)

    @property
    def label(self) -> str:
        """The snapshot in words, for example `checkpoint 42`."""
        return f"{self.kind.value} {self.id}"


class GenerationRecord(SealedDocument):
    """`generations/<n>/generation.json`: written after everything else of the generation is in place.

    A generation without this record is half made and never used. Together with `queries` it stands for a checkpoint
    until the first one is taken in the generation.
    """

    FORMAT: ClassVar = formats.GENERATION
    format_version: int = formats.GENERATION.writes

    generation: int = Field(ge=1)
    created_at: UtcDatetime
    epoch: int = Field(ge=1)
    restored_from: str | None = None
    """What it was made from, in words; absent for a start with empty state."""
    source: str | None = None
    """`checkpoint:<id>` or a savepoint's URI; absent for a start with empty state."""
    parent_generation: int | None = None
    """Generation of the checkpoint it was made from; absent for savepoints and empty starts."""
    restore_id: str | None = None
    """The latest restore that somebody asked for, here or in an ancestor: it is done and never repeated."""
    abandoned: bool = False
    """True for a number that a driver began to fill and never completed; written by its successor, so that the driver,
    should it still be alive, cannot complete it any more."""
    claimed: str | None = None
    """URI of the snapshot it was made from, if the job has claimed it and so deletes it once it is subsumed."""
    queries: tuple[QueryEntry, ...] = ()
    """What it started with; paths are relative to the job's root. A query without a commit has batch -1 and tells what
    was declared."""
    changes: tuple[str, ...] = ()
    """How it differs from what it was made from, a sentence for each change."""
    lineage: str | None = None
    """Identity of the root it was made in; absent in records of releases without lineages."""
    ancestors: tuple[Ancestor, ...] = ()
    """Other lineages that its state descends from, the oldest first."""
    master_states: tuple[MasterStateEntry, ...] = ()
    """States of master hooks in the snapshot that it was made from, or that was last restored in it."""
    restored_in_place: int | None = None
    """Number of the savepoint that was last restored in it without a copy."""


class EpochRecord(StoredDocument):
    """`epochs/<n>.json`: one start of a driver; the highest one owns the job."""

    FORMAT: ClassVar = formats.EPOCH
    format_version: int = formats.EPOCH.writes

    epoch: int = Field(ge=1)
    claimed_at: UtcDatetime
    holder: str
    """Who claimed it: pod name and uid, or host and process id."""
    claim_id: str
    """Unique per process, so that a claim whose answer was lost is recognised as one's own."""
    filled: bool = False
    """True for a number that was skipped: no driver ever ran under it."""
    notes_beginning: bool = False
    """True if this driver leaves `epochs/began.json` before it writes state; false for earlier releases."""


class ReservationRecord(EpochRecord):
    """`generations/<n>/reserved.json`: the driver's epoch that fills a generation; created before anything else in it.

    Only that it exists is looked at, so that no two drivers fill the same generation.
    """

    FORMAT: ClassVar = formats.RESERVATION
    format_version: int = formats.RESERVATION.writes


class OwnerRecord(StoredDocument):
    """`owner.json`: who owns this state."""

    FORMAT: ClassVar = formats.OWNER
    format_version: int = formats.OWNER.writes

    namespace: str
    job: str
    owner_id: str
    """Uid of the Kubernetes resource, or `local` outside a cluster."""
    created_at: UtcDatetime


class LineageRecord(StoredDocument):
    """`lineages/<n>.json`: the identity of a job's root; the newest one counts.

    A root has one for as long as it stays where it is. One that was copied or moved brings the records of its old place
    along, and gets a new one at its first start: its generations go on under that, and sinks can tell both apart.
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
    """The driver's that made it."""
    adopts_unnamed: bool = False
    """True if the root held state of a release without lineages: whatever names no lineage there is of this one."""
