"""A job that starts from the state of another one, in front of the same sink: it is asked, and nothing is guessed.

A job that was renamed, a test job from a savepoint of production, and a second job that shares no history with the first, in
front of a sink that withdraws (files) and of one that has a marker for each name (a ledger, as Kafka, PostgreSQL and Iceberg
keep it), with and without the word.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from restores import a_restore
from sinkcontexts import a_written_query
from sinkdrivers import JOB, NAMED, OUTPUT, QUERY, ROWS, Driver, MemoryFiles, visible
from snapshots import Clock, Job
from statefulspark import errors
from statefulspark.contract import config, rights
from statefulspark.contract.rights import SinkRight
from statefulspark.driver.starting import sink_comparison, start_parts
from statefulspark.recovery import recovery
from statefulspark.sinks import marker
from statefulspark.sinks.base import SinkContext
from statefulspark.storage import StorageOptions
from statefulspark.testing import stores
from toldsinks import SilentSink

OTHER, THIRD = "default/renamed", "default/third"


@dataclass
class Ledger:
    """A sink that appends in transactions which also move its marker, one marker for each name."""

    rows: list[int] = field(default_factory=list)
    markers: dict[str, marker.Marker] = field(default_factory=dict)
    target: str = "memory://ledger"
    dies_after_opening: str | None = None

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        return json.dumps([value for batch in batches for value in batch["value"].to_pylist()]).encode()

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        return json.dumps([value for part in parts for value in json.loads(part)]).encode()

    def stored_marker(self, context: SinkContext) -> marker.Marker | None:
        return self.markers.get(context.transactional_id)

    def open(self, context: SinkContext) -> None:
        stored = self.stored_marker(context)
        self.markers[context.transactional_id] = marker.open_marker(stored, context, "the ledger")
        if context.job == self.dies_after_opening:
            raise KeyboardInterrupt

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        reached = marker.require_newest(self.stored_marker(context), context, "the ledger")
        if not reached.covers(context):
            self.rows += json.loads(transaction)
            self.markers[context.transactional_id] = reached.after(context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        pass


class World:
    """One bucket, one sink, and drivers of jobs of several names."""

    def __init__(self, kind: str) -> None:
        self.clock = Clock()
        self.bucket = stores.MemoryStore("memory://bucket", self.clock)
        self.ledger = Ledger() if kind == "ledger" else None

    def driver(self, job: str = JOB, *, there: bool = False, sink_uid: str = "out", **restore: object) -> Driver:
        """Start a job; `there` if it writes to a target of its own."""
        sink = (Ledger(target="memory://there") if self.ledger else self.elsewhere) if there else self.ledger
        config = a_restore(**restore)  # type: ignore[arg-type]
        return Driver(self.bucket, self.clock, config, sink=sink, job=job, sink_uid=sink_uid)

    @property
    def elsewhere(self) -> MemoryFiles:
        return MemoryFiles("memory://there", compression="none", folder=self.bucket.child("there").child(OUTPUT))

    @property
    def values(self) -> list[int]:
        """What a reader sees, in order."""
        if self.ledger is not None:
            return list(self.ledger.rows)
        return [value for value, _ in visible(self.bucket)]

    def backup(self) -> Callable[[], None]:
        """Return what puts the target back to this moment."""
        if self.ledger is not None:
            ledger, kept = self.ledger, (list(self.ledger.rows), dict(self.ledger.markers))

            def put_back() -> None:
                ledger.rows, ledger.markers = kept

            return put_back
        bodies = self.bucket._objects.bodies
        before = {key: body for key, body in bodies.items() if key.startswith(OUTPUT)}

        def put_folder_back() -> None:
            for key in [key for key in bodies if key.startswith(OUTPUT)]:
                del bodies[key]
            bodies.update(before)

        return put_folder_back

    @property
    def target(self) -> tuple[object, ...]:
        """All that is in the target."""
        if self.ledger is not None:
            return (*self.ledger.rows, *sorted(self.ledger.markers.items()))
        return tuple(sorted((info.key, info.etag) for info in self.bucket.list(OUTPUT)))


def rows(*batches: int) -> list[int]:
    """Return the rows of batches, which depend on the batch's number alone."""
    return [batch * ROWS + row for batch in batches for row in range(ROWS)]


