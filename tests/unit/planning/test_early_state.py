"""Which files of state are fetched while Spark starts, and that nothing waits for them or fails with them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import pytest
from statefulspark import errors
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.planning import early_state
from statefulspark.storage.port import MOST_BYTES
from statefulspark.testing import stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNIQUE = "0f3a3e0e-0d5a-4b8e-9d3f-5a9d4b1c2d3e"
FOLDER = "generations/00000001/q"
CHANGES = f"state/0/1/6_{UNIQUE}.changelog"
SMALL, LARGE = early_state.SMALL_BYTES, early_state.SMALL_BYTES + 1


def a_query_of(*files: tuple[str, int]) -> QueryEntry:
    entries = tuple(FileEntry(path=path, size_bytes=size) for path, size in files)
    return QueryEntry(uid="q", batch_id=3, path=FOLDER, files=entries, operators=(), offsets=())


@pytest.mark.parametrize(
    ("path", "size", "is_fetched"),
    [
        pytest.param(CHANGES, 10, True, id="what a batch has changed"),
        pytest.param(f"{CHANGES}.crc", 10, True, id="its checksum"),
        pytest.param(f"state/0/1/6_{UNIQUE}.zip", SMALL, True, id="a snapshot"),
        pytest.param(f"state/0/1/SSTs/000008-{UNIQUE}.sst", LARGE, False, id="a large table"),
        pytest.param("offsets/3", 10, False, id="a log, whose name may be used again"),
        pytest.param("state/0/_metadata/metadata", 10, False, id="the description of an operator"),
    ],
)
def test_small_files_of_state_stores_are_fetched(path: str, size: int, is_fetched: bool) -> None:
    assert early_state.small_files([a_query_of((path, size))]) == ((f"{FOLDER}/{path}",) if is_fetched else ())


def test_no_more_is_fetched_than_memory_is_meant_for() -> None:
    count = early_state.MOST_BYTES // SMALL
    files = [(f"state/0/1/{number}_{UNIQUE}.changelog", SMALL) for number in range(count + 3)]

    assert len(early_state.small_files([a_query_of(*files)])) == count


class AwayStore(stores.MemoryStore):
    """A store that cannot be reached."""

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        raise errors.TransientError("StorageUnreachable", f"{len(keys)} files cannot be read.")


def test_a_start_does_not_fail_with_a_store_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    early = early_state.EarlyState(AwayStore("memory://job"), [a_query_of((CHANGES, 10))])

    assert early.offer(cast("SparkSession", None)).result(10) == 0
    assert "state is left on storage until it is used" in caplog.text


class FaultyStore(stores.MemoryStore):
    """A store with a fault of our own."""

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        raise ValueError(f"{len(keys)} files are too many.")


def test_a_fault_that_nobody_waits_for_is_told(caplog: pytest.LogCaptureFixture) -> None:
    early = early_state.EarlyState(FaultyStore("memory://job"), [a_query_of((CHANGES, 10))])
    placing = early.offer(cast("SparkSession", None))
    is_told = threading.Event()
    placing.add_done_callback(lambda _: is_told.set())  # It follows the one of `offer`.

    assert is_told.wait(10)
    assert "1 files are too many." in caplog.text
