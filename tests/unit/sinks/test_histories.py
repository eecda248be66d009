"""State, storage and sink that do not match, since something else than the job went back: told within one commit.

Storage, recovery, the committer and the markers are the product's; only Spark is its log entries. A store, a sink or both
are put back to an older moment, or there are two of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import sinkdrivers
from restores import a_restore
from sinkdrivers import NAMED, Driver
from snapshots import Clock
from statefulspark import errors
from statefulspark.contract import rights
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.rights import SinkRight
from statefulspark.recovery import generations
from statefulspark.storage import ObjectStore
from statefulspark.testing import stores
from toldsinks import MarkedSink, SilentSink

_wishes = itertools.count(1)
BOTH = pytest.mark.parametrize("visible", ["checkpoint", "batch"])
KINDS = pytest.mark.parametrize("kind", ["files", "marked", "silent"])

MARKED = {"marked": MarkedSink, "silent": SilentSink}
"""Sinks that withdraw nothing; of the silent one the runtime sees only what it raises."""


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", Clock())


def to(snapshot: str, *, takes_over: bool = False) -> RestoreConfig:
    return a_restore(snapshot=snapshot, nonce=f"history-{next(_wishes)}", repeat_output_of=NAMED if takes_over else ())


def anyway() -> RestoreConfig:
    return RestoreConfig(repeat_output_of=NAMED)


def without() -> RestoreConfig:
    return RestoreConfig(lose_output_of=NAMED)


class World:
    """A bucket with the state of the job, and a sink apart from it."""

    def __init__(self, kind: str, visible: str) -> None:
        self.clock = Clock()
        self.bucket = stores.MemoryStore("memory://bucket", self.clock)
        self.visible = visible
        self.marked = None if kind == "files" else MARKED[kind](visible=visible)
        self.folder = stores.MemoryStore("memory://output", self.clock)

    def start(self, restore: RestoreConfig | None = None, *, bucket: ObjectStore | None = None) -> Driver:
        sink = self.marked or sinkdrivers.MemoryFiles(
            "memory://output", compression="none", visible=self.visible, folder=self.folder
        )
        return Driver(bucket or self.bucket, self.clock, restore, sink=sink)

    def batches(self, driver: Driver, count: int) -> None:
        driver.batch(count)
        driver.show()

    def commit(self, driver: Driver) -> None:
        """Do what makes the batches of a driver visible."""
        driver.show()
        driver.checkpoint()

    def copied(self) -> stores.MemoryStore:
        """Return another site's copy of the state, under the same address."""
        copy = stores.MemoryStore("memory://bucket", self.clock)
        copy._objects.bodies.update(self.bucket._objects.bodies)
        return copy

    def put_back(self, to: stores.MemoryStore) -> None:
        self.bucket._objects.bodies.clear()
        self.bucket._objects.bodies.update(to._objects.bodies)

    def overlay(self, newer: stores.MemoryStore) -> None:
        """Copy another life of the root over this one, and delete nothing."""
        self.bucket._objects.bodies.update(newer._objects.bodies)

    def backup_of_sink(self) -> Callable[[], None]:
        """Return what puts the sink back to this moment."""
        if self.marked is not None:
            marked, kept = self.marked, (self.marked.marker, list(self.marked.shown))

            def restore() -> None:
                marked.marker, marked.shown[:] = kept

            return restore
        kept_files = dict(self.folder._objects.bodies)

        def restore_folder() -> None:
            bodies = self.folder._objects.bodies
            # The objects of rows were written once and stay; the commit files are as they were.
            for key in [key for key in bodies if not key.startswith("data/")]:
                del bodies[key]
            bodies.update({key: body for key, body in kept_files.items() if not key.startswith("data/")})

        return restore_folder

    @property
    def files(self) -> dict[int, tuple[str, ...]]:
        """The files of each batch that a reader of the folder sees."""
        commits = sinkdrivers.files_commits.read_commits(self.folder)
        return {one.batch_id: tuple(file.path for file in one.files) for one in commits}

    @property
    def shown(self) -> list[str]:
        """Generation and batch of everything that a reader sees."""
        if self.marked is not None:
            return list(self.marked.shown)
        commits = sinkdrivers.files_commits.read_commits(self.folder)
        return [f"{one.generation}/{one.batch_id}" for one in commits]


