"""What keeps a job from ever starting is an event, once, and `Stalled` where a person has to act; all of it passes."""

from __future__ import annotations

import pytest
from jobworld import KEY, JobWorld
from obstacles import OBSTACLES, forbid_pods, forbid_secrets
from statefulspark.contract.faults import Fault
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase
from statefulspark_operator.telemetry import metrics


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_keeps_a_job_from_starting_is_an_event_and_stalled_where_a_person_has_to_act(name: str) -> None:
    obstacle, world = OBSTACLES[name], JobWorld()
    remove = obstacle.begin(world)

    world.run(600)

    answers = {answer.type: answer for answer in world.status.conditions}
    stalled = answers[ConditionType.STALLED].status is ConditionStatus.TRUE
    assert (stalled, answers[ConditionType.READY].status) == (obstacle.needs_a_person, ConditionStatus.FALSE)
    assert not (stalled and answers[ConditionType.RECONCILING].status is ConditionStatus.TRUE), (
        "kstatus asks this first"
    )
    assert world.reasons.count(obstacle.reason) == 1
    assert next(event for event in world.cluster.events if event.reason == obstacle.reason).is_warning
    remove()
    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=400)
    assert (
        next(one for one in world.status.conditions if one.type is ConditionType.STALLED).status
        is ConditionStatus.FALSE
    )


def stalled(world: JobWorld) -> tuple[ConditionStatus, str]:
    answer = world.status.condition(ConditionType.STALLED)
    assert answer is not None
    return answer.status, answer.reason


@pytest.mark.parametrize("strategy", ["Warm", "Cold"])
def test_a_change_whose_pods_are_forbidden_stops_nothing_and_is_carried_out_when_they_are_allowed(
    strategy: str,
) -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    allow = forbid_pods("PodSecurityViolated")(world)

    world.change({"image": "flights:2", "upgrade": {"strategy": strategy}})
    world.run(400)

    assert stalled(world) == (ConditionStatus.TRUE, "PodSecurityViolated")
    assert (world.status.phase, world.driver.epoch, world.driver.has_ended) == (Phase.RUNNING, 1, False)
    assert world.reasons.count("PodSecurityViolated") == 1
    allow()
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING, within_s=400)
    assert stalled(world)[0] is ConditionStatus.FALSE


def test_a_running_job_whose_token_the_operator_may_not_read_says_so_until_it_may() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    allow = forbid_secrets(world)
    world.replace_operator()  # It has no token in memory.

    world.run(400)

    ready = world.status.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "RightMissing")
    assert stalled(world) == (ConditionStatus.TRUE, "RightMissing")
    assert world.reasons.count("RightMissing") == 1
    allow()
    world.run_until(lambda: stalled(world)[0] is ConditionStatus.FALSE, within_s=400)
    assert world.status.phase is Phase.RUNNING


def test_a_hot_standby_that_a_quota_refuses_does_not_make_the_job_unready() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    allow = forbid_pods("QuotaExceeded")(world)
    world.change({"driver": {"standby": True}})
    world.run(30)
    before = world.status.condition(ConditionType.READY)

    world.run(400)

    after = world.status.condition(ConditionType.READY)
    assert before is not None
    assert after == before, "it was ready all the time"
    assert after.status is ConditionStatus.TRUE
    assert world.status.standby is not None
    assert (world.status.standby.reason, world.status.standby.fault) == ("QuotaExceeded", Fault.SURROUNDINGS)
    assert world.reasons.count("QuotaExceeded") == 1
    allow()
    world.run_until(lambda: "StandbyReady" in world.reasons, within_s=400)


def test_a_standby_that_is_forbidden_while_it_is_made_is_stalled_until_it_is_allowed() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    world.change({"image": "flights:2", "upgrade": {"strategy": "Warm"}})
    world.run_until(lambda: bool(world.standbys))
    allow = forbid_pods("AdmissionDenied")(world)
    world.cluster.remove(("Pod", KEY.namespace, "flights-standby-1"))

    world.run(400)

    assert stalled(world) == (ConditionStatus.TRUE, "AdmissionDenied")
    reconciling = world.status.condition(ConditionType.RECONCILING)
    assert reconciling is not None
    assert reconciling.status is ConditionStatus.FALSE, "kstatus asks this first"
    assert (world.status.phase, world.driver.epoch) == (Phase.RUNNING, 1)
    allow()
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING, within_s=400)


def test_a_revision_that_ran_and_is_forbidden_when_it_starts_again_is_stalled_in_status_and_metrics() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    allow = forbid_pods("LimitRangeExceeded")(world)
    world.kill_driver()

    world.run(400)

    exposed = metrics.render(world.gauges.families())
    assert stalled(world) == (ConditionStatus.TRUE, "LimitRangeExceeded")
    assert world.status.phase is Phase.STALLED
    assert 'statefulspark_job_condition{condition="Stalled",job_name="flights",job_namespace="demo"} 1' in exposed
    assert world.reasons.count("LimitRangeExceeded") == 1
    allow()
    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=400)
    assert stalled(world)[0] is ConditionStatus.FALSE
