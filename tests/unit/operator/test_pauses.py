"""How long an upgrade left the output standing still: from the last batch before it to the first after it."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

import pytest
from situations import (
    LONG_AGO,
    NOW,
    OTHER,
    a_driver,
    a_situation,
    a_word,
    an_operation,
    an_upgrade,
    warm,
)
from statefulspark.contract.api import JobState, QueryStatus
from statefulspark_operator.api.status import (
    OperationPhase,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import announcements, observed, upgrade_facts
from statefulspark_operator.lifecycle.situation import Situation

ASKED = NOW - timedelta(seconds=22)
LAST = NOW - timedelta(seconds=20)
FIRST = NOW - timedelta(seconds=1)
HALF_AN_HOUR_AGO = NOW - timedelta(minutes=30)


def length(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def committed(situation: Situation, *commits: datetime | None) -> Situation:
    """Let the driver answer that its queries committed their last batches then."""
    queries = tuple(
        QueryStatus(uid=f"query-{number}", active=True, batch_id=number, last_commit_at=commit)
        for number, commit in enumerate(commits)
    )
    return dataclasses.replace(situation, driver=a_word(JobState.RUNNING).model_copy(update={"queries": queries}))


def upgrading(state: UpgradeState, *commits: datetime | None, new: bool, **known: object) -> Situation:
    """Make an upgrade at a step, in which the old or the new revision's driver answers."""
    upgrade = an_upgrade(state, **known)
    driver = a_driver(revision=OTHER) if new else a_driver()
    operation = an_operation(OperationPhase.COMPLETED, requested_at=ASKED)
    made = a_situation(spec=warm(), driver=driver, upgrade=upgrade, operation=operation)
    return committed(made, *commits)


def measured(situation: Situation) -> UpgradeStatus:
    upgrade = situation.status.upgrade
    assert upgrade is not None
    return upgrade_facts.current_upgrade(situation, upgrade, has_checkpoint=False)


def test_the_last_batch_of_the_old_revision_is_noted_once_it_is_asked_to_stop() -> None:
    assert measured(upgrading(UpgradeState.SAVEPOINT, LONG_AGO, LAST, None, new=False)).last_commit_at == LAST
    assert measured(upgrading(UpgradeState.PREPARE, LAST, new=False)).last_commit_at is None


PAUSES: list[tuple[str, dict[str, object], tuple[datetime | None, ...], float | None]] = [
    ("from the last batch to the first, and not to the driver that runs", {"last_commit_at": LAST}, (FIRST,), 19.0),
    ("the first batch is any query's", {"last_commit_at": LAST}, (None, FIRST), 19.0),
    ("without a batch there is none yet", {"last_commit_at": LAST}, (None,), None),
    ("an old revision without input: from the stop", {"last_commit_at": HALF_AN_HOUR_AGO}, (FIRST,), 21.0),
    ("an old revision that committed nothing: from the stop", {}, (FIRST,), 21.0),
    ("clocks that differ give no negative pause", {"last_commit_at": NOW}, (FIRST,), 0.0),
    (
        "a first batch that is known stays the first",
        {"last_commit_at": LAST, "first_commit_at": LAST, "pause": timedelta(seconds=3)},
        (FIRST,),
        3.0,
    ),
]


@pytest.mark.parametrize(
    ("known", "commits", "pause_s"), [case[1:] for case in PAUSES], ids=[case[0] for case in PAUSES]
)
def test_the_pause_ends_with_the_first_output(
    known: dict[str, object], commits: tuple[datetime | None, ...], pause_s: float | None
) -> None:
    found = measured(upgrading(UpgradeState.STARTING, *commits, new=True, **known))

    assert found.pause == length(pause_s)


def test_the_old_revisions_batches_are_no_batches_of_the_new_one() -> None:
    found = measured(upgrading(UpgradeState.STARTING, FIRST, new=False, last_commit_at=LAST))

    assert (found.first_commit_at, found.pause) == (None, None)


@pytest.mark.parametrize("state", [UpgradeState.FIRST_CHECKPOINT, UpgradeState.STABLE])
@pytest.mark.parametrize(
    ("checkpoint_at", "pause_s"),
    [
        pytest.param(FIRST - timedelta(seconds=5), 19.0, id="of what the start left, seen before the first batch"),
        pytest.param(FIRST - timedelta(minutes=2), None, id="long before there was input"),
        pytest.param(None, None, id="of a moment that nobody knows"),
    ],
)
def test_the_first_checkpoint_may_be_seen_before_the_first_batch(
    state: UpgradeState, checkpoint_at: datetime | None, pause_s: float | None
) -> None:
    upgrade = measured(upgrading(state, FIRST, new=True, last_commit_at=LAST, first_checkpoint_at=checkpoint_at))

    assert (upgrade.state, upgrade.pause) == (state, length(pause_s))


@pytest.mark.parametrize(
    ("pause_s", "told"),
    [
        (19.0, "complete; 19s from the last batch of the old revision to the first of the new one."),
        (None, "complete; the new revision has committed no batch yet, so the pause is unknown."),
    ],
    ids=["with input", "without input"],
)
def test_the_event_says_what_was_measured(pause_s: float | None, told: str) -> None:
    before = StatefulSparkJobStatus(upgrade=an_upgrade(UpgradeState.STARTING))
    after = StatefulSparkJobStatus(upgrade=an_upgrade(UpgradeState.FIRST_CHECKPOINT, pause=length(pause_s)))

    (completed,) = announcements.announcements(before, after)

    assert completed.reason == "UpgradeCompleted"
    assert completed.message.endswith(told)


def test_measuring_again_changes_nothing() -> None:
    once = observed.fold(upgrading(UpgradeState.STARTING, FIRST, new=True, last_commit_at=LAST))

    assert observed.fold(once) == once