def seen(generation: int, *batches: int) -> list[str]:
    return [f"{generation}/{batch}" for batch in batches]


@KINDS
@BOTH
def test_state_that_was_put_back_under_its_address_drops_no_rows(kind: str, visible: str) -> None:
    world = World(kind, visible)
    driver = world.start()
    world.batches(driver, 3)
    driver.checkpoint()
    before = world.copied()
    world.batches(driver, 4)
    driver.checkpoint()
    world.put_back(before)

    if kind == "files":
        again = world.start()
        assert world.shown == seen(1, 0, 1, 2)
    else:
        with pytest.raises(
            errors.SpecRejectedError, match=r"has batch 6 \(generation 1\).*continue after batch 2"
        ) as refused:
            world.start()
        assert refused.value.reason == "SinkAhead"
        assert world.shown == seen(1, *range(7))
        again = world.start(anyway())
    world.batches(again, 2)
    again.checkpoint()

    assert world.shown == seen(1, *(range(5) if kind == "files" else [*range(7), 3, 4]))


@KINDS
@BOTH
def test_state_that_was_put_back_behind_a_start_is_refused_by_the_epochs(kind: str, visible: str) -> None:
    world = World(kind, visible)
    driver = world.start()
    world.batches(driver, 3)
    driver.checkpoint()
    before = world.copied()
    for _ in range(3):
        driver = world.start()
    world.batches(driver, 1)
    driver.checkpoint()
    world.put_back(before)

    for _ in range(4):  # Until the numbers have caught up, and after that.
        with pytest.raises(errors.SpecRejectedError, match=r"was opened by epoch 4 of this state") as refused:
            world.start()
        assert refused.value.reason == "SinkOpenedElsewhere"
    assert world.shown == seen(1, *range(4))


@KINDS
@BOTH
def test_a_copy_of_the_state_that_runs_elsewhere_is_refused_before_it_writes(kind: str, visible: str) -> None:
    world = World(kind, visible)
    first = world.start()
    world.batches(first, 3)
    first.checkpoint()
    copy = world.copied()
    here = world.start()
    with pytest.raises(errors.SpecRejectedError, match="another copy of it runs elsewhere") as refused:
        world.start(bucket=copy)
    world.batches(here, 2)
    here.checkpoint()

    assert refused.value.reason == "SinkOpenedElsewhere"
    assert world.shown == seen(1, *range(5))


@KINDS
@BOTH
def test_of_two_copies_the_one_that_lost_the_sink_notices_at_its_next_commit(kind: str, visible: str) -> None:
    world = World(kind, visible)
    first = world.start()
    world.batches(first, 3)
    first.checkpoint()
    copy = world.copied()
    here = world.start()
    there = world.start(anyway(), bucket=copy)
    there.batch(1)
    there.show()
    there.checkpoint()
    here.batch(1)
    with pytest.raises(errors.SpecRejectedError) as refused:
        world.commit(here)

    assert refused.value.reason == "SinkOpenedElsewhere"
    again = range(3) if kind != "files" and visible == "checkpoint" else ()
    assert sorted(world.shown) == sorted(seen(1, *range(4), *again)), "what the state had prepared is its own for sure"


@KINDS
@BOTH
def test_a_copy_that_opens_a_sink_which_has_forgotten_the_newer_opener_is_noticed_at_the_next_commit(
    kind: str, visible: str
) -> None:
    """The sink fails over to a replica from before the last start, so a site with fewer starts may open it."""
    world = World(kind, visible)
    first = world.start()
    world.batches(first, 3)
    first.checkpoint()
    copy, fail_over = world.copied(), world.backup_of_sink()
    world.start()
    here = world.start()
    fail_over()
    there = world.start(bucket=copy)
    world.batches(there, 2)
    there.checkpoint()
    shown = world.shown
    here.batch(1)
    with pytest.raises(errors.SpecRejectedError, match="another copy of it runs elsewhere") as refused:
        world.commit(here)

    assert (refused.value.reason, world.shown) == ("SinkOpenedElsewhere", shown)
    world.batches(there, 1)
    there.checkpoint()
    assert world.shown == seen(1, *range(6))


