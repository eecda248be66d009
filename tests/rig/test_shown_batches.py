"""A job whose sinks show each batch, step by step: what is seen, and which starts are refused without a change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faultrig import drivers
from faultrig.world import World
from restores import a_restore
from statefulspark.contract import api

OLDER = a_restore(snapshot="checkpoint:1", nonce="back")


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=0, visible="batch").entered() as entered:
        yield entered


def shown_after_a_checkpoint(world: World) -> drivers.Driver:
    """A driver that completed a checkpoint, and showed batches after it."""
    driver = world.start()
    world.settle(driver, count=2)
    world.batches(driver, 3)
    return driver


def generations(world: World) -> list[str]:
    return [name for name in world.bucket.list_names("a/default/flights/generations") if name.rstrip("/").isdigit()]


def test_batches_are_seen_before_any_checkpoint(world: World) -> None:
    driver = world.start()
    world.batches(driver, 3)

    assert world.checkpoints() == []
    assert len(world.oracle.visible("out")) > 0
    world.judge_shown(driver)
    world.judge()


def test_a_refused_restore_leaves_the_generation_in_use_and_the_next_start_goes_on_in_it(world: World) -> None:
    world.kill(shown_after_a_checkpoint(world))
    before = generations(world)
    refused = world.start(world.wish(restore=OLDER))
    following = world.start()
    world.settle(following)

    assert refused.failure is not None
    assert (refused.failure.reason, generations(world)) == ("SinkAhead", before)
    assert "'book'" in refused.failure.message


def test_with_the_word_the_restore_is_done_and_the_restarts_after_it_need_none(world: World) -> None:
    world.kill(shown_after_a_checkpoint(world))
    word = OLDER.model_copy(update={"repeat_output_of": (drivers.LEDGER,)})
    back = world.start(world.wish(restore=word))
    world.kill(back)
    following = world.start(world.wish(restore=OLDER))
    world.settle(following)

    assert len(generations(world)) == 2
    assert following.is_up


def test_commits_that_storage_lost_are_noticed_by_the_sink_when_it_is_opened(world: World) -> None:
    """The start would continue in its generation, so that nothing is looked at before."""
    driver = shown_after_a_checkpoint(world)
    world.kill(driver)
    path = "a/default/flights/generations/00000001/entries"
    lost = [info.key for info in world.bucket.list(path) if info.key.endswith(("/commits/4", "/offsets/4"))]
    world.bucket.delete_many(lost)
    refused = world.start()

    assert len(lost) == 2
    assert refused.failure is not None
    assert refused.failure.reason == "SinkAhead"
    assert "continue after batch 3" in refused.failure.message


def test_a_standby_that_is_activated_with_an_older_checkpoint_is_refused(world: World) -> None:
    driver = shown_after_a_checkpoint(world)
    standby = world.stand_by()
    ready = standby.control.status().standby
    world.kill(driver)
    world.activate(standby, driver.epoch + 1, OLDER)

    assert ready is not None
    assert ready.state is api.StandbyState.READY
    assert standby.failure is not None
    assert (standby.failure.reason, len(generations(world))) == ("SinkAhead", 1)


def test_a_standby_for_an_older_checkpoint_refuses_while_the_old_driver_runs(world: World) -> None:
    driver = shown_after_a_checkpoint(world)
    standby = world.stand_by(world.wish(restore=OLDER))
    told = standby.control.status().standby
    world.settle(driver)

    assert told is not None
    assert (told.state, told.reason) == (api.StandbyState.REFUSED, "SinkAhead")


def test_a_changed_job_goes_on_after_what_was_shown(world: World) -> None:
    world.kill(shown_after_a_checkpoint(world))
    changed = world.start(world.wish(is_changed=True))
    world.settle(changed)

    assert len(generations(world)) == 2


def test_a_changed_job_goes_on_from_a_savepoint_that_was_taken_before_any_checkpoint(world: World) -> None:
    driver = world.start()
    world.batches(driver, 3)
    savepoint = world.stop(driver)
    assert savepoint is not None
    assert world.checkpoints() == []

    changed = world.start(world.wish(restore=a_restore(snapshot=savepoint, nonce="upgrade"), is_changed=True))
    world.settle(changed)

    assert len(generations(world)) == 2
