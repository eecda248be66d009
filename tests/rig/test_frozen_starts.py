"""A start that falls asleep before it has begun to run, and wakes when its successor has been at work for a while."""

from __future__ import annotations

import pytest
from faultrig import drivers, faults
from faultrig.world import World
from restores import a_restore

GOES_BACK = a_restore(snapshot="checkpoint:1", nonce="back")


def leaves_the_future(world: World) -> None:
    """A job with three checkpoints, of which the later two are going to be left."""
    driver = world.start()
    for _ in range(3):
        world.settle(driver, count=2)
    world.kill(driver)


def freezes(world: World, wish: object, place: str) -> drivers.Driver:
    sleeper = world.begin(wish, arm=lambda one: one.arm(faults.Kind.FREEZE, matches=place, name="create"))  # type: ignore[arg-type]
    world.until_up(sleeper)
    assert sleeper.is_frozen
    return sleeper


@pytest.mark.parametrize("place", ["reserved.json", "generation.json"])
@pytest.mark.parametrize("again", [True, False], ids=["goes back too", "goes on"])
def test_a_start_that_wakes_late_does_not_put_an_old_cut_in_the_place_of_its_successors(
    place: str, again: bool, world: World
) -> None:
    """It made a generation of the old checkpoint, withdrew its successor's output, and every later start began there."""
    leaves_the_future(world)
    sleeper = freezes(world, world.wish(restore=GOES_BACK), place)
    wish = world.wish(restore=GOES_BACK) if again else world.wish()
    successor = world.start(wish)
    world.settle(successor, count=4)

    world.wake(sleeper)

    world.settle(successor)
    head = world.head()
    world.kill(successor)
    last = world.start(wish)
    assert last.found == head
    world.settle(last)
    assert sleeper.outcome.startswith(("FENCED", "FAILED GenerationExists"))


def test_a_start_that_sleeps_longer_than_pruning_waits_still_finds_its_number_closed(world: World) -> None:
    """Pruning had deleted the record that closes the number off, as a file that no checkpoint needs."""
    sleeper = freezes(world, world.wish(), "generation.json")
    successor = world.start()
    for _ in range(drivers.RETAINED + 3):
        world.settle(successor, count=2)
        world.clock.forward(400)

    world.wake(sleeper)

    assert sleeper.outcome.startswith("FAILED GenerationExists"), sleeper.outcome
    world.settle(successor)


def test_a_start_that_was_overtaken_looks_at_the_fence_before_it_plans_again(world: World) -> None:
    """Refused in its salvage, it took its successor's unfinished generation for a dead one's, and spoiled it."""
    driver = world.start()
    world.settle(driver, count=2)
    world.batches(driver, 2)
    world.kill(driver)
    changed = world.wish(is_changed=True)
    sleeper = freezes(world, changed, "checkpoints/")
    successor = world.begin(changed, arm=lambda one: one.arm(faults.Kind.FREEZE, matches="generation.json"))
    world.until_up(successor)
    assert successor.is_frozen

    world.wake(sleeper)
    world.wake(successor)

    assert sleeper.outcome.startswith("FENCED"), sleeper.outcome
    assert successor.is_up, successor.outcome
    world.settle(successor, count=2)