@KINDS
@BOTH
def test_a_copy_that_takes_the_sink_back_sends_what_its_state_had_prepared(kind: str, visible: str) -> None:
    """The other copy has used the same numbers for rows of its own."""
    world = World(kind, visible)
    here = world.start()
    world.batches(here, 3)
    here.checkpoint()
    copy = world.copied()
    world.batches(here, 2)
    here.checkpoint()
    there = world.start(anyway(), bucket=copy)
    for _ in range(3):
        world.batches(there, 2)
        there.checkpoint()
    before = world.files
    here.batch(2)
    here.complete()

    lost = NAMED if kind == "files" and visible == "batch" else ()  # The copy has withdrawn batches 3 and 4.
    again = world.start(RestoreConfig(repeat_output_of=NAMED, lose_output_of=lost))

    assert world.shown[-2:] == seen(1, 5, 6)
    if kind == "files":
        assert world.shown == seen(1, *range(7)), "what the other copy has written since is withdrawn"
        assert all(world.files.values()), "no row is left out"
        assert all(world.files[batch] != before[batch] for batch in (5, 6))
    world.batches(again, 1)
    again.checkpoint()
    assert world.shown[-1] == "1/7"


@BOTH
def test_a_batch_without_rows_of_another_copy_is_not_taken_for_one_whose_files_were_left_out(visible: str) -> None:
    """Both copies have a driver of the same epoch, and the other one has committed no rows under these numbers."""
    world = World("files", visible)
    first = world.start()
    world.batches(first, 3)
    first.checkpoint()
    copy = world.copied()
    here = world.start()
    here.batch(2)
    here.complete()
    sink = sinkdrivers.MemoryFiles("memory://output", compression="none", visible=visible, folder=world.folder)
    there = Driver(copy, world.clock, anyway(), sink=sink, rows=lambda batch, generation: iter(()))
    world.batches(there, 2)
    there.checkpoint()
    assert not any(world.files[batch] for batch in (3, 4))

    world.start(anyway())

    assert all(world.files[batch] for batch in (3, 4))


@BOTH
def test_a_copy_that_owns_a_folder_deletes_no_files_of_what_it_has_withdrawn(visible: str) -> None:
    """The files are older than an hour by the real clock, and a later driver of the other copy looks for orphans."""
    world = World("files", visible)
    first = world.start()
    world.batches(first, 3)
    first.checkpoint()
    copy = world.copied()
    here = world.start()
    world.batches(here, 2)
    here.checkpoint()
    before = world.files
    world.start(anyway(), bucket=copy)
    there = world.start(bucket=copy)
    for _ in range(4):
        world.batches(there, 2)
        there.checkpoint()
    world.start(bucket=copy)

    world.start(anyway())

    assert world.files == before


@BOTH
def test_a_start_that_has_one_right_and_needs_another_is_told_both(visible: str) -> None:
    """State from before a restore meets a folder with the batches that came after it, and one of its own files is lost."""
    world = World("files", visible)
    driver = world.start()
    driver.batch(2)
    older = driver.checkpoint()
    driver.batch(2)
    driver.checkpoint()
    driver.batch(2)
    driver.complete()
    before = world.copied()
    left = world.start(to(f"checkpoint:{older.id}"))
    for _ in range(3):
        world.batches(left, 2)
        left.checkpoint()
    world.put_back(before)
    world.folder.delete_many([info.key for info in world.folder.list("data") if "/00000005-00000001" in info.key])

    refusals = []
    for right in (anyway(), without(), anyway()):
        with pytest.raises(errors.StatefulSparkError) as refused:
            world.start(right)
        refusals.append(refused.value)
    world.start(RestoreConfig(repeat_output_of=NAMED, lose_output_of=NAMED))

    assert [refusal.reason for refusal in refusals] == ["StagedRowsMissing", "SinkOpenedElsewhere", "StagedRowsMissing"]
    assert "has a newer generation of batch 5" in refusals[1].message
    assert all(set(rights.offered(refusal.message)) == set(SinkRight) for refusal in refusals)
    assert world.shown == seen(1, *range(6))


