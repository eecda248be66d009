"""A job whose sink shows each batch, in front of the real system: seen without a checkpoint, and once whatever is killed.

Storage, the committer, recovery and the sink are the product's; Spark is its log entries. A driver that is dropped was
killed at that point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
import sinkworlds
from restores import a_restore
from s3server import S3Server
from sinkdrivers import NAMED, Driver
from sinkworlds import SCHEMA, World
from snapshots import Clock
from statefulspark import errors, storage
from statefulspark.contract.config import RestoreConfig
from statefulspark.sinks import visibility
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.kafka import sink as kafka_sink
from statefulspark.storage import ObjectStore, StorageOptions
from statefulspark.testing import stores

MARKED = ("kafka", "postgres", "iceberg")
KINDS = ("files", *MARKED)


@dataclass(frozen=True)
class Place:
    """A job's storage and the target of its sink."""

    world: World
    bucket: ObjectStore
    options: StorageOptions

    def start(self, restore: RestoreConfig | None = None, *, visible: str = "batch") -> Driver:
        sink = sinkworlds.build({**self.world.recipe, "visible": visible})
        return Driver(self.bucket, Clock(), restore, sink=sink, options=self.options, rows=_rows)

    def read(self) -> list[int]:
        return sorted(self.world.read())


def _rows(batch: int, generation: int) -> Iterator[pa.RecordBatch]:
    """Two rows of a batch, which tell in which generation they were written."""
    ids = [generation * 1000 + batch * 10 + number for number in range(2)]
    yield pa.RecordBatch.from_pydict({"id": ids, "word": ["a"] * 2}, SCHEMA)


def rows(generation: int, *batches: int) -> list[int]:
    return [generation * 1000 + batch * 10 + number for batch in batches for number in range(2)]


