"""A sink's real system that goes back behind what a running job has committed: healed and told, or refused by name.

A database after a failover, a table of an older catalog, a folder from a backup, a consumer group whose offset was set back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import sinkworlds
from s3server import S3Server
from sinkdrivers import NAMED, Driver
from sinkworlds import SCHEMA, World
from snapshots import Clock
from statefulspark import errors, storage
from statefulspark.contract.config import RestoreConfig
from statefulspark.sinks.kafka import sink as kafka_sink
from statefulspark.storage import ObjectStore, StorageOptions

KINDS = ("files", "postgres", "iceberg")


@dataclass(frozen=True)
class Place:
    """A job's storage and the target of its sink."""

    world: World
    bucket: ObjectStore
    options: StorageOptions

    def start(self, restore: RestoreConfig | None = None, **settings: object) -> Driver:
        sink = sinkworlds.build({**self.world.recipe, **settings})
        return Driver(self.bucket, Clock(), restore, sink=sink, options=self.options, rows=_rows)


def _rows(batch: int, generation: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"id": [batch], "word": ["a"]}, SCHEMA)


@pytest.fixture
def place(request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> Place:
    options = s3.options()
    world = sinkworlds.of_kind(request.param, request, s3, tmp_path)
    return Place(world, storage.open_store(f"s3://{s3.new_bucket('state')}", options), options)


def run(driver: Driver, *checkpoints: int) -> None:
    """Run batches, so many to each checkpoint."""
    for batches in checkpoints:
        driver.batch(batches)
        commit(driver)


def commit(driver: Driver) -> None:
    driver.show()
    driver.checkpoint()


each_visibility = pytest.mark.parametrize("visible", ["checkpoint", "batch"])
each_right = pytest.mark.parametrize("right", [(), NAMED], ids=["begun without a right", "begun with a right"])


@each_visibility
@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_system_that_lost_more_than_is_kept_is_noticed_at_the_next_commit(place: Place, visible: str) -> None:
    driver = place.start(visible=visible)
    run(driver, 1)
    put_back = place.world.backup(driver.sink.context(0))
    run(driver, 1, 1, 1)
    put_back()
    driver.batch()
    with pytest.raises(errors.StateUnknownError, match=r"has batch 0 .*that it had batch 3") as running:
        commit(driver)
    with pytest.raises(errors.StateUnknownError, match=r"has batch 0 ") as started:
        place.start(visible=visible)

    assert (running.value.reason, started.value.reason) == ("SinkBehind", "SinkBehind")
    assert place.world.read() == [0]

    following = place.start(RestoreConfig(lose_output_of=NAMED), visible=visible)
    run(following, 1)
    assert place.world.read()[-1] == 5


@each_visibility
@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_system_that_lost_its_last_commits_gets_them_again(place: Place, visible: str) -> None:
    driver = place.start(visible=visible)
    run(driver, 2)
    put_back = place.world.backup(driver.sink.context(0))
    run(driver, 2)
    put_back()
    run(driver, 1)

    assert place.world.read() == [0, 1, 2, 3, 4]
    assert "was restored from a backup" in (driver.committer.statuses()[0].sent_again or "")


@each_right
@pytest.mark.parametrize("place", ["files"], indirect=True)
def test_a_folder_that_loses_what_waits_in_it_is_refused_also_while_a_driver_runs_that_began_with_a_right(
    place: Place, right: tuple[str, ...]
) -> None:
    """A right is about what was lost before the start."""
    folder = storage.open_store(str(place.world.recipe["uri"]), place.options)
    driver = place.start(RestoreConfig(lose_output_of=right))
    run(driver, 1)
    before = {info.key for info in folder.list("data")}
    driver.batch()
    folder.delete_many([info.key for info in folder.list("data") if info.key not in before])
    with pytest.raises(errors.StateUnknownError, match=r"Batch 1 of the sink .* is not committed") as refused:
        commit(driver)

    assert refused.value.reason == "StagedRowsMissing"
    assert place.world.read() == [0]


@each_visibility
@each_right
@pytest.mark.parametrize("place", ["kafka"], indirect=True)
def test_an_offset_that_was_set_back_is_never_taken_for_the_position(
    place: Place, right: tuple[str, ...], visible: str
) -> None:
    """Records and offsets go back apart from one another, so whether the records are there somebody has to look."""
    driver = place.start(RestoreConfig(repeat_output_of=right), visible=visible)
    run(driver, 1)
    set_back = place.world.backup(driver.sink.context(0))
    run(driver, 1)
    set_back()
    driver.batch()
    with pytest.raises(errors.StateUnknownError, match="has gone back: it lacks batch 1") as running:
        commit(driver)
    kafka_sink._sessions._open.clear()
    with pytest.raises(errors.StateUnknownError, match="has gone back: it lacks batch 1") as started:
        place.start(visible=visible)
    following = place.start(visible=visible, after_lost_marker="skip")
    run(following, 1)

    assert (running.value.reason, started.value.reason) == ("KafkaMarkerLost", "KafkaMarkerLost")
    assert place.world.read() == [0, 1, 2, 3]