@BOTH
@pytest.mark.parametrize("count", [1, 3], ids=["fewer batches than the state", "more batches"])
def test_rows_that_another_copy_has_withdrawn_from_a_folder_are_not_given_up_by_the_right_to_repeat(
    count: int, visible: str
) -> None:
    """Its batches have the numbers of the state's own, which the state does not have the files of any more."""
    world = World("files", visible)
    first = world.start()
    world.batches(first, 3)
    first.checkpoint()
    copy = world.copied()
    here = world.start()
    for _ in range(4):
        world.batches(here, 2)
        here.checkpoint()
    before = world.files
    there = world.start(anyway(), bucket=copy)
    for _ in range(count):
        world.batches(there, 2)
        there.checkpoint()
    world.start(bucket=copy)

    for right in (RestoreConfig(), anyway()):
        with pytest.raises(
            errors.SpecRejectedError, match=r"missing in memory://output, which has batch 2 \(generation 1\), nor"
        ) as refused:
            world.start(right)
        assert refused.value.reason == "SinkOpenedElsewhere"
        assert set(rights.offered(refused.value.message)) == set(SinkRight)
    world.start(RestoreConfig(repeat_output_of=NAMED, lose_output_of=NAMED))

    assert world.shown == seen(1, *range(11))
    kept = [batch for batch, files in before.items() if world.files[batch] == files]
    assert set(range(3, 5)).isdisjoint(kept)
    assert set(range(9, 11)) <= set(kept), "what the state has prepared is there"


LATER = pytest.mark.parametrize("later", [0, 1, 3], ids=["", "by a later driver", "by the last of several drivers"])


def two_lives(world: World, later: int) -> stores.MemoryStore:
    """Ask for empty state in one life, and not in the other, which is copied over it after as many drivers or fewer.

    Args:
        world: The root, with the life in which it was asked for, and the sink, with what the other life has written.
        later: How many drivers of the first life have followed the one that began empty; the last one takes a checkpoint.

    Returns:
        The other life.
    """
    driver = world.start()
    world.batches(driver, 2)
    driver.checkpoint()
    other, put_back = world.copied(), world.backup_of_sink()
    left = world.start(a_restore(empty=True, nonce="fresh", repeat_output_of=NAMED))
    world.batches(left, 1)
    for _ in range(later):
        left = world.start()
    if later:
        world.batches(left, 1)
        left.checkpoint()
    put_back()
    for _ in range(later or 1):
        driver = world.start(bucket=other)
    world.batches(driver, 3)
    driver.checkpoint()
    return other


@KINDS
@BOTH
@LATER
def test_a_generation_of_the_older_life_does_not_count_where_both_lives_have_claimed_its_epoch(
    kind: str, visible: str, later: int
) -> None:
    world = World(kind, visible)
    world.overlay(two_lives(world, later))

    driver = world.start()
    world.batches(driver, 1)
    driver.checkpoint()

    assert "Generation 2 was begun by epoch 2 of another life of this root" in (driver.plan.fallback or "")
    assert world.shown == [*seen(1, *range(5)), "3/5"]
    assert world.start().plan.fallback is None


@KINDS
@BOTH
@pytest.mark.parametrize("later", [1, 3])
def test_a_generation_whose_reservation_does_not_tell_its_life_is_refused_by_the_sink(
    kind: str, visible: str, later: int
) -> None:
    """A standby of the older life had filled it, when it had no epoch yet."""
    world = World(kind, visible)
    world.overlay(two_lives(world, later))
    filled = generations.reservation_of_standby("standby", 1, claim_id="standby", now=world.clock.now)
    world.bucket.write("default/flights/generations/00000002/reserved.json", filled.to_json().encode())
    shown = world.shown

    for _ in range(2):
        with pytest.raises(
            errors.SpecRejectedError, match="which memory://bucket/default/flights does not know"
        ) as refused:
            world.start()
        assert refused.value.reason == "SinkOpenedElsewhere"
    assert world.shown == shown


@KINDS
@BOTH
def test_a_sink_of_the_older_life_is_refused_by_state_of_the_newer_one_whose_epochs_are_lower(
    kind: str, visible: str
) -> None:
    """The target was restored to a backup of the older life, in which another driver has started since."""
    world = World(kind, visible)
    driver = world.start()
    world.batches(driver, 2)
    driver.checkpoint()
    other, put_back = world.copied(), world.backup_of_sink()
    for _ in range(2):
        older = world.start()
    world.batches(older, 2)
    older.checkpoint()
    shown, restored = world.shown, world.backup_of_sink()
    put_back()
    newer = world.start(bucket=other)
    world.batches(newer, 2)
    newer.checkpoint()
    restored()
    world.overlay(other)

    with pytest.raises(errors.SpecRejectedError, match="was opened by epoch 3 of this state") as refused:
        world.start()

    assert (refused.value.reason, world.shown) == ("SinkOpenedElsewhere", shown)


