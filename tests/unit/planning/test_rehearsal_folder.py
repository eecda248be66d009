"""When the folder of a rehearsal is removed: at its end, and once more when Spark has uploaded what it still had."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from puttingoff import PutOff
from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.engine import session, settings
from statefulspark.planning import rehearsal_folder
from statefulspark.testing.stores import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from statefulspark.planning.rehearsal_folder import RehearsalFolder

INTERVAL_S = 20.0
SPARK = cast("SparkSession", object())
Folders = tuple[AbstractContextManager["RehearsalFolder"], Callable[[], object]]


@pytest.fixture
def put_off(monkeypatch: pytest.MonkeyPatch) -> PutOff:
    monkeypatch.setattr(session, "maintenance_interval_s", lambda _: INTERVAL_S)
    return PutOff.instead_of_timers(monkeypatch)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(params=["on storage", "on this machine"])
def folders(
    request: pytest.FixtureRequest, store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Folders:
    """A folder that is not made yet, and what says which files are in any."""
    if request.param == "on storage":
        return rehearsal_folder.on_storage(SPARK, store), lambda: list(store.list(layout.SCRATCH))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return rehearsal_folder.on_this_machine(SPARK, store), lambda: list(tmp_path.iterdir())


def test_a_folder_is_removed_at_the_end_and_what_spark_uploads_late_when_its_maintenance_has_come_by(
    folders: Folders, put_off: PutOff
) -> None:
    within, left = folders

    with within as folder:
        folder.write("checkpoint/state/0/0/1.changelog", b"rows")
        assert left()
    at_the_end = left()
    folder.write("checkpoint/state/0/0/2.zip", b"a snapshot that the last batch has made")
    late = left()
    put_off.do()

    assert (at_the_end, bool(late), left()) == ([], True, [])
    assert put_off.waits_s == [INTERVAL_S + settings.REQUEST_TIMEOUT_S]


def test_a_folder_of_a_rehearsal_that_fails_is_removed_in_the_same_way(folders: Folders, put_off: PutOff) -> None:
    within, left = folders

    with pytest.raises(errors.TransientError), within as folder:  # noqa: PT012 - the failure is the body's
        folder.write("checkpoint/metadata", b"{}")
        raise errors.TransientError("ServiceUnavailable", "S3 answers with 503.")
    folder.write("checkpoint/state/0/0/2.zip", b"a snapshot that the last batch has made")
    put_off.do()

    assert left() == []


def test_a_folder_that_cannot_be_removed_is_left_for_the_next_start(
    store: MemoryStore, put_off: PutOff, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: str) -> None:
        raise errors.TransientError("ServiceUnavailable", "S3 answers with 503.")

    monkeypatch.setattr(store, "delete_folder", refuse)
    with rehearsal_folder.on_storage(SPARK, store) as folder:
        folder.write("checkpoint/metadata", b"{}")
    put_off.do()

    assert [record.getMessage() for record in caplog.records] == ["a rehearsal's folder is left for the next start"] * 2
