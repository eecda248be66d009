"""Holes that were found by trying hard, and are closed, each as the shortest story that showed it.

Where a sink meets a root that it does not know, two ends are right: it takes over and shows exactly what the lineage that
runs holds, or the start refuses by name. A third one, to go on and be silent about rows, is what these stories found.
"""

from __future__ import annotations

import pytest
from faultrig import drivers, faults
from faultrig.world import Wish, World
from restores import a_restore

JOB = "a/default/flights"
BACKUPS = "s3://rig/backups"


def goes_on_or_refuses(world: World, wish: Wish) -> None:
    """Start; either the sinks hold what the lineage holds, at once and later, or the start says by name why not."""
    driver = world.start(wish)
    if driver.failure is not None:
        assert driver.failure.reason.startswith(("Sink", "Lineage")), driver.outcome
        assert wish.output in driver.failure.message or "ledger" in driver.failure.message
        return
    world.settle(driver, count=2)
    world.settle(driver)


def a_life(world: World) -> tuple[drivers.Driver, str]:
    """A job with three checkpoints and a savepoint after the second, at another location."""
    driver = world.start()
    world.settle(driver, count=2)
    world.settle(driver, count=2)
    savepoint = world.savepoint(driver, BACKUPS)
    assert savepoint is not None
    world.settle(driver, count=2)
    return driver, savepoint


# Sinks drop new rows when a new root meets a sink that remembers an old one.


def same_root(world: World, savepoint: str) -> Wish:
    return world.wish()


def moved_root(world: World, savepoint: str) -> Wish:
    world.copy_area("a", "b")
    world.remove_area("a")
    return world.wish("b")


def copied_root(world: World, savepoint: str) -> Wish:
    world.copy_area("a", "b")
    return world.wish("b")


def savepoint_elsewhere(world: World, savepoint: str) -> Wish:
    return world.wish("b", restore=a_restore(snapshot=savepoint))


def fresh_state(world: World, savepoint: str) -> Wish:
    return world.wish(restore=a_restore(empty=True))


def state_deleted(world: World, savepoint: str) -> Wish:
    world.remove_area("a")
    return world.wish()


def older_checkpoint(world: World, savepoint: str) -> Wish:
    return world.wish(restore=a_restore(snapshot="checkpoint:2"))


MOVES = [same_root, moved_root, copied_root, savepoint_elsewhere, fresh_state, state_deleted, older_checkpoint]


@pytest.mark.parametrize("move", MOVES)
def test_no_new_row_is_dropped_when_the_old_job_is_gone(move: object, world: World) -> None:
    """Point 1: generations begin again at 1 in every root, so new rows counted as committed; here after a kill."""
    driver, savepoint = a_life(world)
    world.kill(driver)
    goes_on_or_refuses(world, move(world, savepoint))  # type: ignore[operator]


@pytest.mark.parametrize("move", MOVES)
def test_no_new_row_is_dropped_after_a_stop(move: object, world: World) -> None:
    """Point 1: stopped with a savepoint, and started from the copied folder: 248 rows were lost."""
    driver, savepoint = a_life(world)
    world.stop(driver)
    goes_on_or_refuses(world, move(world, savepoint))  # type: ignore[operator]


@pytest.mark.parametrize("move", [copied_root, savepoint_elsewhere])
def test_no_new_row_is_dropped_when_the_old_job_has_gone_further(move: object, world: World) -> None:
    """Point 1: after the copy the old job went on under the same sinks: rows were lost in one, repeated in the other."""
    driver, savepoint = a_life(world)
    world.kill(driver)
    wish = move(world, savepoint)  # type: ignore[operator]
    old = world.start()
    world.settle(old, count=3)
    world.stop(old)
    goes_on_or_refuses(world, wish)


def test_old_rows_of_a_folder_that_is_used_anew_are_not_mixed_with_new_ones(world: World) -> None:
    """Point 1: with the state gone, an older and longer life in the same folder must not shine through a shorter one."""
    driver = world.start()
    world.settle(driver, count=6)
    world.kill(driver)
    world.remove_area("a")
    goes_on_or_refuses(world, world.wish())


# A savepoint with prepared transactions, started elsewhere.


def test_prepared_transactions_of_a_savepoint_stay_with_the_job_that_prepared_them(world: World) -> None:
    """Point 2: another root and other sinks, the same name of the job: commit files named Parquet of the old folder."""
    driver = world.start()
    world.settle(driver)
    world.batches(driver, 2)
    savepoint = world.savepoint(driver, BACKUPS)
    assert savepoint is not None
    world.kill(driver)
    world.bases["out-2"] = world.offsets(savepoint)
    successor = world.start(world.wish("b", output="out-2", book="book-2", restore=a_restore(snapshot=savepoint)))

    world.settle(successor, count=2)


