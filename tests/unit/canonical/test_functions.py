"""State of functions and stateful sources read offline: every kind, both formats, every released version (A.24, B.3)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import statefulspark as ss
from manifests import a_manifest
from statefulspark import errors
from statefulspark.cli import main
from statefulspark.contract.manifest import (
    FileEntry,
    Manifest,
    OperatorStateEntry,
    QueryEntry,
    SnapshotFormat,
    SnapshotKind,
)
from statefulspark.storage import StorageOptions

_GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "operatorstate"
_LOCAL = StorageOptions(allow_local_files=True)
_RECORD = "operator-state/buffer/00000012-00000001.json"
_SEGMENT = "source-segments/counter/00000003-00000007.arrow"


@pytest.fixture(params=list(SnapshotFormat), ids=lambda form: form.value)
def savepoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A savepoint with a function and a stateful source, as releases wrote their records."""
    files = {_RECORD: _GOLDEN / "record-v1.json", _SEGMENT: _GOLDEN / "segment-v1.arrow"}
    for path, golden in files.items():
        place = tmp_path / "files" / "q" / path
        place.parent.mkdir(parents=True)
        shutil.copy(golden, place)
    query = QueryEntry(
        uid="q",
        batch_id=12,
        path="files/q",
        files=tuple(FileEntry(path=path, size_bytes=golden.stat().st_size) for path, golden in files.items()),
        operator_states=(OperatorStateEntry(uid="buffer", path=_RECORD, batch_id=12),),
    )
    manifest: Manifest = a_manifest(7, (query,)).model_copy(
        update={"kind": SnapshotKind.SAVEPOINT, "format": request.param}
    )
    (tmp_path / "_metadata.json").write_text(manifest.to_json())
    return tmp_path


def read(folder: Path, **wish: object) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = ss.read_state(f"file://{folder}", options=_LOCAL, **wish).to_pylist()  # type: ignore[arg-type]
    return rows


def test_lists_unions_and_broadcasts_of_a_function_are_read(savepoint: Path) -> None:
    rows = read(savepoint, uid="buffer")

    assert [(row["state"], row["mode"], row["subtask"], json.loads(str(row["element"]))) for row in rows] == [
        ("buffered", "SPLIT_DISTRIBUTE", 0, 1),
        ("buffered", "SPLIT_DISTRIBUTE", 0, "two"),
        ("buffered", "SPLIT_DISTRIBUTE", 0, 3.5),
        ("offsets", "UNION", 0, 7),
        ("offsets", "UNION", 1, 8),
        ("rules", "BROADCAST", 0, ["a", [1, "2026-01-02"]]),
        ("rules", "BROADCAST", 1, ["a", [1, "2026-01-02"]]),
    ]


def test_one_state_and_a_limit_are_chosen(savepoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(
        ["state", "read", f"file://{savepoint}", "--uid", "q/buffer", "--state", "buffered", "--limit", "2",
         "--allow-local-files"]
    )  # fmt: skip

    assert code == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["STATE", "MODE", "SUBTASK", "ELEMENT"],
        ["buffered", "SPLIT_DISTRIBUTE", "0", "1"],
        ["buffered", "SPLIT_DISTRIBUTE", "0", '"two"'],
    ]


def test_the_state_of_a_stateful_source_is_that_of_its_segment(savepoint: Path) -> None:
    rows = read(savepoint, uid="counter")

    assert rows == read(savepoint, uid="buffer")  # The golden segment carries the golden record.


@pytest.mark.parametrize(
    ("wish", "told"),
    [({"uid": "lost"}, "q/buffer, q/counter"), ({"uid": "buffer", "state": "lost"}, "buffered, offsets, rules")],
    ids=["no such uid", "no such state"],
)
def test_what_does_not_exist_is_told_with_what_does(savepoint: Path, wish: dict[str, str], told: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=told):
        read(savepoint, **wish)


@pytest.mark.parametrize(("uid", "path"), [("buffer", _RECORD), ("counter", _SEGMENT)])
@pytest.mark.parametrize("body", [b"", b"{}"], ids=["empty", "other"])
def test_a_damaged_file_is_named(savepoint: Path, uid: str, path: str, body: bytes) -> None:
    (savepoint / "files" / "q" / path).write_bytes(body)

    with pytest.raises(errors.SnapshotCorruptError, match=path.rpartition("/")[2]):
        read(savepoint, uid=uid)


@pytest.mark.parametrize(("uid", "path"), [("buffer", _RECORD), ("counter", _SEGMENT)])
def test_a_missing_file_is_named(savepoint: Path, uid: str, path: str) -> None:
    (savepoint / "files" / "q" / path).unlink()

    with pytest.raises(errors.SnapshotCorruptError, match=path.rpartition("/")[2]):
        read(savepoint, uid=uid)
