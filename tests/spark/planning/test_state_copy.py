"""A rehearsal on a copy of a query's state: it goes on from that state, and the query and its files stay as they are."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from statefulspark import storage
from statefulspark.contract import layout
from statefulspark.contract.manifest import FileEntry, OperatorEntry, QueryEntry
from statefulspark.planning import rehearsal, rehearsal_folder, state_copy

pytestmark = pytest.mark.spark

UID = "counts"


class World:
    """A query that has counted three rows of a key, in as many batches."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self.input, self.root, self.noted = folder / "input", folder / "job" / UID, folder / "noted"
        self.store = storage.open_store((folder / "job").as_uri(), storage.StorageOptions(allow_local_files=True))
        self.input.mkdir()
        self.noted.mkdir()
        for number in range(3):
            spark.createDataFrame([("a",)], "key string").write.mode("append").parquet(str(self.input))
            self._run(number)

    @property
    def counts(self) -> DataFrame:
        rows = self._spark.readStream.schema("key string").parquet(str(self.input))
        counts = rows.groupBy("key").count()
        folder = self.noted

        def note(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            for frame in frames:
                for count in frame["count"]:
                    (folder / str(count)).touch()
                yield frame

        return counts.mapInPandas(note, counts.schema)

    @property
    def seen(self) -> set[str]:
        return {file.name for file in self.noted.iterdir()}

    @property
    def entry(self) -> QueryEntry:
        files = [file for file in self.root.rglob("*") if file.is_file() and not file.name.startswith(".")]
        return QueryEntry(
            uid=UID,
            batch_id=2,
            path=UID,
            files=tuple(
                FileEntry(path=str(file.relative_to(self.root)), size_bytes=file.stat().st_size)
                for file in sorted(files)
            ),
            operators=(OperatorEntry(uid="stateStoreSave-0", operator_id=0, name="stateStoreSave", partitions=2),),
            offsets=('{"logOffset":2}',),
        )

    def digest(self) -> dict[str, str]:
        return {
            str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in self.root.rglob("*") if file.is_file()
        }

    def rehearse(self, entry: QueryEntry, *, on_storage: bool = False) -> rehearsal.RehearsalOutcome:
        def going_on() -> bool:
            return False

        fill = functools.partial(state_copy.fill, self.store, entry, stops=going_on)
        shared, local = (
            rehearsal_folder.on_storage(self._spark, self.store),
            rehearsal_folder.on_this_machine(self._spark, self.store),
        )
        within = shared if on_storage else local
        return rehearsal.rehearse(self.counts, "update", within, stops=going_on, restore=fill)

    def _run(self, number: int) -> None:
        writer = self.counts.writeStream.format("noop").outputMode("update").queryName(f"{UID}-{number}")
        writer.option("checkpointLocation", self.root.as_uri()).trigger(availableNow=True).start().awaitTermination()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(spark, tmp_path)


@pytest.mark.parametrize("on_storage", [False, True], ids=["on this machine", "on the job's storage"])
def test_a_rehearsal_goes_on_from_a_copy_of_the_state_and_the_state_stays(world: World, on_storage: bool) -> None:
    before, seen = world.digest(), world.seen

    outcome = world.rehearse(world.entry, on_storage=on_storage)

    assert outcome == rehearsal.RehearsalOutcome(has_run=True)
    assert (seen, world.seen) == ({"1", "2", "3"}, {"1", "2", "3", "6"})
    assert world.digest() == before
    assert world.store.list(layout.SCRATCH) == ()


def test_a_rehearsal_on_state_that_vanishes_is_left_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    entry = world.entry
    (world.root / "commits" / "2").unlink()

    outcome = world.rehearse(entry)

    assert outcome == rehearsal.RehearsalOutcome()
    assert "a query could not be rehearsed" in caplog.text


@pytest.mark.parametrize(
    ("batch", "files", "size", "is_copied"),
    [
        pytest.param(-1, 1, 1, False, id="a query without a batch has none"),
        pytest.param(0, 1, state_copy.MOST_BYTES, True, id="a disk has room for this much"),
        pytest.param(0, 1, state_copy.MOST_BYTES + 1, False, id="and not for more"),
        pytest.param(0, state_copy.MOST_FILES, 1, True, id="as many requests"),
        pytest.param(0, state_copy.MOST_FILES + 1, 1, False, id="and no more"),
    ],
)
def test_only_state_of_a_bounded_size_is_copied(batch: int, files: int, size: int, is_copied: bool) -> None:
    entries = tuple(FileEntry(path=f"state/0/{number}/1.zip", size_bytes=size) for number in range(files))
    entry = QueryEntry(uid=UID, batch_id=batch, path=UID, files=entries)

    assert state_copy.is_small_enough(entry) is is_copied
