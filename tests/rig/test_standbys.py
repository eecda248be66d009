"""Standbys that are activated while everything goes wrong: nothing is lost, nothing is there twice, two never write."""

from __future__ import annotations

import pytest
from faultrig import drivers, faults
from faultrig.world import World
from restores import a_restore
from statefulspark.contract import api

WRITES_OF_AN_ACTIVATION = 8
"""At least as many as a driver makes between the activation and its first batch."""


def a_running_job(world: World) -> drivers.Driver:
    driver = world.start()
    world.settle(driver, count=2)
    return driver


def state_of(standby: drivers.Driver) -> api.StandbyState | None:
    told = standby.control.status().standby
    return told.state if told else None


@pytest.mark.parametrize("behind", [0, 1, 3], ids=lambda count: f"{count} checkpoints behind")
def test_a_standby_goes_on_where_the_killed_driver_was_in_the_same_generation(behind: int, world: World) -> None:
    driver = a_running_job(world)
    standby = world.stand_by()
    for _ in range(behind):
        world.settle(driver, count=2)
    world.batches(driver, 1)
    world.kill(driver)
    head = world.head()

    assert world.activate(standby, epoch=2), standby.outcome

    assert (state_of(standby), standby.found) == (None, head)
    assert standby.plan is not None
    assert standby.plan.generation == 1
    world.settle(standby, count=2)


def test_a_standby_writes_nothing(world: World) -> None:
    a_running_job(world)
    before = world.bucket.list("")

    standby = world.stand_by()

    assert state_of(standby) is api.StandbyState.READY
    assert world.bucket.list("") == before


def test_a_standby_that_is_activated_beside_a_living_driver_fences_it(world: World) -> None:
    driver = a_running_job(world)
    standby = world.stand_by()
    world.batches(driver, 1)

    assert world.activate(standby, epoch=2), standby.outcome
    world.batches(driver, 1)

    assert driver.outcome.startswith("FENCED"), driver.outcome
    world.settle(standby, count=2)


def test_of_two_standbys_with_one_epoch_one_becomes_the_driver(world: World) -> None:
    driver = a_running_job(world)
    first, second = world.stand_by(), world.stand_by()
    world.kill(driver)
    for one in (first, second):
        one.activate(api.ActivateRequest(request_id="take-2", epoch=2))

    world.rest()

    (winner,), (loser,) = (
        [one for one in (first, second) if one.is_up],
        [one for one in (first, second) if not one.is_up],
    )
    assert loser.outcome.startswith("FENCED"), loser.outcome
    loser.epoch = 0
    world.settle(winner, count=2)


@pytest.mark.parametrize(
    "kind", [faults.Kind.KILL_BEFORE, faults.Kind.KILL_AFTER, faults.Kind.LOSE, faults.Kind.OUTAGE]
)
@pytest.mark.parametrize("number", range(WRITES_OF_AN_ACTIVATION))
@pytest.mark.parametrize("goes_back", [False, True], ids=["in place", "to an older checkpoint"])
def test_an_activation_that_breaks_at_any_write_leaves_a_job_that_the_next_one_takes_over(
    kind: faults.Kind, number: int, goes_back: bool, world: World
) -> None:
    driver = a_running_job(world)
    world.settle(driver, count=2)
    standby, spare = world.stand_by(), world.stand_by()
    world.batches(driver, 1)
    world.kill(driver)
    standby.arm(kind, after=number)
    restore = a_restore(snapshot="checkpoint:1", nonce="back") if goes_back else None

    world.activate(standby, epoch=2, restore=restore)
    if standby.is_up:
        world.batches(standby, 1)
    world.kill(standby)

    assert world.activate(spare, epoch=3, restore=restore), spare.outcome
    world.settle(spare, count=2)


def test_storage_that_is_away_costs_a_standby_nothing(world: World) -> None:
    driver = a_running_job(world)
    standby = world.stand_by()
    world.settle(driver, count=2)
    standby.outage = 5
    for _ in range(5):
        standby.spawn("look", standby.standby.refresh)
        world.rest()
    troubled = standby.control.status().standby
    standby.spawn("look", standby.standby.refresh)
    world.rest()

    ready = standby.control.status().standby
    assert troubled is not None
    assert ready is not None
    assert (troubled.state, troubled.reason) == (api.StandbyState.READY, "StorageUnreachable")
    assert (ready.state, ready.reason, ready.compared_with) == (api.StandbyState.READY, None, "checkpoint 2")
    world.kill(driver)
    assert world.activate(standby, epoch=2), standby.outcome
    world.settle(standby)