@BOTH
@KINDS
def test_a_sink_from_before_fresh_state_gets_all_that_was_committed_since(kind: str, visible: str) -> None:
    world = World(kind, visible)
    driver = world.start()
    world.batches(driver, 2)
    driver.checkpoint()
    backup = world.backup_of_sink()
    world.batches(driver, 3)
    driver.checkpoint()
    fresh = world.start(a_restore(empty=True, nonce="fresh", repeat_output_of=NAMED))
    world.batches(fresh, 3)
    fresh.checkpoint()
    backup()

    if kind != "files" and visible == "batch":
        with pytest.raises(errors.SpecRejectedError, match="SinkAhead"):
            world.start()
    following = world.start(anyway())
    world.batches(following, 1)
    following.checkpoint()

    assert world.shown == [*(seen(1, 0, 1) if kind != "files" else ()), *seen(2, *range(4))]


@BOTH
def test_a_sink_that_was_put_in_front_of_empty_state_is_not_taken_for_an_empty_one(visible: str) -> None:
    """Fresh state that has committed nothing hides nothing of what was committed before."""
    world = World("marked", visible)
    driver = world.start()
    world.batches(driver, 2)
    older = driver.checkpoint()
    world.batches(driver, 3)
    driver.checkpoint()
    world.start(a_restore(empty=True, nonce="fresh", repeat_output_of=NAMED))

    if visible == "batch":
        with pytest.raises(errors.SpecRejectedError, match="SinkAhead"):
            world.start(to(f"checkpoint:{older.id}"))
        return
    world.start(to(f"checkpoint:{older.id}"))


@KINDS
@BOTH
def test_a_marker_that_vanished_before_the_first_commit_was_known_is_missed_too(kind: str, visible: str) -> None:
    world = World(kind, visible)
    driver = world.start()
    driver.batch(2)
    driver.checkpoint()
    shown = world.shown
    if world.marked is not None:
        world.marked.marker = None
    else:
        world.folder.delete_many(["_sink.json"])

    with pytest.raises(errors.StateUnknownError, match="SinkMarkerMissing"):
        world.start()
    assert world.shown == shown


@KINDS
@BOTH
def test_a_sink_that_lost_its_last_commits_gets_them_again_in_the_same_driver(kind: str, visible: str) -> None:
    world = World(kind, visible)
    driver = world.start()
    world.batches(driver, 3)
    driver.checkpoint()
    backup = world.backup_of_sink()
    world.batches(driver, 2)
    driver.checkpoint()
    backup()
    world.batches(driver, 2)
    driver.checkpoint()

    assert world.shown == seen(1, *range(7))
    (status,) = driver.committer.statuses()
    assert "has batch 2 (generation 1)" in (status.sent_again or "")
    assert "had batch 4 (generation 1)" in (status.sent_again or "")


@KINDS
@BOTH
def test_a_sink_that_lost_more_than_is_kept_is_refused_with_the_batches(kind: str, visible: str) -> None:
    world = World(kind, visible)
    driver = world.start()
    world.batches(driver, 1)
    driver.checkpoint()
    backup = world.backup_of_sink()
    for _ in range(4):
        world.batches(driver, 2)
        driver.checkpoint()
    backup()
    driver.batch(1)
    with pytest.raises(
        errors.StateUnknownError, match=r"has batch 0 .* had batch 8 .*--restore-lose-output-of"
    ) as refused:
        world.commit(driver)
    with pytest.raises(errors.StateUnknownError) as again:
        world.start()

    with pytest.raises(errors.StateUnknownError) as not_for_that:
        world.start(anyway())
    refusals = refused, again, not_for_that
    assert [refusal.value.reason for refusal in refusals] == ["SinkBehind", "SinkBehind", "SinkBehind"]
    assert world.shown == seen(1, 0)

    following = world.start(without())
    world.batches(following, 1)
    following.checkpoint()
    assert world.shown[0] == "1/0"
    assert world.shown[-1] == "1/10"


@KINDS
@BOTH
def test_a_sink_that_lost_its_last_commits_gets_them_again_from_the_next_driver(kind: str, visible: str) -> None:
    world = World(kind, visible)
    driver = world.start()
    world.batches(driver, 3)
    driver.checkpoint()
    world.batches(driver, 2)
    backup = world.backup_of_sink()
    driver.checkpoint()
    backup()
    following = world.start()
    world.batches(following, 1)
    following.checkpoint()

    assert world.shown == seen(1, *range(6))


