"""Lives of a job: whatever happens in whichever state of an upgrade, the promises hold and the job comes to rest."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statefulspark_operator.api.status import UpgradeState
from walks import POLICIES, STEPS, Step, Walk

MOMENTS = (
    *(
        ("Warm", state)
        for state in ("Prepare", "Ready", "SavepointPreCopy", "Stopping", "Activating", "FirstCheckpoint")
    ),
    *(("Cold", state) for state in ("Savepoint", "Stopping", "Starting")),
    ("Warm", "Blocked"),
)
DISTURBANCES: tuple[Step, ...] = (
    ("change the image", 0),
    ("change the image", 2),
    ("change the image", 3),
    ("restart", 5),
    ("savepoint", 1),
    ("suspend or resume", 2),
    ("kill the driver", 1),
    ("the driver fails", 1),
    ("delete the driver's pod", 1),
    ("the standby ends", 1),
    ("the standby ends", 2),
    ("the driver is silent", 25),
    ("the driver lingers", 1),
    ("a batch hangs", 1),
    ("savepoints fail or work", 2),
    ("savepoints take their time", 20),
    ("failed savepoints are waited for or not", 1),
    ("a node is lost or back", 2),
    ("a node is lost or back", 1),
    ("storage is away or back", 2),
    ("the operator dies soon", 1),
    ("the operator is away", 30),
    ("delete", 30),
)
_OTHER_CHANGES = ("change the image", "a node is lost or back", "the standby ends")
MEANWHILE = tuple(step for step in DISTURBANCES if step[0] not in _OTHER_CHANGES and "savepoints" not in step[0])
SEVERAL = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 30)), min_size=1, max_size=14)


@pytest.mark.parametrize(("mode", "state"), MOMENTS, ids=[f"{mode}, {state}" for mode, state in MOMENTS])
@pytest.mark.parametrize("disturbance", DISTURBANCES, ids=[f"{name} {number}" for name, number in DISTURBANCES])
def test_anything_may_happen_in_any_state_of_an_upgrade(mode: str, state: str, disturbance: Step) -> None:
    walk = Walk()
    walk.world.change({"upgrade": {"strategy": mode}})
    walk.run(20)
    walk.world.change({"image": "registry.example/flights:bad" if state == "Blocked" else "registry.example/flights:2"})
    assert walk.reach(UpgradeState(state))

    walk.take(disturbance)

    walk.settle()


CHANGES = (("Warm", 2), ("Warm", 3), ("Cold", 2))
"""The strategy, and the image that is asked for then: one that works, or one that cannot start."""
PAIRS = tuple(
    (*change, (first + second) % len(POLICIES), disturbance)
    for first, disturbance in enumerate(MEANWHILE)
    for second, change in enumerate(CHANGES)
)
"""Each disturbance meets each change and each policy once."""


@pytest.mark.parametrize(
    ("mode", "change", "policy", "disturbance"),
    PAIRS,
    ids=[f"{mode}, {change}, {POLICIES[policy]}, {' '.join(map(str, step))}" for mode, change, policy, step in PAIRS],
)
def test_anything_may_happen_while_a_savepoint_takes_too_long(
    mode: str, change: int, policy: int, disturbance: Step
) -> None:
    walk = Walk()
    walk.world.change({"upgrade": {"strategy": mode}})
    walk.take(("failed savepoints are waited for or not", policy))
    walk.run(20)
    walk.take(("savepoints take their time", 12))
    walk.world.change({"image": "registry.example/flights:2"})
    walk.run(70)

    walk.take(disturbance)
    walk.take(("change the image", change))

    walk.settle()


@settings(max_examples=25, suppress_health_check=list(HealthCheck), print_blob=True)
@given(SEVERAL)
def test_a_job_keeps_its_promises_and_comes_to_rest_whatever_happens(steps: list[Step]) -> None:
    walk = Walk()
    walk.run(20)

    for step in steps:
        walk.take(step)
        walk.run(1)

    walk.settle()


def test_a_stop_that_was_not_heard_is_withdrawn_when_the_spec_changes_to_a_revision_that_cannot_start() -> None:
    walk = Walk()
    walk.run(20)
    walk.world.change({"image": "registry.example/flights:2"})
    assert walk.reach(UpgradeState.READY)
    walk.die_before_the_next_request()
    assert walk.world.status.operation is not None
    assert walk.world.driver.stop_id is None

    walk.take(("change the image", 3))
    walk.settle()

    assert (walk.world.driver.epoch, walk.world.driver.stop_id) == (1, None)


@pytest.mark.parametrize("corrected", [0, 2], ids=["the revision before", "another revision"])
def test_a_correction_that_comes_before_the_end_of_a_driver_that_cannot_start_is_carried_out(corrected: int) -> None:
    walk = Walk()
    walk.run(20)
    walk.world.change({"image": "registry.example/flights:2"})
    assert walk.reach(UpgradeState.STOPPING)
    walk.take(("change the image", 3))
    walk.run(1)

    walk.take(("change the image", corrected))
    walk.settle()

    assert walk.world.status.stalled is None


@pytest.mark.parametrize("mode", ["Warm", "Cold"])
def test_a_change_that_is_taken_back_after_its_savepoint_failed_is_over(mode: str) -> None:
    walk = Walk()
    walk.world.change({"upgrade": {"strategy": mode}})
    walk.run(20)
    walk.world.driver.savepoints_fail = True
    walk.world.change({"image": "registry.example/flights:2"})
    assert walk.reach(UpgradeState.SAVEPOINT_PRE_COPY if mode == "Warm" else UpgradeState.SAVEPOINT)
    walk.run(5)

    walk.take(("change the image", 0))
    walk.settle()

    assert walk.world.status.upgrade is not None
    assert walk.world.status.upgrade.state is UpgradeState.ABORTED
    assert walk.world.driver.epoch == 1
