"""The rig itself: each kind of harm, done on purpose, is seen by the oracle; else its silence would mean nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest import mock

import pyarrow as pa
import pytest
from faultrig import drivers, engine, faults, ledger, truth
from faultrig.world import World
from restores import a_restore
from statefulspark.checkpoint import epochs
from statefulspark.contract import layout
from statefulspark.recovery import head
from statefulspark.retention import rules
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.files import commits as files_commits
from statefulspark.sinks.files import publishing
from statefulspark.sinks.files.sink import FilesMachine

Plant = Callable[[World], contextlib.AbstractContextManager[object]]
Story = Callable[[World], None]


def works(world: World) -> None:
    """A driver that runs a few batches and checkpoints."""
    driver = world.start()
    for _ in range(5):
        world.settle(driver, count=3)
        world.clock.forward(200)


def dies_and_comes_back(world: World) -> None:
    """A driver that dies after its checkpoint, before its sinks have heard of it."""
    driver = world.start()
    world.batches(driver, 3)
    driver.arm(faults.Kind.KILL_AFTER, matches="ledger", name="commit")
    world.checkpoint(driver)
    world.settle(world.start())


def dies_between_checkpoints(world: World) -> None:
    """A driver that dies with committed batches that no checkpoint covers."""
    driver = world.start()
    world.settle(driver)
    world.batches(driver, 3)
    world.kill(driver)
    before = world.head()
    successor = world.start()
    if successor.found != before:
        world.fail(f"{successor.name} begins at {successor.found} instead of {before}")
    world.settle(successor)


def goes_back(world: World) -> None:
    """A job that is taken back to its first checkpoint."""
    driver = world.start()
    world.settle(driver, count=2)
    world.settle(driver, count=2)
    world.kill(driver)
    world.settle(world.start(world.wish(restore=a_restore(snapshot="checkpoint:1"))))


def meets_a_rival(world: World) -> None:
    """Two drivers at once: the first one has to notice."""
    older = world.start()
    world.settle(older)
    world.start()
    world.batches(older)
    if not older.has_ended:
        world.fail(f"{older.name} goes on")
    world.judge()


def loses_rows_of_files(world: World) -> contextlib.AbstractContextManager[object]:
    honest = FilesMachine.write_part

    def write_part(sink: FilesMachine, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        return honest(sink, (batch.slice(1) for batch in batches), context)

    return mock.patch.object(FilesMachine, "write_part", write_part)


def loses_rows_of_the_ledger(world: World) -> contextlib.AbstractContextManager[object]:
    honest = ledger.LedgerSink._append
    return mock.patch.object(ledger.LedgerSink, "_append", lambda sink, rows, where: honest(sink, rows[1:], where))


def forgets_what_the_ledger_has(world: World) -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(ledger.marker.Marker, "covers", return_value=False)


def miscounts(world: World) -> contextlib.AbstractContextManager[object]:
    def next_state(batch: engine._Batch) -> truth.State:
        return {**honest(batch), "3": [1, 1]}

    honest = engine._Batch._next_state
    return mock.patch.object(engine._Batch, "_next_state", next_state)


def skips_the_look_at_the_fence(world: World) -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(epochs, "require_current")


def has_no_fence_in_the_engine(world: World) -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(engine.Fence, "check")


def prunes_what_is_needed(world: World) -> contextlib.AbstractContextManager[object]:
    honest = rules._Rules.reason_to_keep

    def reason_to_keep(rules: rules._Rules, info: object) -> str | None:
        return None if info.key.endswith(".changelog") else honest(rules, info)  # type: ignore[attr-defined]

    return mock.patch.object(rules._Rules, "reason_to_keep", reason_to_keep)


def overlooks_committed_batches(world: World) -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(head, "inspect", return_value=head.Head((), is_newer=True, problem="not looked at"))


def withdraws_nothing(world: World) -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(publishing, "withdraw", return_value=())


def publishes_without_its_files(world: World) -> contextlib.AbstractContextManager[object]:
    honest = publishing.publish

    def publish(store: faults.RigStore, transaction: bytes, context: SinkContext) -> None:
        honest(store, transaction, context)
        store.delete_many([file.path for file in files_commits.PreparedFiles.parse(transaction, "").files[:1]])

    return mock.patch.object(publishing, "publish", publish)


def leaves_a_batch_out(world: World) -> contextlib.AbstractContextManager[object]:
    honest = publishing.publish

    def publish(store: faults.RigStore, transaction: bytes, context: SinkContext) -> None:
        if context.batch_id != 1:
            honest(store, transaction, context)

    return mock.patch.object(publishing, "publish", publish)


def has_no_conditional_create(world: World) -> contextlib.AbstractContextManager[object]:
    """Conditions hold for the owner's record alone, by which a start tries the store."""
    create = faults.RigStore.create

    def write(store: faults.RigStore, key: str, body: bytes) -> None:
        (create if key.endswith(layout.OWNER) else faults.RigStore.write)(store, key, body)

    return mock.patch.object(faults.RigStore, "create", write)


