"""A start that falls asleep while it goes back, and wakes when a copy of its root has taken its output folder over."""

from __future__ import annotations

from faultrig import faults
from faultrig.world import World
from restores import a_restore


def test_a_start_that_wakes_after_a_copy_of_its_root_took_over_withdraws_nothing_of_it(world: World) -> None:
    """It had opened the folder before; the commits of the other lineage looked like a past of its own."""
    driver = world.start()
    for _ in range(3):
        world.settle(driver, count=2)
    world.kill(driver)
    goes_back = world.wish(restore=a_restore(snapshot="checkpoint:1", nonce="back"))
    sleeper = world.begin(
        goes_back, arm=lambda one: one.arm(faults.Kind.FREEZE, after=0, matches="out/_commits/", name="create")
    )
    world.until_up(sleeper)
    assert sleeper.is_frozen
    world.copy_area("a", "b")
    other = world.start(world.wish("b"))
    world.settle(other, count=3)

    world.wake(sleeper)

    assert sleeper.outcome.startswith("FENCED"), sleeper.outcome
    world.judge_sinks(other)
    world.judge()
