"""A driver with a files sink killed at every write that it makes: the reader sees each record once, at every moment.

The writes are counted by a dry run, so that a new one cannot be forgotten. At each the process dies before the write, or
right after it. Spark is played by `sparkroot.FakeQuery`; the rest of the driver is the product's own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from restores import a_restore
from sinkdrivers import OUTPUT, ROWS, Driver, expected, visible
from snapshots import Clock
from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.sinks.files import commits as files_commits
from statefulspark.sinks.files import orphans as files_orphans
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

pytestmark = pytest.mark.slow

WRITES = frozenset({"write", "create", "copy", "delete"})
BACK = a_restore(snapshot="checkpoint:1")
FORWARD = a_restore(snapshot="checkpoint:3", nonce="forward")
BESIDE = "beside"
"""The folder of a second sink of the query."""
_RANDOM = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What of a name differs in each process that collects the tests."""

Story = Callable[[ObjectStore, Clock], None]


def begin(bucket: ObjectStore, clock: Clock) -> None:
    """The first life of a job: three checkpoints, one of them over two batches, and a batch that none covers."""
    driver = Driver(bucket, clock)
    driver.batch()
    driver.checkpoint()
    driver.batch(2)
    driver.checkpoint()
    driver.batch()


def go_on(bucket: ObjectStore, clock: Clock) -> None:
    """A restart: what was committed by Spark is salvaged, and the job goes on."""
    driver = Driver(bucket, clock)
    driver.batch()
    driver.checkpoint()


def go_back(bucket: ObjectStore, clock: Clock) -> None:
    """A start from an older checkpoint, as a user asks for it: what came after it has never been."""
    driver = Driver(bucket, clock, BACK)
    driver.batch(2)
    driver.checkpoint()


def live_long(bucket: ObjectStore, clock: Clock) -> None:
    """Three checkpoints; the last one names the transactions of the latest three of five batches."""
    driver = Driver(bucket, clock)
    for batches in (2, 2, 1):
        driver.batch(batches)
        driver.checkpoint()


def begin_anew(bucket: ObjectStore, clock: Clock) -> None:
    """A start with empty state, which turns out to be a mistake."""
    driver = Driver(bucket, clock, a_restore(empty=True, nonce="by mistake"))
    for batches in (3, 4):
        driver.batch(batches)
        driver.checkpoint()


def come_forward(bucket: ObjectStore, clock: Clock) -> None:
    """A start from the last checkpoint of the life that was left."""
    driver = Driver(bucket, clock, FORWARD)
    driver.batch()
    driver.checkpoint()


def after(*stories: Story) -> stores.MemoryStore:
    bucket = stores.MemoryStore("memory://bucket", Clock())
    for story in stories:
        story(bucket, Clock())
    return bucket


def crashes(story: Story, *before: Story) -> list[pytest.param]:  # type: ignore[valid-type]
    """Return a plan for the death before and after every write of a story."""
    counting = stores.FaultyStore(after(*before), stores.Plan(only=WRITES))
    story(counting, Clock())
    plan = stores.Plan(only=WRITES)
    return [
        pytest.param(died, id=f"{when} {operation.number}: {operation.name} {_RANDOM.sub('*', operation.key)}")
        for operation in counting.operations
        for when, died in (
            ("before", replace(plan, crash_before=operation.number)),
            ("after", replace(plan, crash_after=operation.number)),
        )
    ]


def killed(story: Story, plan: stores.Plan, bucket: stores.MemoryStore) -> None:
    with contextlib.suppress(stores.CrashPoint):
        story(stores.FaultyStore(bucket, plan), Clock())


@pytest.mark.parametrize("plan", crashes(begin))
def test_a48_killed_in_its_first_life_each_record_is_read_once(plan: stores.Plan) -> None:
    """A.47, A.101: before, during and after prepare, checkpoint and commit."""
    bucket = after()
    killed(begin, plan, bucket)
    left = visible(bucket)

    successor = Driver(bucket, Clock())
    recovered = visible(bucket)
    successor.batch(2)
    successor.checkpoint()

    assert left == expected((1, 3))[: len(left)]
    assert recovered[: len(left)] == left, "what was visible stays visible"
    assert visible(bucket) == expected((successor.plan.generation, successor.query.batch + 1))


def with_two_sinks(bucket: ObjectStore, clock: Clock) -> None:
    """The first life of a job whose query writes to two sinks."""
    driver = Driver(bucket, clock, beside=BESIDE)
    driver.batch()
    driver.checkpoint()
    driver.batch(2)
    driver.checkpoint()
    driver.batch()


