"""What sinks have written stays readable, and is still written like that: golden files of every version."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from statefulspark.contract.manifest import LineageRecord
from statefulspark.contract.prepared import OutputRecord, PreparedRecord, UnchangedRecord
from statefulspark.sinks.files.commits import BatchCommit, FolderOwner, PartFile
from statefulspark.sinks.marker import Marker

GOLDEN = Path(__file__).parents[2] / "golden" / "sinks"
UNIQUE = "0123456789abcdef0123456789abcdef"


def a_part(path: str) -> tuple[PartFile, ...]:
    return (PartFile(path=path, rows=20, size_bytes=1234),)


COMMIT = BatchCommit(
    batch_id=12345,
    epoch=7,
    committed_at=datetime(2026, 11, 21, 6, tzinfo=UTC),
    files=a_part(f"data/00012000/00012345-00000003-00000007-{UNIQUE}.parquet"),
    generation=3,
    sink="statefulspark/team/flights/delays/out",
    lineage="9f1c0000000000000000000000000000",
)
WITHDRAWN = COMMIT.model_copy(update={"files": (), "withdrawn": True})
OWNER = FolderOwner(
    sink="statefulspark/team/flights/delays/out",
    marker=Marker(
        lineage="9f1c0000000000000000000000000000",
        root="s3://bucket/state/team/flights",
        epoch=7,
        claim="c0ffee",
        origin="1d5a0000000000000000000000000000",
    ),
)
LINEAGE = LineageRecord(
    number=2,
    lineage="9f1c0000000000000000000000000000",
    root="s3://bucket/state/team/flights",
    created_at=datetime(2026, 11, 22, 6, tzinfo=UTC),
    epoch=7,
)
PREPARED = PreparedRecord(
    job="team/flights",
    query_uid="delays",
    uid="out",
    sink="FilesSink",
    generation=3,
    batch_id=12345,
    epoch=7,
    prepared_at=datetime(2026, 11, 21, 6, tzinfo=UTC),
    transaction='{"formatVersion":1,"files":[]}',
)
OUTPUT = OutputRecord(sink="out", batch_id=12346, epoch=7)
OUTPUT_OF_A_FUNCTION = OutputRecord(function="buffer", batch_id=12346, epoch=7)
UNCHANGED = UnchangedRecord(record="operator-state/buffer/00012340-00000007.json")


Document = BatchCommit | PreparedRecord | FolderOwner | LineageRecord | OutputRecord | UnchangedRecord
WRITTEN: tuple[tuple[str, Document], ...] = (
    ("commit-v1.json", COMMIT),
    ("commit-v1-withdrawn.json", WITHDRAWN),
    ("prepared-v1.json", PREPARED),
    ("folder-owner-v1.json", OWNER),
    ("lineage-v1.json", LINEAGE),
    ("output-of-a-function-v1.json", OUTPUT_OF_A_FUNCTION),
    ("unchanged-v1.json", UNCHANGED),
)
READ = (
    ("prepared-v1-sealed.json", PREPARED),
    ("output-v1.json", OUTPUT),
    *WRITTEN,
)


@pytest.mark.parametrize(("name", "expected"), READ)
def test_every_released_document_is_readable(name: str, expected: Document) -> None:
    assert type(expected).parse((GOLDEN / name).read_bytes(), name) == expected


@pytest.mark.parametrize(("name", "document"), WRITTEN)
def test_documents_are_written_as_they_were(name: str, document: Document) -> None:
    assert document.to_json() == (GOLDEN / name).read_text().strip()