def test_after_a_stop_with_savepoint_it_goes_on_in_place_and_can_go_back_later(world: World) -> None:
    driver = a_running_job(world)
    standby = world.stand_by()
    world.batches(driver, 1)
    savepoint = world.stop(driver)
    wish = a_restore(snapshot=savepoint, nonce="upgrade")

    assert world.activate(standby, epoch=2, restore=wish), standby.outcome
    assert standby.plan is not None
    assert standby.plan.generation == 1
    world.settle(standby, count=2)
    world.kill(standby)

    back = world.start(world.wish(restore=a_restore(snapshot=savepoint, nonce="back")))
    assert back.plan is not None
    assert back.plan.generation == 2
    world.settle(back, count=2)


CHANGED = ("numbers", "others")
"""Sources of a job whose plan differs, so that it needs a generation of its own."""
WRITES_OF_A_CARRYING_STANDBY = 14
WRITES_OF_A_START_IN_A_NEW_GENERATION = 24


def copies_of(world: World, standby: drivers.Driver, generation: int) -> int:
    """Count the files that are in a generation that is not in use."""
    return len(keys_of(world, standby, generation))


def keys_of(world: World, driver: drivers.Driver, generation: int) -> set[str]:
    """Return the keys of a generation's files."""
    return {info.key for info in world.bucket.list(f"{driver.wish.root}/generations/{generation:08d}")}


def test_a_standby_with_a_changed_plan_carries_the_state_ahead_and_goes_on_in_its_generation(world: World) -> None:
    driver = a_running_job(world)
    standby = world.stand_by(world.wish(sources=CHANGED))
    world.settle(driver, count=2)
    world.look(standby)
    ahead = copies_of(world, standby, 2)
    world.batches(driver, 1)
    savepoint = world.stop(driver)
    head = world.head()

    assert world.activate(standby, epoch=2, restore=a_restore(snapshot=savepoint, nonce="upgrade")), standby.outcome

    assert standby.plan is not None
    assert (standby.plan.generation, standby.found) == (2, head)
    assert ahead > 4
    world.settle(standby, count=2)
    world.kill(standby)
    again = world.start(world.wish(sources=CHANGED, restore=a_restore(snapshot=savepoint, nonce="upgrade")))
    assert again.plan is not None
    assert again.plan.generation == 2
    world.settle(again, count=2)


def test_of_two_standbys_with_different_plans_one_takes_over_after_the_other(world: World) -> None:
    driver = a_running_job(world)
    one = world.stand_by(world.wish(sources=CHANGED))
    other = world.stand_by(world.wish(sources=(*CHANGED, "more")))
    world.settle(driver, count=2)
    both = copies_of(world, one, 2), copies_of(world, other, 3)
    world.kill(driver)

    assert world.activate(one, epoch=2), one.outcome
    world.settle(one, count=2)
    left = copies_of(world, other, 3)
    world.look(other)
    world.settle(one, count=1)
    world.kill(one)
    assert world.activate(other, epoch=3), other.outcome

    assert one.plan is not None
    assert other.plan is not None
    assert (min(both) > 4, left) == (True, 2)
    assert (one.plan.generation, other.plan.generation) == (2, 4)
    world.settle(other, count=2)


def test_an_upgrade_that_is_taken_back_leaves_nothing_but_a_number(world: World) -> None:
    driver = a_running_job(world)
    standby = world.stand_by(world.wish(sources=CHANGED))
    world.kill(standby)
    for _ in range(drivers.RETAINED + 4):
        world.clock.forward(400)
        world.settle(driver, count=2)

    assert copies_of(world, standby, 2) == 2
    world.kill(driver)
    assert world.start().plan is not None


