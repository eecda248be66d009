"""One document of every kind that is stored as JSON, with every field set, as this release writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from statefulspark.canonical import documents
from statefulspark.contract import base, formats, manifest, notes, prepared
from statefulspark.contract.formats import DocumentFormat
from statefulspark.operatorstate import record
from statefulspark.operatorstate.model import Mode, NamedState, OperatorState, OperatorStateMeta
from statefulspark.retention import pruning
from statefulspark.sinks import marker, staging
from statefulspark.sinks.files import commits
from statefulspark.sinks.iceberg import datafiles
from statefulspark.sources import segmentfile

NOON = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
LINEAGE, BEFORE = "9f1c0000000000000000000000000000", "1d5a0000000000000000000000000000"
UNIQUE = "0123456789abcdef0123456789abcdef"
ROOT = "s3://bucket/state/team/flights"
SINK = "statefulspark/team/flights/delays/out"


@dataclass(frozen=True, slots=True)
class StoredKind:
    """A kind of document.

    Attributes:
        name: Of its golden files.
        document_format: Its versions.
        document: One of it.
        write: Returns the document's bytes as they are stored.
        read: Reads bytes, and names their source in errors.
    """

    name: str
    document_format: DocumentFormat
    document: base.WireModel
    write: Callable[[], bytes]
    read: Callable[[bytes, str], base.WireModel]


def _plain(name: str, document: base.StoredDocument, *, indent: int | None = 1) -> StoredKind:
    kind = type(document)
    return StoredKind(name, kind.FORMAT, document, lambda: document.to_json(indent=indent).encode(), kind.parse)


def _sealed(name: str, document: base.SealedDocument, *, indent: int | None = None) -> StoredKind:
    kind = type(document)
    return StoredKind(name, kind.FORMAT, document, lambda: document.sealed(indent=indent), kind.parse)


_STAGED = f"staged/out/00000003-00000012-00000007-{UNIQUE}.parquet"
_ANCESTOR = manifest.Ancestor(lineage=BEFORE, root="s3://bucket/old/team/flights", generation=2, batches={"delays": 7})
_MASTER = manifest.MasterStateEntry.encode("offsets", 42, b"41")
_OPERATOR = manifest.OperatorEntry(
    uid="mean",
    operator_id=0,
    name="transformWithStateInPandasExec",
    partitions=4,
    max_parallelism=128,
    key="string, bigint",
    value="double",
    mode="Update",
    definition={"window": "10 minutes"},
    states=(manifest.KeyedStateEntry(name="total", kind="ValueState", type="bigint", has_ttl=True),),
)
_QUERY = manifest.QueryEntry(
    uid="delays",
    batch_id=12,
    path="generations/00000003/delays",
    files=(
        manifest.FileEntry(path="state/0/0/12.changelog", size_bytes=100, checksum="etag:abc"),
        manifest.FileEntry(path="commits/12", size_bytes=9, checksum="etag:abd", crc32="40671f45"),
    ),
    operators=(_OPERATOR,),
    offsets=('{"flights":{"0":41}}',),
    sources=(manifest.SourceEntry(name="flights", description="kafka(subscribe=flights)", log=0),),
    time_zone="UTC",
    operator_states=(
        manifest.OperatorStateEntry(uid="buffer", path="operator-state/buffer/00000012-00000007.json", batch_id=12),
    ),
    prepared=(
        manifest.PreparedEntry(uid="out", path="prepared/out/00000012-00000007.json", batch_id=12, is_empty=True),
    ),
    sinks=(
        manifest.SinkEntry(
            uid="out",
            kind="KafkaSink",
            target="kafka://kafka:9092/delays",
            committed=manifest.Position(lineage=LINEAGE, generation=3, batch_id=11),
            kept_after=manifest.Position(lineage=BEFORE, generation=2, batch_id=7),
            origin=BEFORE,
            openings=(
                manifest.SinkOpening(epoch=7, after=manifest.Position(lineage=LINEAGE, generation=3, batch_id=9)),
            ),
        ),
    ),
)
CHECKPOINT = manifest.Manifest(
    kind=manifest.SnapshotKind.CHECKPOINT,
    id=42,
    namespace="team",
    job="flights",
    trigger=manifest.Trigger.PERIODIC,
    epoch=7,
    claim="c0ffee",
    generation=3,
    triggered_at=NOON,
    completed_at=NOON,
    queries=(_QUERY,),
    request_id="manual-1",
    restored_from="checkpoint 41",
    lineage=LINEAGE,
    root=ROOT,
    ancestors=(_ANCESTOR,),
    revision="2",
    versions={"statefulspark": "0.1.0", "pyspark": "4.2.0", "python": "3.11.9"},
    master_states=(_MASTER,),
    untried=("delays",),
)
SAVEPOINT = CHECKPOINT.model_copy(
    update={
        "kind": manifest.SnapshotKind.SAVEPOINT,
        "claim": None,
        "id": 43,
        "trigger": manifest.Trigger.UPGRADE,
        "queries": (_QUERY.model_copy(update={"path": "files/delays"}),),
        "savepoint_name": "nightly",
        "untried": (),
    }
)
CANONICAL = SAVEPOINT.model_copy(update={"format": manifest.SnapshotFormat.CANONICAL, "id": 44})
_GENERATION = manifest.GenerationRecord(
    generation=3,
    created_at=NOON,
    epoch=7,
    restored_from="checkpoint 41",
    source="checkpoint:41",
    parent_generation=2,
    carried_out=("once",),
    claimed="s3://bucket/elsewhere/00000040",
    queries=(_QUERY,),
    changes=("The query delays has 4 partitions instead of 2.",),
    lineage=LINEAGE,
    ancestors=(_ANCESTOR,),
    master_states=(_MASTER,),
    restored_in_place=43,
    goes_back=True,
    cut=_ANCESTOR,
)
_MARKER = marker.Marker(
    lineage=LINEAGE,
    root=ROOT,
    epoch=7,
    claim="c0ffee",
    origin=BEFORE,
    committed=(
        manifest.Position(lineage=BEFORE, generation=2, batch_id=9),
        manifest.Position(lineage=LINEAGE, generation=3, batch_id=12),
    ),
    lost_at=NOON,
)
_PART = commits.PartFile(path=f"data/00012000/00012345-00000003-00000007-{UNIQUE}.parquet", rows=20, size_bytes=1234)
_DATA_FILE = datafiles.DataFile(
    path="s3://bucket/tables/delays/data/x.parquet",
    spec_id=0,
    partition=("01", None),
    rows=20,
    size_bytes=1234,
    column_sizes={1: 90},
    value_counts={1: 20},
    null_value_counts={1: 0},
    nan_value_counts={1: 0},
    lower_bounds={1: "01"},
    upper_bounds={1: "09"},
    split_offsets=(4,),
)
_STATE = OperatorState(2, {"seen": NamedState(OperatorStateMeta("seen", Mode.SPLIT, "array<bigint>"), ((1, 2), ()))})
_RECORD = record.encode("buffer", _STATE)
_CANONICAL_FILE = documents.ParquetFile(path="canonical/mean/x.parquet", rows=1, size_bytes=9, sha256="00")
_CANONICAL_QUERY = documents.QueryDocument(
    uid="delays",
    batch_id=12,
    sources=(documents.SourcePosition(name="flights", description="kafka", offset={"flights": {"0": 41}}),),
    operators=(
        documents.CanonicalOperator(
            uid="mean",
            operator_id=0,
            name="transformWithStateInPandasExec",
            key_types=("string",),
            max_parallelism=128,
            states=(
                documents.KeyedState(
                    name="total", kind="ValueState", type="bigint", has_ttl=True, files=(_CANONICAL_FILE,)
                ),
            ),
        ),
        documents.CanonicalOperator(
            uid="stateStoreSave-1",
            operator_id=1,
            name="stateStoreSave",
            stores=(
                documents.StoreState(
                    name="default",
                    partition_key={"type": "struct"},
                    families=(
                        documents.FamilyState(name="default", key="binary", value="binary", files=(_CANONICAL_FILE,)),
                    ),
                ),
            ),
        ),
    ),
)

KINDS = (
    _sealed("manifest-checkpoint", CHECKPOINT, indent=1),
    _sealed("manifest-savepoint", SAVEPOINT, indent=1),
    _sealed("manifest-canonical", CANONICAL, indent=1),
    _sealed("generation", _GENERATION, indent=1),
    _plain(
        "reservation",
        manifest.ReservationRecord(epoch=7, claimed_at=NOON, holder="epoch 7", claim_id="epoch-7"),
        indent=None,
    ),
    _plain(
        "reservation-of-a-standby",
        manifest.ReservationRecord(
            epoch=7, claimed_at=NOON, holder="flights-standby-3", claim_id="c0ffee", standby="flights-standby-3"
        ),
        indent=None,
    ),
    _plain(
        "epoch",
        manifest.EpochRecord(
            epoch=7,
            claimed_at=NOON,
            holder="flights-driver-7/4f",
            claim_id="c0ffee",
            follows="decade",
            purged=manifest.Purge(epoch=7, generation=3, snapshot=42),
        ),
    ),
    _plain("beginning", notes.BeginningNote(generation=1, epoch=1, noted_at=NOON)),
    _plain(
        "owner",
        manifest.OwnerRecord(
            namespace="team",
            job="flights",
            owner_id="4f1c",
            cluster_id="7a20",
            created_at=NOON,
            word="4c5b4ce0cf",
            spent=("3e0b start",),
        ),
    ),
    _plain(
        "lineage",
        manifest.LineageRecord(
            number=1,
            lineage=LINEAGE,
            root=ROOT,
            created_at=NOON,
            epoch=7,
            after=manifest.Purge(epoch=6, generation=3, snapshot=42),
        ),
    ),
    _plain(
        "damage",
        notes.DamageNote(generation=3, epoch=7, query="delays", batch_id=12, said="It is gone.", noted_at=NOON),
    ),
    _plain("prune-marks", pruning.Marks(unused_since={"generations/00000001/delays/offsets/3": NOON}), indent=None),
    _plain("savepoint-pointer", notes.SavepointPointer(location="s3://bucket/elsewhere/00000043-nightly")),
    _plain("savepoint-writer", notes.SavepointWriter(root=ROOT, epoch=7), indent=None),
    _plain("claim", notes.ClaimRecord(root=ROOT, owner_id="4f1c", claimed_at=NOON)),
    _plain("canonical-query", _CANONICAL_QUERY),
    StoredKind(
        "operator-state",
        formats.OPERATOR_STATE,
        record.OperatorRecord.parse(_RECORD, "built"),
        lambda: base.seal(_RECORD),
        record.OperatorRecord.parse,
    ),
    _plain("segment", segmentfile.SegmentHeader(uid="ticks", segment=4, epoch=7, subtasks=(0, 2)), indent=None),
    _sealed(
        "prepared",
        prepared.PreparedRecord(
            job="team/flights",
            query_uid="delays",
            uid="out",
            sink="KafkaSink",
            generation=3,
            batch_id=12,
            epoch=7,
            prepared_at=NOON,
            lineage=LINEAGE,
            transaction=f'{{"files":[{{"path":"{_STAGED}"}}]}}',
        ),
    ),
    _sealed(
        "output",
        prepared.OutputRecord(
            sinks=(
                prepared.OpenedSink(uid="out", kind="KafkaSink", target="kafka://kafka:9092/delays"),
                prepared.OpenedSink(uid="archive", kind="FilesSink"),
            ),
            batch_id=12,
            epoch=7,
        ),
    ),
    _sealed("output-of-a-function", prepared.OutputRecord(function="alerts", batch_id=12, epoch=7)),
    _sealed("unchanged", prepared.UnchangedRecord(record="operator-state/alerts/00000011-00000007.json")),
    _plain(
        "staged-rows",
        staging.StagedRows(
            files=(staging.StagedFile(path=_STAGED, rows=20, size_bytes=1234),),
            columns=(staging.StagedColumn(name="key", type="string"),),
            staged_at=NOON,
        ),
        indent=None,
    ),
    _plain("prepared-files", commits.PreparedFiles(files=(_PART,)), indent=None),
    _plain(
        "written-files",
        datafiles.WrittenFiles(table="team.delays", table_uuid="4f1c", files=(_DATA_FILE,)),
        indent=None,
    ),
    _plain(
        "commit",
        commits.BatchCommit(
            batch_id=12345,
            epoch=7,
            committed_at=NOON,
            files=(_PART,),
            generation=3,
            sink=SINK,
            lineage=LINEAGE,
            withdrawn=False,
        ),
        indent=None,
    ),
    _plain("folder-owner", commits.FolderOwner(sink=SINK, marker=_MARKER), indent=None),
    _plain("marker", _MARKER, indent=None),
)