@BOTH
@KINDS
def test_a_marker_that_vanished_is_not_taken_for_a_new_sink(kind: str, visible: str) -> None:
    world = World(kind, visible)
    driver = world.start()
    for _ in range(2):
        world.batches(driver, 2)
        driver.checkpoint()
    shown = world.shown
    if world.marked is not None:
        world.marked.marker = None
    else:
        world.folder.delete_many(["_sink.json"])
    driver.batch(1)
    with pytest.raises(errors.StateUnknownError) as running:
        world.commit(driver)
    with pytest.raises(errors.StateUnknownError, match=r"has no marker in .* had committed batch \d") as started:
        world.start()

    assert (running.value.reason, started.value.reason) == ("SinkMarkerMissing", "SinkMarkerMissing")
    assert world.shown == shown


@BOTH
@KINDS
def test_a_marker_that_vanished_before_the_first_snapshot_is_not_taken_for_a_new_sink(kind: str, visible: str) -> None:
    """A start completes a checkpoint of what was committed, and only the output record tells where the sink was opened."""
    world = World(kind, visible)
    driver = world.start()
    world.batches(driver, 2)
    shown = world.shown
    if world.marked is not None:
        world.marked.marker = None
    else:
        world.folder.delete_many(["_sink.json"])

    with pytest.raises(errors.StateUnknownError, match=r"has no marker in .* had been opened") as started:
        world.start()

    assert (started.value.reason, world.shown) == ("SinkMarkerMissing", shown)


def of_two_generations(start: Callable[..., Driver]) -> str:
    """Return a savepoint that names committed batches of two generations: 1/2 and 2/3."""
    driver = start("a")
    for _ in range(3):
        shown(driver, 1)
        older = driver.checkpoint()
    shown(driver, 1)
    driver = start("a", a_restore(snapshot=f"checkpoint:{older.id}", nonce="back", repeat_output_of=NAMED))
    shown(driver, 1)
    return driver.savepoint()


def back_from_another_root(start: Callable[..., Driver]) -> str:
    """Return a savepoint that names committed batches of three roots and generations: 1/2, 1/3 of the other one, and 2/4."""
    driver = start("a")
    for _ in range(3):
        shown(driver, 1)
        driver.checkpoint()
    driver = start("b", a_restore(snapshot=driver.savepoint()))
    shown(driver, 1)
    driver = start("a", a_restore(snapshot=driver.savepoint(), nonce="home"))
    shown(driver, 1)
    return driver.savepoint()


def shown(driver: Driver, count: int) -> None:
    driver.batch(count)
    driver.show()


@pytest.mark.parametrize("past", [of_two_generations, back_from_another_root])
@pytest.mark.parametrize("taken", [False, True], ids=["its marker is gone", "another root has taken it"])
def test_rights_go_on_behind_the_committed_batches_of_older_generations_too(
    past: Callable[[Callable[..., Driver]], str], taken: bool
) -> None:
    """The state has their transactions; they are not committed again, and their absence is not taken for a loss."""
    clock, sink = Clock(), MarkedSink(visible="batch")
    bucket = stores.MemoryStore("memory://bucket", clock)

    def start(root: str, restore: RestoreConfig | None = None) -> Driver:
        return Driver(bucket, clock, restore, sink=sink, root=root)

    savepoint = past(start)
    if taken:
        shown(start("c", a_restore(snapshot=savepoint)), 1)
    else:
        sink.marker = None
    before = list(sink.shown)
    with pytest.raises(errors.StatefulSparkError) as refused:
        start("d", a_restore(snapshot=savepoint))
    offered = rights.offered(refused.value.message)
    assert set(offered) == ({SinkRight.REPEAT} if taken else {SinkRight.REPEAT, SinkRight.LOSE})

    given = {"repeat_output_of": NAMED, "lose_output_of": NAMED if SinkRight.LOSE in offered else ()}
    driver = start("d", a_restore(snapshot=savepoint, **given))
    shown(driver, 1)
    driver.checkpoint()

    (new,) = sink.shown[len(before) :]
    assert new == f"1/{driver.query.batch}"