@pytest.mark.parametrize("kind", list(faults.Kind))
@pytest.mark.parametrize("number", range(WRITES_OF_A_CARRYING_STANDBY))
def test_a_standby_that_breaks_while_it_carries_harms_nobody(kind: faults.Kind, number: int, world: World) -> None:
    driver = a_running_job(world)
    wish = world.wish(sources=CHANGED)
    broken = world._new_driver(wish)
    broken.arm(kind, after=number)
    broken.stand_by(wish)
    world.rest()
    world.settle(driver, count=1)
    spare = world.stand_by(wish)
    world.batches(driver, 1)
    world.kill(driver)

    assert world.activate(spare, epoch=2), spare.outcome
    world.settle(spare, count=2)
    world.wake(broken)
    world.deliver()
    world.settle(spare, count=2)
    world.kill(spare)
    again = world.start(wish)
    world.settle(again, count=2)


@pytest.mark.parametrize(
    "kind", [faults.Kind.KILL_BEFORE, faults.Kind.KILL_AFTER, faults.Kind.LOSE, faults.Kind.OUTAGE, faults.Kind.DELAY]
)
@pytest.mark.parametrize("number", range(WRITES_OF_A_START_IN_A_NEW_GENERATION))
def test_an_upgrade_that_breaks_at_any_write_of_its_start_is_taken_over(
    kind: faults.Kind, number: int, world: World
) -> None:
    driver = a_running_job(world)
    wish = world.wish(sources=CHANGED)
    standby = world.stand_by(wish)
    world.batches(driver, 1)
    savepoint = world.stop(driver)
    restore = a_restore(snapshot=savepoint, nonce="upgrade")
    standby.arm(kind, after=number)

    world.activate(standby, epoch=2, restore=restore)
    if standby.is_up:
        world.batches(standby, 1)
    world.kill(standby)

    again = world.start(world.wish(sources=CHANGED, restore=restore))
    world.deliver()
    world.settle(again, count=2)


@pytest.mark.parametrize("copied", [0, 1, 5], ids=lambda count: f"after {count} copies")
def test_a_standby_that_sleeps_between_its_copies_until_their_sources_are_pruned_goes_on_in_its_generation(
    copied: int, world: World
) -> None:
    driver = a_running_job(world)
    wish = world.wish(sources=CHANGED)
    standby = world._new_driver(wish)
    standby.arm(faults.Kind.FREEZE, after=copied, name="copy")
    standby.stand_by(wish)
    world.rest()
    before = keys_of(world, driver, 1)
    for _ in range(drivers.RETAINED + 4):
        world.clock.forward(70)
        world.settle(driver, count=2)
    pruned = {key for key in before - keys_of(world, driver, 1) if "/state/" in key}
    assert standby.is_frozen
    world.wake(standby)
    world.look(standby)
    ahead = keys_of(world, standby, 2)
    world.batches(driver, 1)
    world.kill(driver)

    assert world.activate(standby, epoch=2), standby.outcome

    assert standby.plan is not None
    assert (standby.plan.generation, pruned != set(), len(ahead) > 4) == (2, True, True)
    world.settle(standby, count=2)
    for _ in range(drivers.RETAINED + 4):
        world.clock.forward(70)
        world.settle(standby, count=2)
    assert len(keys_of(world, driver, 1)) == 1


@pytest.mark.parametrize("wakes", ["before the activation", "in the middle of the start", "after the start"])
def test_a_driver_that_takes_a_standby_for_dead_and_wakes_late_costs_it_its_copies_at_most(
    wakes: str, world: World
) -> None:
    driver = a_running_job(world)
    standby = world.stand_by(world.wish(sources=CHANGED))
    for _ in range(drivers.RETAINED):
        world.settle(driver, count=2)
    world.clock.forward(4000)
    driver.arm(faults.Kind.FREEZE, matches="generations/00000002/generation.json", name="create")
    world.batches(driver, 2)
    world.checkpoint(driver)
    assert driver.is_frozen
    if wakes == "before the activation":
        world.wake(driver)
    if wakes == "in the middle of the start":
        standby.arm(faults.Kind.FREEZE, matches="generation.json", name="create")

    is_up = world.activate(standby, epoch=2)
    world.wake(driver)
    world.wake(standby)

    assert is_up or world.until_up(standby), standby.outcome
    assert standby.plan is not None
    assert standby.plan.generation == (2 if wakes == "after the start" else 3)
    world.settle(standby, count=2)
    world.kill(standby)
    world.settle(world.start(world.wish(sources=CHANGED)), count=2)
