"""State that was read ahead: a query goes on from the copies, though the files on the object store are empty by now."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import streams
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from s3server import S3Server
from statefulspark import storage
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.engine import session as spark_session
from statefulspark.planning import early_state, read_ahead

pytestmark = [pytest.mark.spark, pytest.mark.s3]
FOLDER = "generations/00000001/q"
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


class World:
    """A query on S3 that has ended, with snapshots of its state."""

    def __init__(self, spark: SparkSession, s3: S3Server, bucket: str) -> None:
        self.store = storage.open_store(f"s3://{bucket}", s3.options())
        self.spark, self.root = spark, f"s3a://{bucket}"
        self.files = s3.objects / bucket / FOLDER
        self.batch = self.run_on(3)

    def run_on(self, batches: int) -> int:
        """Run the query for some batches; return the last."""
        query = streams.start_count(self.spark, f"{self.root}/{FOLDER}", name="ahead", sink="noop")
        start = streams.last_batch(query)
        streams.wait_until(
            lambda: query.exception() is not None or streams.last_batch(query) >= start + batches, "batches are run"
        )
        failure, last = query.exception(), streams.last_batch(query)
        query.stop()
        if failure is not None:
            raise failure
        return last

    @property
    def state(self) -> list[Path]:
        """What Spark's state stores load: the checksums of tables are for us alone."""
        kinds = (".zip", ".sst", ".changelog", ".crc")
        return [path for path in self.files.rglob("*") if path.suffix in kinds and not path.name.endswith(".sst.crc")]

    @property
    def entry(self) -> QueryEntry:
        files = tuple(
            FileEntry(path=str(file.relative_to(self.files)), size_bytes=file.stat().st_size) for file in self.state
        )
        return QueryEntry(uid="q", batch_id=self.batch, path=FOLDER, files=files, operators=(), offsets=())

    def spoil_state(self) -> None:
        """Leave the names, which Spark lists, and no content."""
        for file in self.state:
            file.write_bytes(b"")


@pytest.fixture
def world(spark: SparkSession, s3: S3Server, s3_bucket: str) -> Iterator[World]:
    # Each batch uploads a snapshot, as Spark's maintenance does now and then.
    spark.conf.set(CHANGELOGS, "false")
    yield World(spark, s3, s3_bucket)
    spark.conf.set(CHANGELOGS, "true")
    spark_session.jvm_view(spark).io.statefulspark.storage.FilesAhead.withdraw()


def test_a_query_goes_on_from_files_that_were_read_ahead(world: World) -> None:
    ahead = read_ahead.ReadAhead(world.spark)
    entry = world.entry
    assert any(file.path.endswith(".sst") for file in entry.files)

    kept = ahead.follow(world.root, [entry], stops=lambda: False)
    world.spoil_state()

    assert kept.kept_bytes == kept.read_bytes == sum(file.size_bytes for file in entry.files)
    with pytest.raises(StreamingQueryException):  # It reads from storage as long as the copies are not offered.
        world.run_on(1)
    ahead.offer()
    assert world.run_on(2) > world.batch


def test_a_look_reads_what_came_since_and_forgets_what_is_not_needed(world: World) -> None:
    ahead = read_ahead.ReadAhead(world.spark)
    first = world.entry
    ahead.follow(world.root, [first], stops=lambda: False)
    world.batch = world.run_on(1)
    before = {file.path for file in first.files}
    newer = [file for file in world.entry.files if file.path not in before]
    kept = first.files[0]
    second = first.model_copy(update={"files": (kept, *newer)})

    looked = ahead.follow(world.root, [second], stops=lambda: False)
    again = ahead.follow(world.root, [second], stops=lambda: False)

    assert looked.read_bytes == sum(file.size_bytes for file in newer) > 0
    assert again == read_ahead.Ahead(0, kept.size_bytes + looked.read_bytes, 0)


@pytest.mark.parametrize("name", ["x.py", "x.sst"])
def test_a_snapshot_cannot_name_files_outside_of_sparks_state(world: World, tmp_path: Path, name: str) -> None:
    planted = tmp_path / name
    for snapshot in world.files.rglob("*.zip"):
        snapshot.with_name(f"{snapshot.name}.crc").unlink(missing_ok=True)
        _rename_tables(snapshot, "../" * 12 + str(planted).lstrip("/"))

    with pytest.raises(StreamingQueryException, match="CANNOT_LOAD_STATE_STORE"):
        world.run_on(1)

    assert not planted.exists()


@pytest.mark.parametrize(
    "target", ["{}/x.sst", "{}/workingDir-1/x.py", "{}/workingDir-1/../x.sst", "/root/workingDir-1/x.sst"]
)
def test_a_file_of_this_machine_is_not_copied_to_a_place_outside_of_sparks_state(
    spark: SparkSession, tmp_path: Path, target: str
) -> None:
    source = tmp_path / "000008-4f.sst"
    source.write_bytes(b"table")
    hadoop = spark_session.jvm_view(spark).org.apache.hadoop.fs
    files = spark_session.jvm_view(spark).io.statefulspark.storage.LocalStateFileSystem()
    files.initialize(hadoop.Path("file:///").toUri(), spark.sparkContext._jsc.hadoopConfiguration())

    with pytest.raises(Py4JJavaError, match="not in a folder of Spark's state"):
        files.copyToLocalFile(hadoop.Path(str(source)), hadoop.Path(target.format(tmp_path)))

    assert list(tmp_path.rglob("x.*")) == []


def _rename_tables(snapshot: Path, name: str) -> None:
    """Let a snapshot of Spark's state name another place for its tables, as a writer to the bucket can."""
    with zipfile.ZipFile(snapshot) as archive:
        bodies = {entry: archive.read(entry) for entry in archive.namelist()}
    version, _, text = bodies["metadata"].decode().partition("\n")
    metadata = json.loads(text)
    for table in metadata["sstFiles"]:
        table["localFileName"] = name
    with zipfile.ZipFile(snapshot, "w") as archive:
        for entry, body in {**bodies, "metadata": f"{version}\n{json.dumps(metadata)}".encode()}.items():
            archive.writestr(entry, body)


def test_an_activation_ends_the_reading(world: World) -> None:
    ahead = read_ahead.ReadAhead(world.spark)

    assert ahead.follow(world.root, [world.entry], stops=lambda: True).kept_bytes == 0


def test_a_query_goes_on_from_small_files_that_were_fetched_before_spark_asked(world: World) -> None:
    early = early_state.EarlyState(world.store, [world.entry])

    fetched = early.offer(world.spark).result(30)
    world.spoil_state()

    assert fetched == len(world.state)
    assert world.run_on(2) > world.batch