@BOTH
def test_a_sink_at_another_target_is_new_and_gets_nothing_that_the_first_one_has(visible: str) -> None:
    world = World("marked", visible)
    driver = world.start()
    for _ in range(2):
        world.batches(driver, 2)
        driver.checkpoint()
    driver.batch(1)
    first = world.marked
    world.marked = MarkedSink(visible=visible, target="memory://elsewhere")
    following = world.start()
    world.batches(following, 1)
    following.checkpoint()

    assert first is not None
    assert world.marked.shown[-2:] == ["1/4", "1/5"]
    assert set(first.shown).isdisjoint(["1/4", "1/5"])


def test_a_sink_that_comes_back_to_a_target_gets_nothing_that_the_other_one_has() -> None:
    world = World("marked", "batch")
    shown(world.start(), 4)
    world.start().checkpoint()
    first, world.marked = world.marked, MarkedSink(visible="batch", target="memory://elsewhere")
    driver = world.start()
    driver.checkpoint()
    for _ in range(2):
        shown(driver, 2)
        driver.checkpoint()
    second, world.marked = world.marked, first
    shown(world.start(), 1)

    assert first is not None
    assert second is not None
    assert first.shown == seen(1, *range(4), 8)
    assert second.shown[-4:] == seen(1, *range(4, 8))


def test_a_folder_that_a_sink_comes_back_to_has_no_gap_in_the_numbers() -> None:
    """A reader ends before a gap, since at a replica it is a commit file that is not there yet."""
    clock = Clock()
    bucket = stores.MemoryStore("memory://bucket", clock)
    for folder in ("first", "second", "first"):
        driver = Driver(bucket, clock, output=folder)
        for count in (2, 1, 0, 0):
            driver.batch(count)
            driver.checkpoint()

    commits = sinkdrivers.files_commits
    assert commits.listed(bucket.child("first")) == tuple(range(9))
    assert [one.batch_id for one in commits.read_commits(bucket.child("first"))] == [0, 1, 2, 6, 7, 8]


@BOTH
def test_a_sink_that_tells_its_target_from_now_on_is_the_one_that_told_none(visible: str) -> None:
    world = World("silent", visible)
    driver = world.start()
    for _ in range(2):
        world.batches(driver, 2)
        driver.checkpoint()
    silent = world.marked
    world.marked = type(SilentSink.__name__, (MarkedSink,), {})(visible=visible)  # the next version of the same class
    with pytest.raises(errors.StateUnknownError, match="SinkMarkerMissing"):
        world.start()
    assert silent is not None
    world.marked.marker = silent.marker
    following = world.start()
    world.batches(following, 1)
    following.checkpoint()

    assert world.shown == seen(1, 4)


@BOTH
def test_going_back_and_forward_again_commits_what_no_history_has(visible: str) -> None:
    """What was prepared in the left generation is committed in no other one, whatever that has committed since."""
    world = World("marked", visible)
    driver = world.start()
    driver.batch(2)
    older = driver.checkpoint()
    driver.batch(2)
    driver.checkpoint()
    driver.batch(3)
    forward = driver.savepoint()
    back = world.start(to(f"checkpoint:{older.id}", takes_over=True))
    world.batches(back, 1)
    back.checkpoint()
    again = world.start(to(forward, takes_over=True))
    world.batches(again, 1)
    again.checkpoint()

    assert world.shown == [*seen(1, 0, 1, 2, 3), "2/2", *seen(1, 4, 5, 6), "3/7"]


@pytest.mark.parametrize("announced", [False, True], ids=["prepared alone", "committed"])
@KINDS
@BOTH
def test_a_root_that_is_synced_over_another_beginning_of_itself_loses_nothing(
    kind: str, visible: str, announced: bool
) -> None:
    """The job begins once more in an empty root, in front of an empty target; then the first root's snapshots come back."""
    world = World(kind, visible)
    empty, nothing_shown = world.copied(), world.backup_of_sink()
    driver = world.start()
    driver.batch(3)
    checkpoint = driver.complete()
    if announced:
        world.commit(driver)
    first = world.copied()
    world.put_back(empty)
    nothing_shown()
    world.start()
    first._objects.bodies.update(world.bucket._objects.bodies)
    world.put_back(first)

    again = world.start(to(f"checkpoint:{checkpoint.id}"))
    world.batches(again, 2)
    again.checkpoint()

    assert world.shown == [*seen(1, 0, 1, 2), *seen(2, 3, 4)]
