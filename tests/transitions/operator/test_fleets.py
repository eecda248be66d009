"""A change of many jobs at once, in front of one operator: what waits, what goes down, and what a restart remembers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleetworld import FleetWorld, Trouble
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.lifecycle.pace import Pace
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

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


PACE = Pace(per_minute=30)
"""A start in two seconds, and five at once."""
MANY = 12


def fleet_of(count: int) -> FleetWorld:
    """Return jobs that run, and have not been started lately."""
    world = FleetWorld(count, limit=3, strategy="Cold", pace=PACE)
    world.run(40)
    world.watch()
    return world


def test_many_drivers_that_end_at_once_start_at_the_pace() -> None:
    world = fleet_of(MANY)
    before = len(world.cluster.events)
    world.lose_drivers(world.jobs)
    world.run(1)

    waiting = MANY - 5
    assert (sum(world.started.values()), world.starts.waiting) == (5, waiting)
    assert world.reasons()["StartQueued"] == waiting
    assert [event.reason for event in world.cluster.events[before:]].count("StartQueued") == waiting
    assert answer(world, ConditionType.RECONCILING) == (ConditionStatus.TRUE, "StartQueued")
    expected_at = world.time + timedelta(seconds=2 * waiting - 1)
    assert list(world.jobs.values())[-1].status.message == (
        "The start waits for its turn, because many jobs start at once. It is expected at about "
        f"{expected_at:%H:%M:%S} UTC."
    )

    world.run_until(lambda: world.images().total() == MANY, within_s=40)
    assert max(list(world.started.values())[1:]) == 1
    assert {job.status.epoch for job in world.jobs.values()} == {2}


def test_a_job_that_fails_alone_does_not_wait() -> None:
    world = fleet_of(MANY)
    first = next(iter(world.jobs))
    world.lose_drivers([first])
    world.run(1)

    assert world.jobs[first].status.epoch == 2
    assert sum(world.started.values()) == 1


def test_the_next_operator_goes_on_at_the_pace() -> None:
    world = fleet_of(MANY)
    world.lose_drivers(world.jobs)
    for _ in range(4):
        world.run(1)
        world.replace_operator()

    assert 5 <= sum(world.started.values()) <= 5 + 2


def test_a_job_that_waits_for_its_turn_is_suspended_and_deleted_at_once() -> None:
    world = fleet_of(MANY)
    world.lose_drivers(world.jobs)
    world.run(1)
    *_, suspended, deleted = world.jobs.values()
    suspended.change({"suspend": True})
    deleted.delete()
    before = world.starts.waiting
    world.run(1)

    assert (suspended.status.phase, deleted.exists) == (Phase.SUSPENDED, False)
    assert before - world.starts.waiting >= 2


def test_a_job_whose_driver_is_lost_starts_before_many_new_ones() -> None:
    world = fleet_of(1)
    lost = next(iter(world.jobs))
    world.add(JobKey("demo-0", f"new-{number}") for number in range(MANY))
    world.run(1)
    assert world.starts.waiting == MANY - 5
    world.lose_drivers([lost])
    world.run(3)

    assert world.jobs[lost].status.epoch == 2


def test_jobs_whose_storage_does_not_answer_hold_up_nobody_and_wait_for_their_turn_afterwards() -> None:
    world = fleet_of(MANY)
    away = list(world.jobs.values())[:-3]
    for job in away:
        job.storage.unreadable = StorageUnreadable("StorageUnreachable", "no answer")
    world.lose_drivers(world.jobs)
    world.run(30)
    assert sum(world.started.values()) == 3

    world.watch()
    for job in away:
        job.storage.unreadable = None
    world.run_until(lambda: world.images().total() == MANY, within_s=60)

    assert max(world.started.values()) <= 5


def test_a_store_that_goes_away_while_jobs_wait_for_their_turn_is_not_overrun_when_it_is_back() -> None:
    world = fleet_of(MANY)
    world.lose_drivers(world.jobs)
    world.run(1)
    for job in world.jobs.values():
        job.storage.unreadable = StorageUnreadable("StorageUnreachable", "no answer")
    world.run(40)
    assert sum(world.started.values()) == 5

    world.watch()
    for job in world.jobs.values():
        job.storage.unreadable = None
    world.run_until(lambda: world.images().total() == MANY, within_s=60)

    assert max(world.started.values()) <= 5