HARM = [
    pytest.param(loses_rows_of_files, works, "out lacks", id="a record is dropped from a file"),
    pytest.param(loses_rows_of_the_ledger, works, "the ledger lacks", id="a record is dropped from the ledger"),
    pytest.param(forgets_what_the_ledger_has, dies_and_comes_back, "the ledger repeats", id="a commit is repeated"),
    pytest.param(miscounts, works, "and should be", id="a count is wrong"),
    pytest.param(skips_the_look_at_the_fence, works, "without a look at the fence", id="nobody looks at the fence"),
    pytest.param(has_no_fence_in_the_engine, meets_a_rival, "goes on", id="the engine has no fence"),
    pytest.param(prunes_what_is_needed, works, "which is not there any more", id="pruning takes a needed file"),
    pytest.param(
        overlooks_committed_batches, dies_between_checkpoints, "begins at", id="a start overlooks committed batches"
    ),
    pytest.param(withdraws_nothing, goes_back, "too much", id="nothing is withdrawn"),
    pytest.param(publishes_without_its_files, works, "which does not exist", id="a commit names a missing file"),
    pytest.param(leaves_a_batch_out, works, "has lost what it had", id="a batch is left out"),
    pytest.param(has_no_conditional_create, meets_a_rival, "overwrites", id="creates are not conditional"),
]


@pytest.mark.parametrize(("plant", "story", "seen"), HARM)
def test_harm_is_seen(plant: Plant, story: Story, seen: str, world: World) -> None:
    with plant(world), pytest.raises(AssertionError, match=f"(?s)^[^\n]*{seen}.*seed 0"):
        story(world)


@pytest.mark.parametrize("story", [works, dies_and_comes_back, dies_between_checkpoints, goes_back, meets_a_rival])
def test_without_harm_nothing_is_seen(story: Story, world: World) -> None:
    story(world)


def test_a_manifest_of_a_successor_must_not_be_deleted(world: World) -> None:
    older = world.start()
    world.freeze(older)
    newer = world.start()
    world.settle(newer)
    key = "a/default/flights/checkpoints/00000001/_metadata.json"
    older.is_frozen = False
    older.spawn("harm", lambda: older.store().delete_many([key]))
    world.rest()

    with pytest.raises(AssertionError, match=r"driver 1 \(epoch 1\) deletes .*/00000001/_metadata.json of epoch 2"):
        world.judge()


def test_an_epoch_must_not_be_claimed_twice(world: World) -> None:
    first, second = world.start(), world.start()
    second.epoch = first.epoch

    with pytest.raises(AssertionError, match="claimed twice"):
        world.judge()


def test_a_crash_of_our_own_code_is_no_ending(world: World) -> None:
    driver = world.start()
    driver.wish = replace(driver.wish, area="elsewhere")
    driver.spawn("harm", [].pop)
    world.rest()

    with pytest.raises(AssertionError, match="IndexError"):
        world.judge()


def test_a_fault_happens_once_and_where_it_was_planned(world: World) -> None:
    driver = world.begin(arm=lambda one: one.arm(faults.Kind.KILL_AFTER, after=1, matches="/offsets/"))
    world.until_up(driver)
    world.batches(driver, 3)

    assert driver.outcome == "killed"
    offsets = [info.key for info in world.bucket.list("") if "/offsets/" in info.key]
    assert len(offsets) == 2
    assert world.start().found.keys() == set(drivers.QUERIES)
