"""The history keeps what the job can go back to, whatever fails after it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some
from jobworld import JobWorld
from situations import NOW, an_upgrade
from statefulspark_operator.api.status import Phase, RevisionOutcome, StatefulSparkJobStatus, UpgradeState
from statefulspark_operator.lifecycle import history

STABLE, BLOCKED, ROLLED_BACK = RevisionOutcome.STABLE, RevisionOutcome.BLOCKED, RevisionOutcome.ROLLED_BACK
HOUR = timedelta(hours=1)


def after(*attempts: RevisionOutcome, apart: timedelta = HOUR) -> list[str]:
    """Return the history after a first revision `r0` and attempts `r1`, `r2` and so on, newest first."""
    status = StatefulSparkJobStatus()
    status = status.model_copy(update={"history": history.begun(status, "r0", image="i:0", restore=None, now=NOW)})
    for number, outcome in enumerate(attempts, start=1):
        status = with_attempt(status, number, outcome, apart)
    return [f"{record.revision} {record.outcome}" for record in status.history]


def with_attempt(
    status: StatefulSparkJobStatus, number: int, outcome: RevisionOutcome, apart: timedelta
) -> StatefulSparkJobStatus:
    upgrade = an_upgrade(UpgradeState.STABLE, f"r{number}")
    revisions = history.add_upgrade(status, upgrade, outcome, now=NOW + number * apart)
    return status.model_copy(update={"history": revisions})


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        pytest.param((), ["r0 Running"], id="the first revision"),
        pytest.param((STABLE,), ["r1 Stable", "r0 Replaced"], id="the first one never became stable"),
        pytest.param(
            (STABLE, *[BLOCKED] * 7),
            ["r8 Blocked", "r7 Blocked", "r6 Blocked", "r5 Blocked", "r4 Blocked", "r1 Stable"],
            id="a day of broken changes",
        ),
        pytest.param(
            (STABLE, ROLLED_BACK, *[STABLE] * 5),
            ["r7 Stable", "r6 Stable", "r5 Stable", "r4 Stable", "r3 Stable", "r2 RolledBack", "r0 Replaced"],
            id="five good ones and the failed ones between them",
        ),
    ],
)
def test_the_history_after(attempts: tuple[RevisionOutcome, ...], expected: list[str]) -> None:
    assert after(*attempts) == expected


def test_failed_attempts_are_forgotten_after_a_month_and_what_ran_well_is_not() -> None:
    assert after(STABLE, BLOCKED, BLOCKED, apart=timedelta(days=29)) == ["r3 Blocked", "r2 Blocked", "r1 Stable"]
    assert after(STABLE, BLOCKED, BLOCKED, apart=timedelta(days=31)) == ["r3 Blocked", "r1 Stable"]


def test_a_revision_that_ran_and_was_left_before_it_was_stable_has_a_record_with_its_own_image() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    world.change({"upgrade": {"strategy": "Cold", "stableAfterCheckpoints": 50}, "image": "i:2"})
    world.run_until(lambda: is_at(world, UpgradeState.FIRST_CHECKPOINT))
    world.change({"image": "i:3", "upgrade": {"stableAfterCheckpoints": 2}})

    world.run_until(lambda: is_at(world, UpgradeState.STABLE) and world.status.epoch == 3)

    records = [(record.image, record.outcome) for record in world.status.history]
    assert records[:2] == [("i:3", STABLE), ("i:2", RevisionOutcome.REPLACED)]


def is_at(world: JobWorld, state: UpgradeState) -> bool:
    return world.status.upgrade is not None and world.status.upgrade.state is state


@given(some.lists(some.sampled_from([STABLE, BLOCKED, ROLLED_BACK]), max_size=30))
def test_the_revision_that_runs_is_always_there(attempts: list[RevisionOutcome]) -> None:
    stable = [number for number, outcome in enumerate(attempts, start=1) if outcome is STABLE]
    runs = f"r{stable[-1]} Stable" if stable else "r0 Running"

    assert runs in after(*attempts)
