"""A failed version is rolled back, with whole drivers: on the newest state, or on the savepoint that it began from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faultrig.drivers import Driver
from faultrig.world import World
from restores import a_restore

ROLLBACK = "rollback"


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=0).entered() as entered:
        yield entered


def stopped(world: World) -> str:
    """The old version has stopped with a savepoint."""
    old = world.start()
    world.settle(old, count=2)
    savepoint = world.stop(old)
    assert savepoint is not None
    return savepoint


def failed(world: World, savepoint: str, *, is_changed: bool, batches: int) -> None:
    """The new version has begun from it, in a generation of its own if its plan is another one, and has ended."""
    new = world.start(world.wish(restore=a_restore(snapshot=savepoint, nonce="stop"), is_changed=is_changed))
    if batches:
        world.batches(new, batches)
        world.checkpoint(new)
    world.kill(new)


def rolled_back(world: World, savepoint: str | None = None) -> Driver:
    return world.start(world.wish(restore=a_restore(snapshot=savepoint, nonce=ROLLBACK, rollback=True)))


@pytest.mark.parametrize("is_changed", [False, True])
def test_the_old_version_goes_on_after_what_the_failed_one_has_committed(world: World, is_changed: bool) -> None:
    failed(world, stopped(world), is_changed=is_changed, batches=3)
    before = world.head()

    old = rolled_back(world)
    world.settle(old)

    assert old.found == before
    world.judge()


@pytest.mark.parametrize("is_changed", [False, True])
def test_going_back_to_the_savepoint_is_refused_if_a_sink_would_repeat_rows_and_nothing_is_changed(
    world: World, is_changed: bool
) -> None:
    savepoint = stopped(world)
    failed(world, savepoint, is_changed=is_changed, batches=3)
    before = world.head()

    refused = rolled_back(world, savepoint)

    assert refused.failure is not None
    assert (refused.failure.reason, refused.failure.code.name) == ("OutputRepeated", "INCOMPATIBLE_STATE")
    assert "query 'entries' (LedgerSink)" in refused.failure.message
    assert "totals" not in refused.failure.message
    assert world.head() == before
    world.settle(world.start())
    world.judge()


@pytest.mark.parametrize("is_changed", [False, True])
def test_going_back_to_the_savepoint_repeats_nothing_if_nothing_was_committed(world: World, is_changed: bool) -> None:
    savepoint = stopped(world)
    failed(world, savepoint, is_changed=is_changed, batches=0)

    old = rolled_back(world, savepoint)
    world.settle(old)

    assert old.plan is not None
    assert old.plan.restored_from == savepoint
    world.judge()