@pytest.fixture(params=["files", "ledger"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def the_first_job(world: World) -> tuple[Driver, str]:
    """Return a driver with the batches 0 to 3 committed and 4 prepared, and a savepoint of it."""
    old = world.driver()
    old.batch(4)
    old.checkpoint()
    old.batch(1)
    return old, old.savepoint()


@pytest.mark.parametrize("word", [False, True], ids=["without the word", "with the word"])
def test_a_check_and_a_standby_say_it_before_the_old_job_is_stopped(world: World, word: bool) -> None:
    _, snapshot = the_first_job(world)
    before = world.target
    restore = a_restore(snapshot=snapshot, repeat_output_of=NAMED if word else ())
    storage = config.StorageConfig(uri="s3://bucket")
    job_config = config.JobConfig(name="renamed", storage=storage, restore=restore, owner_id="uid")
    job = Job(world.clock).on(world.bucket)
    store = world.bucket.child(OTHER)
    start_plan = recovery.plan_recovery(store, restore=restore, open_store=job.open_store)
    sink = world.ledger or MemoryFiles("memory://bucket/output", folder=world.bucket.child(OUTPUT))
    outputs = {QUERY: a_written_query(sink)}
    refused = pytest.raises(errors.SpecRejectedError, match="SinkOfAnotherJob")
    with contextlib.nullcontext() if word else refused:
        sink_comparison.require_contained(job_config, start_parts.JobRoot(store, StorageOptions()), start_plan, outputs)
    assert world.target == before


def test_what_the_other_job_has_written_since_is_told_before_it_is_written_again(world: World) -> None:
    old, snapshot = the_first_job(world)
    old.batch(1)
    old.checkpoint()
    with pytest.raises(errors.SpecRejectedError, match=r"batch 5.*so the sink then writes it once more"):
        world.driver(OTHER, snapshot=snapshot)
    new = world.driver(OTHER, snapshot=snapshot, repeat_output_of=NAMED)
    new.batch(2)
    new.checkpoint()
    assert sorted(world.values) == sorted(rows(*range(7)) + (rows(5) if world.ledger else []))


def test_a_job_that_is_renamed_again_and_back_repeats_nothing(world: World) -> None:
    _, snapshot = the_first_job(world)
    for job in (OTHER, THIRD, OTHER, JOB):
        with pytest.raises(errors.SpecRejectedError, match="SinkOfAnotherJob"):
            world.driver(job, snapshot=snapshot)
        driver = world.driver(job, snapshot=snapshot, repeat_output_of=NAMED)
        driver.batch(1)
        driver.checkpoint()
        driver.batch(1)
        snapshot = driver.savepoint()
    driver.checkpoint()
    assert world.values == rows(*range(13))


def test_a_job_whose_folder_was_moved_to_another_name_and_back_goes_on_in_front_of_its_sink(world: World) -> None:
    """The folder of the job is moved, so the second move back finds rows that the first job has written itself."""
    old = world.driver()
    old.batch(3)
    old.checkpoint()
    last = old
    for source, target in ((JOB, OTHER), (OTHER, JOB)):
        moved = {info.key: world.bucket.read(info.key) for info in world.bucket.list(source)}
        world.bucket.delete_many([info.key for info in world.bucket.list(target)])
        for key, body in moved.items():
            world.bucket.write(target + key.removeprefix(source), body)
        last = world.driver(target, repeat_output_of=NAMED, takes_over_as=target)
    last.batch(1)
    last.checkpoint()
    assert world.values == rows(*range(4))


def test_a_driver_that_dies_between_both_names_is_followed_by_one_that_needs_no_word() -> None:
    world = World("ledger")
    _, snapshot = the_first_job(world)
    assert world.ledger is not None
    world.ledger.dies_after_opening = JOB
    with pytest.raises(KeyboardInterrupt):
        world.driver(OTHER, snapshot=snapshot, repeat_output_of=NAMED)
    world.ledger.dies_after_opening = None
    new = world.driver(OTHER)
    new.batch(1)
    new.checkpoint()
    assert world.values == rows(*range(6))


def test_a_marker_of_the_other_job_that_is_lost_is_asked_for_by_what_the_savepoint_knows() -> None:
    world = World("ledger")
    _, snapshot = the_first_job(world)
    assert world.ledger is not None
    world.ledger.markers.clear()
    with pytest.raises(errors.SpecRejectedError, match=r"SinkOfAnotherJob.*the job default/flights") as refused:
        world.driver(OTHER, snapshot=snapshot)
    with pytest.raises(errors.StateUnknownError, match="SinkMarkerMissing"):
        world.driver(OTHER, snapshot=snapshot, repeat_output_of=NAMED)
    assert set(rights.offered(refused.value.message)) == {SinkRight.REPEAT, SinkRight.LOSE}
    new = world.driver(OTHER, snapshot=snapshot, repeat_output_of=NAMED, lose_output_of=NAMED)
    new.batch(1)
    new.checkpoint()
    assert world.values == rows(*range(6))


def test_rows_that_the_sink_of_the_other_job_has_lost_are_not_given_up_by_the_word_that_continues_it(
    world: World,
) -> None:
    """The word for a new name is written before anybody knows that the target has lost rows."""
    old, _ = the_first_job(world)
    put_back = world.backup()
    for _ in range(3):
        old.batch(2)
        old.checkpoint()
    snapshot = old.savepoint()
    put_back()

    with pytest.raises(errors.StateUnknownError, match="SinkBehind") as refused:
        world.driver(OTHER, snapshot=snapshot, repeat_output_of=NAMED)
    assert f"start with {rights.options({SinkRight.LOSE: NAMED})} (" in refused.value.message
    assert set(rights.offered(refused.value.message)) == set(SinkRight), "it has the first, and needs the second"
    assert world.values == rows(*range(4))

    new = world.driver(OTHER, snapshot=snapshot, repeat_output_of=NAMED, lose_output_of=NAMED)
    new.batch(1)
    new.checkpoint()
    assert world.values[-ROWS:] == rows(11)


def test_a_sink_that_has_all_the_state_knows_of_older_generations_is_continued(world: World) -> None:
    """The other job has gone back, and then further than the savepoint: all that its sink had is there."""
    old = world.driver()
    for _ in range(4):
        old.batch(1)
        older = old.checkpoint()
    old.batch(2)
    old.checkpoint()
    old = world.driver(snapshot=f"checkpoint:{older.id}", nonce="back")
    old.batch(1)
    snapshot = old.savepoint()
    old.checkpoint()
    old.batch(2)
    old.checkpoint()
    before = world.values

    new = world.driver(OTHER, snapshot=snapshot, repeat_output_of=NAMED)
    new.batch(1)
    new.checkpoint()

    assert world.values == (rows(*range(6)) if world.ledger is None else before + rows(5))


def test_a_sink_that_is_fenced_knows_which_batches_may_be_committed_again() -> None:
    """A folder looks for orphans whenever it is opened, and another copy may have committed their numbers."""
    world, opened = World("ledger"), list[tuple[str, int]]()

    class Told(Ledger):
        def open(self, context: SinkContext) -> None:
            opened.append((context.job, len(context.expected.written)))
            super().open(context)

    world.ledger = Told()
    _, snapshot = the_first_job(world)
    opened.clear()

    world.driver(OTHER, snapshot=snapshot, repeat_output_of=NAMED)

    assert opened == [(JOB, 5), (OTHER, 5)]


def test_a_sink_that_tells_no_target_begins_under_another_name_and_is_compared_from_then_on() -> None:
    clock = Clock()
    bucket, sink = stores.MemoryStore("memory://bucket", clock), SilentSink(visible="checkpoint")
    old = Driver(bucket, clock, sink=SilentSink(visible="checkpoint"))
    old.batch(2)
    old.checkpoint()
    new = Driver(bucket, clock, a_restore(snapshot=old.savepoint()), sink=sink, job=OTHER)
    for _ in range(2):
        new.batch(1)
        new.checkpoint()
    assert sink.shown == ["1/2", "1/3"]
    sink.marker = None
    with pytest.raises(errors.StateUnknownError, match="SinkMarkerMissing"):
        Driver(bucket, clock, sink=sink, job=OTHER)