# Nothing is deleted or overwritten by name alone.


def test_a_driver_that_wakes_in_its_manifest_does_not_delete_its_successors(world: World) -> None:
    """Point 3: frozen in the PUT of the manifest; its successor completes that number; 412, abort, deleted by name."""
    zombie = world.start()
    world.settle(zombie)
    world.batches(zombie)
    zombie.arm(faults.Kind.FREEZE, matches="checkpoints/", name="create")
    world.checkpoint(zombie)
    assert zombie.is_frozen
    newer = world.start()
    world.settle(newer)

    world.wake(zombie)

    world.settle(newer)


def test_a_driver_that_wakes_in_its_savepoint_leaves_its_successors_alone(world: World) -> None:
    """Point 3: the same number and place of a savepoint: what the older one copies and clears must not reach it."""
    zombie = world.start()
    world.settle(zombie, count=2)
    zombie.arm(faults.Kind.FREEZE, matches="savepoints/")
    world.savepoint(zombie)
    assert zombie.is_frozen
    newer = world.start()
    world.batches(newer, 2)
    world.savepoint(newer)

    world.wake(zombie)

    world.settle(newer)
    restored = restores_elsewhere(world, world.savepoints[0])
    assert restored.is_up, restored.outcome


def restores_elsewhere(world: World, savepoint: str) -> drivers.Driver:
    """Start another job from a savepoint."""
    world.bases["out-2"] = world.offsets(savepoint)
    restore = a_restore(snapshot=savepoint)
    return world.start(world.wish("b", output="out-2", book="book-2", restore=restore, name="other"))


def test_a_savepoint_that_fails_after_a_take_over_does_not_dispose_of_the_successors(world: World) -> None:
    """Point 3: it cannot reach the place it copies to, gives up, and disposes of the folder by its number."""
    zombie = world.start()
    world.settle(zombie, count=2)
    zombie.arm(faults.Kind.FREEZE, matches="savepoints/")
    world.savepoint(zombie)
    newer = world.start()
    world.batches(newer, 2)
    savepoint = world.savepoint(newer)
    assert savepoint is not None
    assert savepoint.endswith("/00000002"), "both have the same number"
    zombie.arm(faults.Kind.LOSE, after=1, matches="savepoints/")

    world.wake(zombie)

    assert world.open_store(savepoint).info("_metadata.json") is not None
    world.settle(newer)


def test_a_repeated_delete_of_a_commit_file_does_not_take_its_replacement(world: World) -> None:
    """Point 3: a withdrawal's delete arrives a second time, when the batch has been committed anew."""
    driver = world.start()
    world.settle(driver, count=2)
    world.settle(driver, count=3)
    world.kill(driver)
    wish = world.wish(restore=a_restore(snapshot="checkpoint:1"))
    newer = world.begin(wish, arm=lambda one: one.arm(faults.Kind.REPEAT, matches="_commits/", name="replace"))
    world.until_up(newer)
    world.settle(newer, count=4)

    world.deliver()

    world.judge_sinks(newer)
    world.judge()


def test_a_start_that_wakes_while_it_withdraws_takes_nothing_of_its_successor(world: World) -> None:
    """Point 3: a start that goes back is frozen in the delete of a commit file; its successor commits that batch anew."""
    driver = world.start()
    world.settle(driver, count=2)
    world.settle(driver, count=3)
    world.kill(driver)
    wish = world.wish(restore=a_restore(snapshot="checkpoint:1"))
    zombie = world.begin(wish, arm=lambda one: one.arm(faults.Kind.FREEZE, matches="_commits/", name="replace"))
    world.until_up(zombie)
    assert zombie.is_frozen
    newer = world.start(wish)
    world.settle(newer, count=4)

    world.wake(zombie)

    world.judge_sinks(newer)
    world.judge()


def test_a_repeated_note_of_a_restore_does_not_undo_a_later_one(world: World) -> None:
    """Point 3: the note of a restore in place arrives again after the next one: that one would be done twice."""
    driver = world.start()
    world.settle(driver, count=2)
    first = world.stop(driver)
    restore = a_restore(snapshot=first, nonce="first")
    driver = world.begin(
        world.wish(restore=restore),
        arm=lambda one: one.arm(faults.Kind.REPEAT, matches="generation.json", name="write"),
    )
    world.until_up(driver)
    world.settle(driver, count=2)
    wish = world.wish(restore=a_restore(snapshot=world.stop(driver), nonce="second"))
    driver = world.start(wish)
    world.settle(driver, count=2)
    head = world.head()
    world.kill(driver)

    world.deliver()
    driver = world.start(wish)

    assert driver.found == head, "the second restore has been done and is not done again"
    world.settle(driver)