@pytest.mark.parametrize("plan", crashes(with_two_sinks))
def test_a48_killed_between_two_sinks_of_a_query_each_record_is_read_once_from_both(plan: stores.Plan) -> None:
    """Also between the records of one batch, and between their commits of one checkpoint."""
    bucket = after()
    killed(with_two_sinks, plan, bucket)
    left = {folder: visible(bucket, folder) for folder in (OUTPUT, BESIDE)}

    successor = Driver(bucket, Clock(), beside=BESIDE)
    recovered = {folder: visible(bucket, folder) for folder in left}
    successor.batch(2)
    successor.checkpoint()

    assert recovered[OUTPUT] == recovered[BESIDE], "a start commits for both what its state has"
    for folder, rows in left.items():
        assert recovered[folder][: len(rows)] == rows, "what was visible stays visible"
        assert visible(bucket, folder) == expected((successor.plan.generation, successor.query.batch + 1))


def test_a_second_sink_begins_with_the_batches_after_it_was_added() -> None:
    bucket = after(begin)

    driver = Driver(bucket, Clock(), beside=BESIDE)
    driver.batch()
    driver.checkpoint()

    assert visible(bucket) == expected((1, 5))
    assert visible(bucket, BESIDE) == expected((1, 5))[4 * ROWS :]


@pytest.mark.parametrize("sink", ["out", "beside"])
def test_a_lost_record_of_one_of_two_sinks_is_noticed(sink: str) -> None:
    bucket = after(with_two_sinks)
    [lost] = [info.key for info in bucket.list("") if f"/prepared/{sink}/{3:08}-" in info.key]
    bucket.delete_many([lost])

    again = Driver(bucket, Clock(), beside=BESIDE)
    again.batch(2)
    again.checkpoint()

    assert [visible(bucket, folder) for folder in (OUTPUT, BESIDE)] == [expected((1, 3), (2, 2))] * 2


@pytest.mark.parametrize("plan", crashes(go_on, begin))
def test_a48_killed_while_it_recovers_each_record_is_read_once(plan: stores.Plan) -> None:
    """A second death, in the start that commits what the first left prepared."""
    bucket = after(begin)
    killed(go_on, plan, bucket)
    left = visible(bucket)

    successor = Driver(bucket, Clock())
    successor.batch()
    successor.checkpoint()

    assert left == expected((1, 5))[: len(left)]
    assert len(left) >= 3 * ROWS
    assert visible(bucket) == expected((1, successor.query.batch + 1))


@pytest.mark.parametrize("plan", crashes(go_back, begin))
def test_killed_while_it_goes_back_the_reader_sees_one_history(plan: stores.Plan) -> None:
    """Batches after the cut are withdrawn and produced anew; no gap, no mixture of the two futures at any moment."""
    bucket = after(begin)
    killed(go_back, plan, bucket)
    left = visible(bucket)

    successor = Driver(bucket, Clock(), BACK)
    successor.batch()
    successor.checkpoint()

    new = len([row for row in left if row[1] > 1]) // ROWS
    old = batches_of_generation(left, 1)
    generation = successor.plan.generation
    assert left in (expected((1, old)), expected((1, 1), (generation, new)))
    assert visible(bucket) == expected((1, 1), (generation, successor.query.batch))


@pytest.mark.parametrize("plan", crashes(come_forward, live_long, begin_anew))
def test_killed_while_it_comes_back_to_what_it_had_left_the_reader_sees_one_history(plan: stores.Plan) -> None:
    """Commits that were withdrawn, and whose transactions no snapshot names any more, are there again."""
    bucket = after(live_long, begin_anew)
    killed(come_forward, plan, bucket)
    left = visible(bucket)

    successor = Driver(bucket, Clock(), FORWARD)
    successor.batch()
    successor.checkpoint()

    old, anew = batches_of_generation(left, 1), batches_of_generation(left, 2)
    assert left[: 5 * ROWS] in (expected((1, old)), expected((2, anew))[: 5 * ROWS])
    generation = successor.plan.generation
    assert visible(bucket) == expected((1, 5), (generation, successor.query.batch - 4))


def test_the_files_of_withdrawn_commits_outlive_the_transactions_that_are_given_up() -> None:
    bucket = after(live_long, begin_anew)

    listed = [file.path for batch in range(5) for one in withdrawn(bucket, batch) for file in one.files]
    assert len(listed) == 5
    assert all(bucket.info(f"{OUTPUT}/{path}") for path in listed)


