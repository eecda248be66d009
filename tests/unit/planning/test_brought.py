"""A query's root on this machine: what comes here, what goes back, and when the root stays where it is."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from puttingoff import PutOff
from statefulspark import errors
from statefulspark.checkpoint import checksums
from statefulspark.engine import session
from statefulspark.planning import local_roots, state_copy
from statefulspark.testing.stores import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = cast("SparkSession", object())
QUERY = "generations/00000002/q"
THERE = f"s3a://bucket/job/{QUERY}"
OFFSETS, STATE, SCHEMAS = "offsets/6", "state/0/0/7_a.changelog", "state/0/_metadata/v2/0"


def metadata(root: str) -> bytes:
    """Spark's metadata of an operator, which names its schema by its whole path."""
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 2,
        "stateSchemaFilePaths": [f"{root}/state/0/_stateSchema/default/0_a"],
    }
    operator = {"operatorId": 0, "operatorName": "transformWithStateExec"}
    body = {"operatorInfo": operator, "stateStoreInfo": [store], "operatorPropertiesJson": "{}"}
    return f"v2\n{json.dumps(body, separators=(',', ':'))}".encode()


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Executors of the session; none at first."""
    elsewhere: list[str] = []
    monkeypatch.setattr(session, "has_executors_elsewhere", lambda _: bool(elsewhere))
    monkeypatch.setattr(session, "maintenance_interval_s", lambda _: 20.0)
    return elsewhere


@pytest.fixture
def put_off(executors: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PutOff:
    assert not executors
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return PutOff.instead_of_timers(monkeypatch)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore("s3://bucket/job")
    files = {
        OFFSETS: b"v1\n",
        STATE: b"rows",
        SCHEMAS: metadata(THERE),
        checksums.spark_sidecar(SCHEMAS): b"of another",
    }
    for path, body in files.items():
        made.write(f"{QUERY}/{path}", body)
    made.write(f"{QUERY}/packs/mine", b"of Python")
    return made


def bodies(store: MemoryStore) -> dict[str, bytes]:
    return {info.key[len(QUERY) + 1 :]: store.read(info.key) for info in store.list(QUERY)}


def test_what_spark_reads_is_here_and_names_the_root_that_it_is_in(store: MemoryStore, put_off: PutOff) -> None:
    with local_roots.root_of(SPARK, store, QUERY) as root:
        folder = Path(root.removeprefix("file://"))
        here = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert here == {OFFSETS: b"v1\n", STATE: b"rows", SCHEMAS: metadata(root)}
    assert put_off.waits_s


def test_what_was_added_or_written_anew_goes_back_and_names_the_root_there(
    store: MemoryStore, put_off: PutOff, tmp_path: Path
) -> None:
    before = bodies(store)
    with local_roots.root_of(SPARK, store, QUERY) as root:
        folder = Path(root.removeprefix("file://"))
        added = {
            "commits/7": b"v1\n{}",
            "state/0/2/8_b.zip": b"a third partition",
            "state/0/2/8_b.zip.crc": b"Spark's checksum",
            "state/0/2/.8_b.zip.crc": b"Hadoop's, for this disk",
            "state/0/2/.8_b.zip.crc.crc": b"Hadoop's, for this disk",
            "state/0/_metadata/v2/7": metadata(root),
            "state/0/_metadata/v2/.7.crc": b"Hadoop's, for this disk",
            OFFSETS: b"v1\nanother",
        }
        for path, body in added.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(body)
        assert bodies(store) == before

    assert bodies(store) == before | {
        "commits/7": b"v1\n{}",
        "state/0/2/8_b.zip": b"a third partition",
        "state/0/2/8_b.zip.crc": b"Spark's checksum",
        "state/0/_metadata/v2/7": metadata(THERE),
        OFFSETS: b"v1\nanother",
    }
    assert (list(tmp_path.iterdir()), len(put_off.waits_s)) == ([], 1)


def test_after_an_error_nothing_goes_back(store: MemoryStore, put_off: PutOff, tmp_path: Path) -> None:
    before = bodies(store)

    with pytest.raises(errors.StateUnknownError), local_roots.root_of(SPARK, store, QUERY) as root:  # noqa: PT012 - the error is the body's
        (Path(root.removeprefix("file://")) / "offsets/7").write_bytes(b"v1\n")
        raise errors.StateUnknownError("RepartitionFailed", "Spark could not.")

    assert (bodies(store), list(tmp_path.iterdir()), len(put_off.waits_s)) == (before, [], 1)


def test_a_root_that_executors_work_on_stays_on_storage(store: MemoryStore, executors: list[str]) -> None:
    executors.append("10.0.0.7:7078")

    with local_roots.root_of(SPARK, store, QUERY) as root:
        assert root == THERE


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_FILES"])
def test_a_root_that_is_too_large_stays_on_storage(
    limit: str, store: MemoryStore, put_off: PutOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_copy, limit, 2)

    with local_roots.root_of(SPARK, store, QUERY) as root:
        assert root == THERE
    assert put_off.waits_s == []


def test_a_root_on_this_machine_stays_where_it_is(put_off: PutOff) -> None:
    with local_roots.root_of(SPARK, MemoryStore("file:///state/job"), QUERY) as root:
        assert root == f"file:/state/job/{QUERY}"
    assert put_off.waits_s == []


def test_scratch_is_on_this_machine_and_is_removed(store: MemoryStore, put_off: PutOff, tmp_path: Path) -> None:
    with local_roots.scratch(SPARK, store, "scratch/1") as scratch:
        scratch.write("offsets/0", b"v1\n")
        assert (scratch.uri.startswith("file://"), list(store.list("scratch"))) == (True, [])

    assert (list(tmp_path.iterdir()), len(put_off.waits_s)) == ([], 1)


def test_scratch_of_executors_is_on_storage_empty_at_first_and_removed(
    store: MemoryStore, executors: list[str]
) -> None:
    executors.append("10.0.0.7:7078")
    store.write("scratch/1/state/0", b"of a driver that was killed")

    with local_roots.scratch(SPARK, store, "scratch/1") as scratch:
        before = list(scratch.list(""))
        scratch.write("offsets/0", b"v1\n")
        assert (before, [info.key for info in store.list("scratch")]) == ([], ["scratch/1/offsets/0"])

    assert list(store.list("scratch")) == []
