"""Column families of Spark's own operators, through parts and back, without an engine (A.158)."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from statefulspark.canonical import documents
from statefulspark.engine.canonical import tasks
from statefulspark.storage import StorageOptions

_PAIR = pa.struct([("key", pa.binary()), ("value", pa.struct([("n", pa.int64())]))])


def back(folder: Path, families: tuple[str, ...], batch: pa.RecordBatch) -> dict[str, list[dict[str, object]]]:
    """Write a batch as parts, and return the rows that a restore reads, by family."""
    place = tasks.QueryFolder(f"file://{folder}", "files/q", StorageOptions(allow_local_files=True))
    folders = tuple((family, f"canonical/own/families/{number:02d}") for number, family in enumerate(families))
    found: dict[str, list[dict[str, object]]] = {}
    for result in tasks.FamilyExport(place, folders)([batch]):
        for written in map(json.loads, result.column(0).to_pylist()):
            part = documents.ParquetFile.model_validate_json(written["part"])
            number = pa.RecordBatch.from_pydict({"part": [0]})
            rows = pa.Table.from_batches(list(tasks.ReadFamily(place, (part,))([number])))
            assert rows.column_names == ["partition_key", "ordinal", "key", "value"]
            found.setdefault(written["family"], []).extend(rows.to_pylist())
    return found


def test_a_group_of_all_rows_which_has_no_key_comes_back(tmp_path: Path) -> None:
    """Parquet has no struct without fields, so no aggregation without `groupBy` could be written."""
    keys = pa.array([{}, {}], pa.struct([]))
    values = pa.array([{"key": b"", "value": {"n": 7}}, {"key": b"", "value": {"n": 8}}], _PAIR)

    read = back(tmp_path, ("default",), pa.RecordBatch.from_arrays([keys, values], names=["partition_key", "default"]))

    assert read == {
        "default": [
            {"partition_key": {}, "ordinal": 0, "key": b"", "value": {"n": 7}},
            {"partition_key": {}, "ordinal": 1, "key": b"", "value": {"n": 8}},
        ]
    }


def test_families_are_told_apart_by_their_place_whatever_they_are_called(tmp_path: Path) -> None:
    """A state of a processor of Spark's may have the name of a column beside it, or one that differs by case only."""
    keys = pa.array([{"k": 1}] * 3, pa.struct([("k", pa.int32())]))
    names = ("partition_key", "Count", "count")
    columns = [
        pa.array([{"key": b"k", "value": {"n": n}} if n == place else None for n in range(3)], _PAIR)
        for place in range(3)
    ]

    read = back(tmp_path, names, pa.RecordBatch.from_arrays([keys, *columns], names=["partition_key", *names]))

    assert {family: [row["value"] for row in rows] for family, rows in read.items()} == {
        "partition_key": [{"n": 0}], "Count": [{"n": 1}], "count": [{"n": 2}],
    }  # fmt: skip
