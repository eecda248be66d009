"""Reading state offline: every released canonical format, through the function and the command (Flink A.158, B.3)."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import statefulspark as ss
from manifests import a_query, an_operator
from pyarrow import parquet
from statefulspark import errors, storage
from statefulspark.canonical import documents, parts, reading, rows
from statefulspark.checkpoint import transfer
from statefulspark.cli import main
from statefulspark.contract.manifest import KeyedStateEntry
from statefulspark.state import kinds, valuestate
from statefulspark.storage import StorageOptions

_GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "canonical"
_VERSIONS = sorted(folder for folder in _GOLDEN.iterdir() if folder.is_dir() and folder.name.startswith("version-"))
_LOCAL = StorageOptions(allow_local_files=True)
_NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
_TOTAL = [{"key_1": "ada", "key_2": 1, "value": 7}, {"key_1": "bob", "key_2": 2, "value": -(2**63)}]


def read(folder: Path, **wish: object) -> list[dict[str, object]]:
    return ss.read_state(f"file://{folder}", options=_LOCAL, **wish).to_pylist()  # type: ignore[arg-type]


@pytest.mark.parametrize("folder", _VERSIONS, ids=lambda folder: folder.name)
def test_every_released_version_is_read(folder: Path) -> None:
    assert read(folder, uid="mean", state="total") == _TOTAL
    assert read(folder, uid="delays/mean", state="seen") == [
        {"key_1": "ada", "key_2": 1, "index": 0, "value": {"_1": _NOON, "_2": 0.5}, "renewed_ms": 1000},
        {"key_1": "ada", "key_2": 1, "index": 1, "value": {"_1": _NOON, "_2": None}, "renewed_ms": 2000},
    ]
    assert read(folder, uid="mean", state="parts") == [
        {"key_1": "ada", "key_2": 1, "entry": "x", "value": "[1,2]"},
        {"key_1": "bob", "key_2": 2, "entry": "y", "value": '{"nested":"1.50"}'},
    ]
    side = ({"k": 1}, {"k": 2})
    assert read(folder, uid="stateStoreSave-0") == [
        {"partition_key": one, "key": one, "value": {"k": 10 + 10 * number}} for number, one in enumerate(side)
    ]


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(_VERSIONS[-1], tmp_path / "savepoint"))


def test_a_key_and_a_limit_choose_rows(savepoint: Path) -> None:
    assert read(savepoint, uid="mean", state="total", key="bob,2") == _TOTAL[1:]
    assert read(savepoint, uid="mean", state="total", limit=1) == _TOTAL[:1]
    assert read(savepoint, uid="stateStoreSave-0", key="2")[0]["value"] == {"k": 20}
    assert read(savepoint, uid="mean", state="total", key="nobody,2") == []


def test_a_declared_state_without_entries_is_read_as_an_empty_table(tmp_path: Path) -> None:
    """It was refused as a state that does not exist, so whether a state could be read depended on what it held."""
    store = storage.open_store(f"file://{tmp_path}", _LOCAL)
    operator = documents.CanonicalOperator(uid="mean", operator_id=0, name="tws")
    document = documents.QueryDocument(uid="q", batch_id=0, operators=(operator,))
    store.write(f"files/q/{documents.QUERY_DOCUMENT}", document.to_json().encode())
    states = (KeyedStateEntry(name="total", kind="ValueState", type="bigint"),)
    query = a_query("q", an_operator("mean", states=states), path="files/q")

    def found(state: str | None) -> pa.Table:
        wish = reading.StateSelection("mean", state=state)
        return reading.read_operator(transfer.SnapshotLocation(store), query, wish, "mean")

    assert (found("total").num_rows, found(None).num_rows) == (0, 0)
    with pytest.raises(errors.SpecRejectedError, match=r"these states: total; it has no state 'sum'"):
        found("sum")


@pytest.mark.parametrize(
    ("type_text", "of_parts", "shown"),
    [
        ("any", ([1, 2], [None]), [1, 2, None]),
        (
            "record<at:int,of:str>",
            ([(1, None), (2, None)], [(3, "x")]),
            [{"at": 1, "of": None}, {"at": 2, "of": None}, {"at": 3, "of": "x"}],
        ),
        ("any", ([[None]], [[1.5], None]), [[None], [1.5], None]),
        ("any", ([{"a": None}], [{"a": 1}]), [[("a", None)], [("a", 1)]]),
        ("any", ([1], ["x"]), ["1", "x"]),
        ("any", ([[1]], [["x"], [None]]), ["[1]", '["x"]', "[null]"]),
    ],
    ids=["a value", "a field of a record", "an element", "an entry of a dict", "two types", "two types of elements"],
)
def test_a_part_without_values_does_not_change_the_type_of_the_others(
    tmp_path: Path, type_text: str, of_parts: tuple[list[object], ...], shown: list[object]
) -> None:
    """A column became text as soon as one of its parts had nothing but None, as parts of small state often do."""
    store = storage.open_store(f"file://{tmp_path}", _LOCAL)
    meta = kinds.StateMeta("s", valuestate.VALUE, type_text, has_ttl=False)
    files = tuple(
        parts.write(
            store,
            "files/q",
            f"canonical/mean/part-{number}.parquet",
            rows.make_table(meta, [("k", None, value, 0) for value in values], 1),
        )
        for number, values in enumerate(of_parts)
    )
    state = documents.KeyedState(name="s", kind="ValueState", type=type_text, files=files)
    operator = documents.CanonicalOperator(
        uid="mean", operator_id=0, name="tws", key_types=("string",), states=(state,)
    )
    document = documents.QueryDocument(uid="q", batch_id=0, operators=(operator,))
    store.write(f"files/q/{documents.QUERY_DOCUMENT}", document.to_json().encode())

    wish = reading.StateSelection("mean")
    table = reading.read_operator(transfer.SnapshotLocation(store), a_query("q", path="files/q"), wish, "mean")

    assert table.column("value").to_pylist() == shown


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        ({"key_1": ["a,b", "a", "a"], "key_2": [1, 1, None]}, ["a,b,1", "a,1", "a,null"]),
        ({"key": ["a,b", "b", ""]}, ["a,b", "b", ""]),
        (
            {"key": [{"window": {"start": 1, "end": 2}, "carrier": "AA"}, {"window": None, "carrier": "AA"}, None]},
            ["1,2,AA", "null,AA", "null"],
        ),
    ],
    ids=["a comma in a column", "one column", "columns of an operator of Spark's"],
)
def test_each_key_is_found_by_its_columns_with_commas_between_them(
    tmp_path: Path, keys: dict[str, list[object]], asked: list[str]
) -> None:
    store = storage.open_store(f"file://{tmp_path}", _LOCAL)
    part = parts.write(store, "files/q", "canonical/own/part.parquet", pa.table({**keys, "value": [0, 1, 2]}))
    family = documents.FamilyState(name="default", key="binary", value="binary", files=(part,))
    own = documents.StoreState(name="default", partition_key="binary", families=(family,))
    operator = documents.CanonicalOperator(uid="own", operator_id=0, name="own", stores=(own,))
    document = documents.QueryDocument(uid="q", batch_id=0, operators=(operator,))
    store.write(f"files/q/{documents.QUERY_DOCUMENT}", document.to_json().encode())

    def found(key: str) -> list[object]:
        wish = reading.StateSelection("own", key=key)
        query = a_query("q", path="files/q")
        table = reading.read_operator(transfer.SnapshotLocation(store), query, wish, "own")
        return list(table.column("value").to_pylist())

    assert [found(key) for key in asked] == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"uid": "median"}, "delays/mean"),
        ({"uid": "mean"}, "total"),
        ({"uid": "mean", "state": "lost"}, "total"),
    ],
    ids=["no such uid", "several states and none named", "no such state"],
)
def test_what_does_not_exist_is_told_with_what_does(savepoint: Path, wish: dict[str, str], told: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=told):
        read(savepoint, **wish)


@pytest.mark.parametrize("damage", [None, b"", b"other"], ids=["missing", "empty", "swapped"])
def test_a_damaged_part_is_named_and_never_shown(savepoint: Path, damage: bytes | None) -> None:
    part = next(savepoint.rglob("total/*.parquet"))
    if damage is None:
        part.unlink()
    else:
        part.write_bytes(damage)

    with pytest.raises(errors.SnapshotCorruptError, match=r"total/part-0000-00000\.parquet"):
        read(savepoint, uid="mean", state="total")


def test_the_command_writes_each_form(savepoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["state", "read", f"file://{savepoint}", "--uid", "mean", "--state", "total", "--allow-local-files"]
    assert main.main(command) == 0
    table = capsys.readouterr().out.splitlines()
    assert main.main([*command, "-o", "json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for form in ("parquet", "arrow"):
        assert main.main([*command, "-o", form, "--file", str(tmp_path / form)]) == 0

    assert [line.split() for line in table] == [
        ["KEY_1", "KEY_2", "VALUE"], ["ada", "1", "7"], ["bob", "2", "-9223372036854775808"],
    ]  # fmt: skip
    assert [json.loads(line) for line in lines] == _TOTAL
    assert parquet.read_table(tmp_path / "parquet").to_pylist() == _TOTAL
    assert pa.ipc.open_stream((tmp_path / "arrow").read_bytes()).read_all().to_pylist() == _TOTAL


def test_a_document_of_a_later_version_is_refused(savepoint: Path) -> None:
    path = savepoint / "files" / "delays" / documents.QUERY_DOCUMENT
    path.write_text(json.dumps({**json.loads(path.read_text()), "formatVersion": 99}))

    with pytest.raises(errors.SnapshotCorruptError, match="99"):
        read(savepoint, uid="mean", state="total")
