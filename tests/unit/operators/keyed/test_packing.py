"""The rows of a batch come as a few blobs for each partition, and are split into key groups again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from statefulspark.operators.keyed import cleaning, packing
from statefulspark.state import keygroups

_PARTITIONS = 3


@pytest.fixture(autouse=True)
def three_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "partitions_of_task", lambda: _PARTITIONS)


def _batch(rows: range, groups: int = 7) -> pa.RecordBatch:
    """Return rows that are numbered, and in turn in each key group; the key group is the last column."""
    return pa.RecordBatch.from_pydict(
        {"number": list(rows), "text": [None if row % 5 == 0 else str(row) for row in rows]}
        | {"key_group": pa.array([row % groups for row in rows], pa.int32())}
    )


def _packed(batches: list[pa.RecordBatch]) -> dict[int, list[bytes]]:
    """Return the blobs by the partition in which Spark puts them."""
    blobs: dict[int, list[bytes]] = {}
    for batch in packing.pack(iter(batches)):
        for row in batch.to_pylist():
            partition = keygroups.spark_hash((row[packing.GROUP],), ("int",)) % _PARTITIONS
            blobs.setdefault(partition, []).append(row[packing.ROWS])
    return blobs


def test_a_partition_gets_one_blob_with_the_rows_of_its_key_groups_in_order() -> None:
    blobs = _packed([_batch(range(40)), _batch(range(40, 80))])

    rows = {partition: packing.PartitionRows(of_partition) for partition, of_partition in blobs.items()}
    assert [len(of_partition) for of_partition in blobs.values()] == [1, 1, 1]
    assert {partition: part.groups for partition, part in sorted(rows.items())} == {0: (0, 3, 6), 1: (1, 4), 2: (2, 5)}
    table = rows[1].take(4)
    assert table.column_names == ["number", "text"]
    assert table["number"].to_pylist() == list(range(4, 80, 7))
    assert table["text"].to_pylist() == [None if row % 5 == 0 else str(row) for row in range(4, 80, 7)]


def test_only_partitions_with_rows_get_a_blob() -> None:
    assert list(_packed([_batch(range(20), groups=2)])) == [0, 1]


def test_no_rows_are_no_blobs() -> None:
    assert _packed([]) == _packed([_batch(range(0))]) == {}


@pytest.mark.parametrize("memory_bytes", [1 << 20, 3000, 0], ids=["in memory", "some on disk", "on disk"])
def test_blobs_beyond_a_limit_are_in_a_file_that_nobody_sees(
    memory_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    blobs = [blob for start in range(0, 500, 100) for blob in _packed([_batch(range(start, start + 100))])[0]]

    rows = packing.PartitionRows(iter(blobs), memory_bytes=memory_bytes)

    assert list(tmp_path.iterdir()) == []
    assert rows.groups == (0, 3, 6)
    assert rows.take(3)["number"].to_pylist() == list(range(3, 500, 7))
    assert rows.groups == (0, 6)