# and 5. Prepared records that are missing or damaged.


@pytest.mark.parametrize("way", ["gone", "flipped"])
@pytest.mark.parametrize("uid", drivers.QUERIES)
def test_a_start_falls_back_when_a_prepared_record_is_not_whole(way: str, uid: str, world: World) -> None:
    """Points 4 and 5: a batch whose transaction is missing was lost for good; a flipped bit kept the job down for ever."""
    driver = world.start()
    world.settle(driver)
    world.batches(driver, 3)
    world.kill(driver)
    folder = f"{JOB}/generations/00000001/{uid}/prepared/{drivers.SINKS[uid]}"
    key = world.bucket.list(folder)[-2].key
    body = world.bucket.read(key)
    if way == "gone":
        world.bucket.delete_many([key])
    else:
        world.bucket.write(key, body.replace(b'"formatVersion"', b'"formatVersioN"').replace(b"{", b"[", 1))

    successor = world.start()

    assert successor.is_up, successor.outcome
    world.settle(successor, count=2)


# Small files that are changed in place.


@pytest.mark.parametrize("log", ["offsets", "commits"])
@pytest.mark.parametrize("back", [0, 1], ids=["of the newest batch", "of the batch before"])
def test_a_log_entry_that_is_changed_in_place_is_noticed(log: str, back: int, world: World) -> None:
    """Point 6: a digit of the offsets, the same etag: seven rows repeated; and a commit that nobody can read for ever."""
    driver = world.start()
    world.settle(driver, count=2)
    world.settle(driver, count=2)
    newest = max(int(one) for one in world.bucket.list_names(f"{JOB}/generations/00000001/totals/commits"))
    world.kill(driver)
    key = f"{JOB}/generations/00000001/totals/{log}/{newest - back}"
    offset = world.bucket.read(key).decode().rpartition(":")[2].strip("}").encode()
    if log == "offsets":
        world.rot(key, b'"offset":' + offset, b'"offset":' + b"1" + b"0" * (len(offset) - 1))
    else:
        world.rot(key, b"stateUniqueIds", b"stateUniqueIdz")
    world.oracle.damaged.add(key)

    successor = world.start()

    assert successor.is_up, successor.outcome
    world.settle(successor, count=2)


# Proof that there was state.


def test_an_epoch_is_proof_that_there_was_state(world: World) -> None:
    """Point 7: `generations/` and `checkpoints/` gone, `epochs/` and `owner.json` there: it started empty."""
    driver = world.start()
    world.settle(driver, count=2)
    world.kill(driver)
    for folder in ("generations", "checkpoints"):
        world.remove_area(f"{JOB}/{folder}")

    successor = world.start()

    assert successor.failure is not None, successor.outcome
    assert successor.failure.code.name == "STATE_UNKNOWN"
    assert "restore.source.empty" in successor.failure.message


# The files sink has no fence in the target.


@pytest.mark.parametrize("kind", [faults.Kind.DELAY, faults.Kind.FREEZE])
def test_a_commit_that_arrives_after_the_job_was_taken_back_does_not_become_visible(
    kind: faults.Kind, world: World
) -> None:
    """Point 8: the PUT of a commit file arrives late, names files that were given up, and stays."""
    driver = world.start()
    world.settle(driver, count=2)
    world.batches(driver, 2)
    driver.arm(kind, matches="_commits/", name="create")
    driver.arm(faults.Kind.KILL_BEFORE, matches="_commits/", name="create")
    world.checkpoint(driver)
    wish = world.wish(restore=a_restore(snapshot="checkpoint:1"))
    newer = world.start(wish)
    world.settle(newer, count=0)

    world.deliver()
    world.wake(driver)

    world.judge_sinks(newer)
    world.judge()
    world.settle(newer, count=4)


# Numbers of checkpoints.


def test_a_number_that_was_given_up_fails_no_checkpoint_of_the_next_driver(world: World) -> None:
    """A listing lags, and the number before the newest checkpoint's leads to nothing: the newest one's was given again."""
    driver = world.start()
    world.settle(driver)
    world.lag(10**6)
    world.batches(driver)
    driver.faults.append(faults.Fault(faults.Kind.OUTAGE, matches="_metadata.json", name="create", length=0))
    world.checkpoint(driver)
    world.batches(driver)
    world.checkpoint(driver)
    assert world.checkpoints() == [1, 3]
    world.kill(driver)

    newer = world.start()

    world.settle(newer)
    world.settle(newer)
    assert world.checkpoints()[-3:] == [3, 4, 5]