def test_a_start_that_misses_a_withdrawn_file_is_refused_and_nothing_is_withdrawn() -> None:
    bucket = after(live_long, begin_anew)
    (lost,) = withdrawn(bucket, 0)
    bucket.delete_many([f"{OUTPUT}/{file.path}" for file in lost.files])

    with pytest.raises(errors.StateUnknownError, match=r"SinkBehind.*has batch 6 \(generation 2\)"):
        Driver(bucket, Clock(), FORWARD)

    assert visible(bucket) == expected((2, 7))


def withdrawn(bucket: ObjectStore, batch: int) -> tuple[files_commits.BatchCommit, ...]:
    return files_commits.read_withdrawn(bucket.child(OUTPUT), batch)


def batches_of_generation(rows: list[tuple[int, int]], generation: int) -> int:
    return sum(row[1] == generation for row in rows) // ROWS


def test_what_an_attempt_left_that_spark_did_not_commit_is_given_up() -> None:
    """A prepared transaction after the restored cut is aborted, once a checkpoint covers its batch without it."""
    bucket = after(begin)
    dying = Driver(bucket, Clock())
    dying.prepare()
    listed = {info.key for info in bucket.list(f"{OUTPUT}/{files_orphans.DATA}")}

    successor = Driver(bucket, Clock())
    successor.batch()
    kept = {info.key for info in bucket.list(f"{OUTPUT}/{files_orphans.DATA}")}
    successor.checkpoint()

    assert listed < kept, "a driver that was replaced may still win the batch until the checkpoint is complete"
    left = {info.key for info in bucket.list(f"{OUTPUT}/{files_orphans.DATA}")}
    named = {
        f"{OUTPUT}/{file.path}" for commit in files_commits.read_commits(bucket.child(OUTPUT)) for file in commit.files
    }
    assert left == named
    assert visible(bucket) == expected((1, 5))


def test_what_is_prepared_for_a_future_that_was_left_is_given_up() -> None:
    bucket = after()
    first = Driver(bucket, Clock())
    first.batch()
    first.checkpoint()
    first.batch(2)
    left_behind = first.complete()  # And dies before its sinks commit.

    back = Driver(bucket, Clock(), BACK)
    back.batch()
    back.checkpoint()
    kept = [info.key for info in bucket.list(f"{OUTPUT}/{files_orphans.DATA}")]
    first.job.store.delete_many([layout.checkpoint_manifest(left_behind.id)])
    back.batch()
    back.checkpoint()

    assert len(kept) == 4, "a checkpoint of that future names them, and can be gone to"
    left = [info.key for info in bucket.list(f"{OUTPUT}/{files_orphans.DATA}")]
    assert len(left) == 3
    assert visible(bucket) == expected((1, 1), (back.plan.generation, 2))


def test_a_future_that_was_left_is_gone_forward_to_again_and_every_listed_file_is_there() -> None:
    """Neither a sweep nor an abort takes the files of what a savepoint of another generation has prepared."""
    bucket = stores.MemoryStore("memory://bucket", Clock())
    left = Driver(bucket, Clock())
    left.batch(2)
    left.checkpoint()
    left.batch(2)
    left.checkpoint()
    left.batch(3)
    savepoint = left.savepoint()
    back = Driver(bucket, Clock(), BACK)
    back.batch(6)
    back.checkpoint()
    Driver(bucket, Clock())  # It sweeps: all files are older than an hour by the real clock.

    Driver(bucket, Clock(), a_restore(snapshot=savepoint, nonce="forward"))

    assert visible(bucket) == expected((1, 7))


def test_files_that_somebody_removed_are_not_listed_by_a_later_generation() -> None:
    bucket = stores.MemoryStore("memory://bucket", Clock())
    left = Driver(bucket, Clock())
    left.batch()
    left.checkpoint()
    left.batch()
    savepoint = left.savepoint()
    Driver(bucket, Clock(), BACK)
    files = (info.key for info in bucket.list(f"{OUTPUT}/{files_orphans.DATA}"))
    bucket.delete_many([key for key in files if "/00000001-" in key])

    with pytest.raises(errors.StateUnknownError, match="StagedRowsMissing"):
        Driver(bucket, Clock(), a_restore(snapshot=savepoint, nonce="forward"))

    assert visible(bucket) == expected((1, 1))
