"""What sinks have written stays readable, and is still written like that: golden files of every version."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.sinks.files_commits import BatchCommit, PartFile

GOLDEN = Path(__file__).parents[2] / "golden" / "sinks"
UNIQUE = "0123456789abcdef0123456789abcdef"


def a_part(path: str) -> tuple[PartFile, ...]:
    return (PartFile(path=path, rows=20, size_bytes=1234),)


OLD_COMMIT = BatchCommit(
    batch_id=12,
    epoch=3,
    committed_at=datetime(2026, 11, 21, 2, tzinfo=UTC),
    files=a_part(f"data/00000012-{UNIQUE}.parquet"),
)
COMMIT = BatchCommit(
    batch_id=12345,
    epoch=7,
    committed_at=datetime(2026, 11, 21, 6, tzinfo=UTC),
    files=a_part(f"data/00012000/00012345-00000003-00000007-{UNIQUE}.parquet"),
    generation=3,
    sink="statefulspark/team/flights/delays/out",
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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "commit-v1-with-every-batch.json", OLD_COMMIT, id="a commit of a release that committed each batch"
        ),
        pytest.param("commit-v1.json", COMMIT, id="a commit of a batch that a checkpoint covers"),
        pytest.param("prepared-v1.json", PREPARED, id="a prepared transaction"),
    ],
)
def test_every_released_document_is_readable(name: str, expected: BatchCommit | PreparedRecord) -> None:
    assert type(expected).parse((GOLDEN / name).read_bytes(), name) == expected


@pytest.mark.parametrize(("name", "document"), [("commit-v1.json", COMMIT), ("prepared-v1.json", PREPARED)])
def test_documents_are_written_as_they_were(name: str, document: BatchCommit | PreparedRecord) -> None:
    assert document.to_json() == (GOLDEN / name).read_text().strip()
