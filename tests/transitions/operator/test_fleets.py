"""A change of many jobs at once, in front of one operator: what waits, what goes down, and what a restart remembers."""

from __future__ import annotations

import pytest
from fleetworld import FleetWorld, Trouble
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import UpgradeState

JOBS = 8
BAD, GOOD = "i:bad", "i:good"


def running(*, limit: int | None = 3, strategy: str = "Warm", spread: int = 1) -> FleetWorld:
    world = FleetWorld(JOBS, limit=limit, strategy=strategy, standby_room=4, spread=spread)
    world.run_until(world.is_stable, within_s=90)
    world.watch()
    return world


def answer(world: FleetWorld, kind: ConditionType, number: int = -1) -> tuple[ConditionStatus, str]:
    status = list(world.jobs.values())[number].status
    (condition,) = (condition for condition in status.conditions if condition.type is kind)
    return condition.status, condition.reason


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize(("strategy", "down", "reason"), [("Warm", 0, "UpgradeBlocked"), ("Cold", 1, "RolledBack")])
def test_a_bad_image_reaches_one_job(trouble: Trouble, strategy: str, down: int, reason: str) -> None:
    world = running(strategy=strategy)
    world.bad[BAD] = trouble
    world.change({"image": BAD})
    world.run(60)

    assert (world.most_down, len(world.down)) == (down, down)
    assert world.reasons() == {reason: 1, "UpgradeHalted": JOBS - 1}
    assert answer(world, ConditionType.RECONCILING) == (ConditionStatus.TRUE, "UpgradeHalted")
    assert answer(world, ConditionType.STALLED)[0] is ConditionStatus.FALSE
    assert world.rollouts.waiting == {"UpgradeHalted": JOBS - 1}
    assert [event.reason for event in world.cluster.events].count("UpgradeHalted") == JOBS - 1


def test_without_a_limit_a_bad_image_takes_all_jobs_down() -> None:
    world = running(limit=None, strategy="Cold")
    world.bad[BAD] = Trouble.CRASHES
    world.change({"image": BAD})
    world.run(30)

    assert len(world.down) == JOBS


def test_a_halted_job_whose_driver_is_lost_goes_on_with_the_old_image() -> None:
    world = running()
    world.bad[BAD] = Trouble.CRASHES
    world.change({"image": BAD})
    world.run(20)
    last = list(world.jobs.values())[-1]
    last.kill_driver()
    world.run(20)

    assert (last.status.epoch, answer(world, ConditionType.READY)) == (2, (ConditionStatus.FALSE, "UpgradeHalted"))
    assert world.images() == {"registry.example/flights:1": JOBS}


def test_the_next_operator_keeps_a_halt_and_the_limit() -> None:
    world = running()
    world.bad[BAD] = Trouble.CRASHES
    world.change({"image": BAD})
    world.run(20)
    world.replace_operator()
    world.run(10)

    assert world.reasons() == {"UpgradeBlocked": 1, "UpgradeHalted": JOBS - 1}
    assert world.states() == {"Blocked": 1}


def test_a_good_image_reaches_all_jobs_also_through_operators_that_die() -> None:
    world = running()
    world.change({"image": GOOD})
    for _ in range(4):
        world.run(25)
        world.replace_operator()
        assert sum(world.states()[state] for state in UpgradeState if state not in ("Stable", "Aborted")) <= 3
    world.run_until(lambda: world.images() == {GOOD: JOBS}, within_s=200)

    assert world.most_upgrading <= 3


def test_correcting_the_job_that_failed_lets_the_others_follow() -> None:
    world = running()
    world.bad[BAD] = Trouble.CRASHES
    world.change({"image": BAD})
    world.run(20)
    blocked = next(iter(world.jobs.values()))
    assert blocked.status.upgrade is not None
    assert blocked.status.upgrade.state is UpgradeState.BLOCKED

    world.bad.clear()
    blocked.change({"restartNonce": "again"})

    world.run_until(lambda: world.images() == {BAD: JOBS}, within_s=200)


def test_going_back_to_the_old_spec_ends_the_wait() -> None:
    world = running()
    world.bad[BAD] = Trouble.CRASHES
    world.change({"image": BAD})
    world.run(20)
    world.change({"image": "registry.example/flights:1"})
    world.run(10)

    assert world.reasons() == {"Running": JOBS}
    assert world.rollouts.waiting == {}
    assert {job.status.epoch for job in world.jobs.values()} == {1}


def test_a_namespace_tries_an_image_for_itself() -> None:
    world = running(spread=2)
    world.bad[BAD] = Trouble.CRASHES
    world.change({"image": BAD})
    world.run(30)

    assert world.states() == {"Blocked": 2}
