"""What keeps a job from ever starting is an event, once, and `Stalled` where a person has to act; all of it passes."""

from __future__ import annotations

import pytest
from jobworld import JobWorld
from obstacles import OBSTACLES
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase


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
