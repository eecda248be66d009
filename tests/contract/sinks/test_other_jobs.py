"""A job that starts from the state of another one, in front of the other one's real sink: asked, and never guessed.

Storage, the committer, recovery and the sink are the product's; Spark is its log entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import sinkworlds
from restores import a_restore
from s3server import S3Server
from sinkdrivers import JOB, NAMED, Driver
from sinkworlds import SCHEMA, World
from snapshots import Clock
from statefulspark import errors, storage
from statefulspark.sinks.base import SinkContext, TwoPhaseSink
from statefulspark.storage import ObjectStore, StorageOptions

KINDS = ("files", "kafka", "postgres", "iceberg")
RENAMED = "default/renamed"


@dataclass(frozen=True)
class Place:
    """The storage of jobs and the target of their sinks."""

    world: World
    bucket: ObjectStore
    options: StorageOptions

    @property
    def withdraws(self) -> bool:
        return self.world.recipe["kind"] == "files"

    def start(self, job: str = JOB, *, sink_uid: str = "out", **restore: object) -> Driver:
        config = a_restore(**restore)  # type: ignore[arg-type]
        return Driver(
            self.bucket,
            Clock(),
            config,
            sink=self.world.sink,
            sink_uid=sink_uid,
            options=self.options,
            rows=_rows,
            job=job,
        )

    def the_first_job(self) -> tuple[Driver, str]:
        """Return a driver with the batches 0 and 1 committed and 2 prepared, and a savepoint of it."""
        old = self.start()
        old.batch(2)
        old.checkpoint()
        old.batch(1)
        return old, old.savepoint()


def _rows(batch: int, _: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"id": [batch], "word": ["a"]}, SCHEMA)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> Place:
    options = s3.options()
    world = sinkworlds.of_kind(request.param, request, s3, tmp_path)
    return Place(world, storage.open_store(f"s3://{s3.new_bucket('state')}", options), options)


def test_a_renamed_job_is_refused_and_with_the_word_commits_once_what_was_prepared(place: Place) -> None:
    _, snapshot = place.the_first_job()
    with pytest.raises(
        errors.SpecRejectedError, match=r"has batch 1 .* of the job default/flights\. .*its own uid"
    ) as no:
        place.start(RENAMED, snapshot=snapshot)
    before = place.world.read()
    new = place.start(RENAMED, snapshot=snapshot, repeat_output_of=NAMED)
    taken = place.world.read()
    new.batch(1)
    new.checkpoint()
    again = place.start(RENAMED)
    again.batch(1)
    again.checkpoint()
    assert no.value.reason == "SinkOfAnotherJob"
    assert (before, taken, place.world.read()) == ([0, 1], [0, 1, 2], [0, 1, 2, 3, 4])


def test_a_job_that_was_continued_under_another_name_writes_nothing_any_more(place: Place) -> None:
    old, snapshot = place.the_first_job()
    place.start(RENAMED, snapshot=snapshot, repeat_output_of=NAMED)
    with pytest.raises(errors.StatefulSparkError) as ended:
        old.checkpoint()
    with pytest.raises(errors.SpecRejectedError) as refused:
        place.start()
    expected = ("SinkFolderTaken",) * 2 if place.withdraws else ("Fenced", "SinkTaken")
    assert (ended.value.reason, refused.value.reason) == expected
    assert place.world.read() == [0, 1, 2]


def test_a_test_job_with_a_sink_uid_of_its_own_appends_and_the_first_job_goes_on(place: Place) -> None:
    old, snapshot = place.the_first_job()
    if place.withdraws:
        with pytest.raises(errors.SpecRejectedError, match="SinkFolderTaken"):
            place.start(RENAMED, snapshot=snapshot, sink_uid="mine", drop_state=("out",))
        return
    test = place.start(RENAMED, snapshot=snapshot, sink_uid="mine", drop_state=("out",))
    test.batch(1)
    test.checkpoint()
    old.batch(1)
    old.checkpoint()
    assert place.world.read() == [0, 1, 2, 3, 3]


def test_a_second_job_that_shares_no_history_is_not_asked(place: Place) -> None:
    old, _ = place.the_first_job()
    if place.withdraws:
        with pytest.raises(errors.SpecRejectedError, match="SinkFolderTaken"):
            place.start(RENAMED)
        return
    second = place.start(RENAMED)
    second.batch(1)
    second.checkpoint()
    old.checkpoint()
    assert place.world.read() == [0, 0, 1, 2]


def test_a_driver_that_died_between_both_names_is_followed_by_one_that_needs_no_word(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, snapshot = place.the_first_job()
    plain = type(place.world.sink).open

    def open_and_die(sink: TwoPhaseSink, context: SinkContext) -> None:
        plain(sink, context)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(type(place.world.sink), "open", open_and_die)
    with pytest.raises(KeyboardInterrupt):
        place.start(RENAMED, snapshot=snapshot, repeat_output_of=NAMED)
    monkeypatch.setattr(type(place.world.sink), "open", plain)
    new = place.start(RENAMED)
    own = new.sink.context(-1)
    names = (own,) if place.withdraws else (own, own.named(JOB))
    told = [place.world.sink.stored_marker(name) for name in names]  # type: ignore[attr-defined]
    new.batch(1)
    new.checkpoint()
    assert place.world.read() == [0, 1, 2, 3]
    assert [one.lost_at for one in told] == [None for _ in names]