@pytest.fixture
def place(request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> Place:
    options = s3.options()
    world = sinkworlds.of_kind(request.param, request, s3, tmp_path)
    return Place(world, storage.open_store(f"s3://{s3.new_bucket('state')}", options), options)


every_sink = pytest.mark.parametrize("place", KINDS, indirect=True)
every_marked_sink = pytest.mark.parametrize("place", MARKED, indirect=True)


@every_sink
def test_a_batch_is_seen_before_any_checkpoint_and_once_after_kills_at_every_point(place: Place) -> None:
    driver = place.start()
    driver.batch()
    driver.show()
    seen = [place.read()]
    driver.batch()  # Killed after Spark's commit, before the sink's.
    driver = place.start()
    seen.append(place.read())
    driver.batch()
    record = driver.committer.sink(driver.sink.key)._progress.prepared[2]
    assert record.transaction is not None
    driver.sink.sink.commit(record.transaction.encode(), driver.sink.context_of(record))  # Killed before it is noted.
    driver = place.start()
    seen.append(place.read())
    driver.prepare()  # Killed before Spark's commit.
    driver = place.start()
    driver.batch()
    driver.show()
    driver.checkpoint()

    assert seen == [rows(1, 0), rows(1, 0, 1), rows(1, 0, 1, 2)]
    assert place.read() == rows(1, 0, 1, 2, 3)


@every_sink
def test_a_driver_that_was_replaced_between_sparks_commit_and_the_sinks_shows_nothing(place: Place) -> None:
    old = place.start()
    old.batch()
    new = place.start()
    taken_over = place.read()
    with pytest.raises(errors.FencedError):
        old.show()
    new.batch()
    new.show()

    assert taken_over == rows(1, 0)
    assert place.read() == rows(1, 0, 1)


@every_sink
def test_the_sink_itself_stops_a_driver_that_looked_for_a_newer_epoch_too_early(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked, was paused, and goes on after its successor has shown the batch and others."""
    old = place.start()
    old.batch()
    monkeypatch.setattr(old.committer.sink(old.sink.key), "_require_current", lambda: None)
    new = place.start()
    new.batch()
    new.show()
    with pytest.raises(errors.FencedError):
        old.show()

    assert place.read() == rows(1, 0, 1)


@every_marked_sink
def test_an_older_checkpoint_is_refused_and_with_the_word_its_future_is_shown_beside_the_old_one(place: Place) -> None:
    driver = place.start()
    driver.batch()
    older = driver.checkpoint()
    driver.batch(2)
    driver.show()
    restore = a_restore(snapshot=f"checkpoint:{older.id}", nonce="back")
    with pytest.raises(errors.SpecRejectedError, match="batch 2 \\(generation 1\\)") as raised:
        place.start(restore)
    refused = place.read()
    driver = place.start(restore.model_copy(update={"repeat_output_of": NAMED}))
    driver.batch()
    driver.show()
    driver = place.start()
    driver.batch()
    driver.show()

    assert raised.value.reason == "SinkAhead"
    assert refused == rows(1, 0, 1, 2)
    assert place.read() == [*rows(1, 0, 1, 2), *rows(2, 1, 2)]


@pytest.mark.parametrize("place", ["files"], indirect=True)
def test_an_older_checkpoint_withdraws_what_the_files_sink_has_shown_after_it(place: Place) -> None:
    driver = place.start()
    driver.batch()
    older = driver.checkpoint()
    driver.batch(2)
    driver.show()
    driver = place.start(a_restore(snapshot=f"checkpoint:{older.id}", nonce="back"))
    withdrawn = place.read()
    driver.batch()
    driver.show()

    assert withdrawn == rows(1, 0)
    assert place.read() == [*rows(1, 0), *rows(2, 1)]


@every_marked_sink
def test_a_sink_tells_what_it_has_shown_and_nobody_notices(place: Place) -> None:
    driver = place.start()
    sink, context = driver.sink.sink, driver.sink.context(-1)
    opened = sink.stored_marker(context)  # type: ignore[attr-defined]
    driver.batch(2)
    driver.show()
    shown = sink.stored_marker(replace(context, committing_epoch=99))  # type: ignore[attr-defined]
    driver.batch()
    driver.show()

    assert (opened.newest, shown.newest.generation, shown.newest.batch_id, shown.epoch) == (None, 1, 1, 1)
    assert place.read() == rows(1, 0, 1, 2)


@every_marked_sink
def test_an_earlier_batch_committed_again_on_a_new_connection_is_no_way_back(place: Place) -> None:
    """Kafka opens the sink anew for it, with the batch for a position that is behind what was shown."""
    driver = place.start()
    driver.batch()
    record = driver.committer.sink(driver.sink.key)._progress.prepared[0]
    driver.show()
    driver.batch()
    driver.show()
    kafka_sink._sessions._open.clear()
    assert record.transaction is not None
    driver.sink.sink.commit(record.transaction.encode(), driver.sink.context_of(record))

    assert place.read() == rows(1, 0, 1)


@every_marked_sink
@pytest.mark.parametrize("visible", ["checkpoint", "batch"])
def test_batches_that_wait_are_committed_in_one_transaction(
    place: Place, visible: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = place.start(visible=visible)
    commits = _noting_commits(driver, monkeypatch)
    driver.batch(3)
    driver.checkpoint()
    driver.batch()
    driver.checkpoint()

    assert commits == [(0, 2), (None, 3)]
    assert place.read() == rows(1, 0, 1, 2, 3)


@every_marked_sink
def test_batches_of_one_transaction_are_there_once_after_a_kill_that_hid_its_outcome(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next driver commits each of them alone, and the marker shows that they are there."""
    driver = place.start(visible="checkpoint")
    driver.batch(2)
    driver.checkpoint()
    driver.batch(3)
    commit = driver.sink.sink.commit

    def killed(transaction: bytes, context: SinkContext) -> None:
        commit(transaction, context)
        raise errors.StateUnknownError("Killed", "The driver ends here.")

    monkeypatch.setattr(driver.sink.sink, "commit", killed)
    with pytest.raises(errors.StateUnknownError, match="ends here"):
        driver.checkpoint()
    driver = place.start(visible="checkpoint")
    commits = _noting_commits(driver, monkeypatch)
    driver.batch(2)
    driver.checkpoint()

    assert commits == [(5, 6)]
    assert place.read() == rows(1, *range(7))


@pytest.mark.parametrize("place", ["postgres", "iceberg"], indirect=True)
def test_batches_of_one_transaction_that_the_sink_has_lost_are_committed_again(place: Place) -> None:
    driver = place.start(visible="checkpoint")
    driver.batch()
    driver.checkpoint()
    restore = place.world.backup(driver.sink.context(-1))
    driver.batch(3)
    driver.checkpoint()
    restore()
    driver.batch(2)
    driver.checkpoint()

    assert place.read() == rows(1, *range(6))


def _noting_commits(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, int]]:
    """Return a list that gets the first batch, if it is another one, and the last batch of each commit."""
    commits: list[tuple[int | None, int]] = []
    commit = driver.sink.sink.commit

    def noting(transaction: bytes, context: SinkContext) -> None:
        commit(transaction, context)
        commits.append((context.merged_from, context.batch_id))

    monkeypatch.setattr(driver.sink.sink, "commit", noting)
    return commits


@every_marked_sink
def test_a_sink_that_was_never_opened_has_shown_nothing(place: Place) -> None:
    sink = sinkworlds.build({**place.world.recipe, "visible": visibility.Visibility.BATCH})
    assert sink.stored_marker(place.world.at(-1)) is None  # type: ignore[attr-defined]


@every_sink
@pytest.mark.parametrize(("before", "after"), [("batch", "checkpoint"), ("checkpoint", "batch")])
def test_an_upgrade_changes_the_visibility_with_transactions_in_flight(place: Place, before: str, after: str) -> None:
    driver = place.start(visible=before)
    driver.batch()
    driver.checkpoint()
    driver.batch(2)
    driver = place.start(visible=after)
    upgraded = place.read()
    driver.batch()
    driver.show()
    shown = place.read()
    driver.checkpoint()

    assert upgraded == rows(1, 0, 1, 2)
    assert shown == rows(1, 0, 1, 2, *([3] if after == "batch" else []))
    assert place.read() == rows(1, 0, 1, 2, 3)


@every_sink
@pytest.mark.parametrize("visible", ["checkpoint", "batch"])
def test_a_copy_of_the_state_meets_the_sink_of_the_first_one(place: Place, visible: str) -> None:
    """Both have one lineage and one epoch, and only the claims are different."""
    driver = place.start(visible=visible)
    driver.batch()
    driver.checkpoint()
    copy = stores.MemoryStore(place.bucket.uri)
    for info in place.bucket.list(""):
        copy.write(info.key, place.bucket.read(info.key))
    here = place.start(visible=visible)
    with pytest.raises(errors.SpecRejectedError, match="another copy of it runs elsewhere") as refused:
        replace(place, bucket=copy).start(visible=visible)
    here.batch()
    here.checkpoint()

    assert refused.value.reason == "SinkOpenedElsewhere"
    assert place.read() == rows(1, 0, 1)
