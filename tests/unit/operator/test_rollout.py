"""When a change of a job waits for those of other jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    RestartStatus,
    RevisionOutcome,
    RevisionRecord,
    StallStatus,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.engine.rollouts import Rollouts
from statefulspark_operator.lifecycle import rollout
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.rollout import Member

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEGUN = NOW - timedelta(minutes=2)
OLD, NEW = "i:1", "i:2"
RUNNING = Member("demo", NEW, upgrades_since=BEGUN, stable_with=frozenset({OLD}))
STABLE = Member("demo", NEW, stable_with=frozenset({OLD, NEW}))
FAILED = Member("demo", NEW, failure="BadJob", stable_with=frozenset({OLD}))
QUIET = Member("demo", OLD, stable_with=frozenset({OLD}))
ASKING = Member("demo", NEW, stable_with=frozenset({OLD}))
STALE = Member("demo", NEW, upgrades_since=NOW - timedelta(hours=1), stable_with=frozenset({OLD}))


def elsewhere(job: Member) -> Member:
    return Member("other", job.image, job.upgrades_since, job.failure, job.stable_with)


@pytest.mark.parametrize(
    ("others", "asking", "reason"),
    [
        pytest.param([QUIET] * 5, ASKING, None, id="a new image is tried by the first job that asks"),
        pytest.param([RUNNING], ASKING, Reason.UPGRADE_QUEUED, id="while one tries it, no other does"),
        pytest.param([STABLE, RUNNING], ASKING, Reason.UPGRADE_QUEUED, id="one has proven it: one tries it"),
        pytest.param([STABLE] * 2 + [RUNNING], ASKING, None, id="two have proven it: two may try it"),
        pytest.param([STABLE] * 9 + [RUNNING] * 4, ASKING, Reason.UPGRADE_QUEUED, id="never more than the limit"),
        pytest.param([elsewhere(RUNNING)] * 3, ASKING, None, id="other namespaces try it for themselves"),
        pytest.param([elsewhere(RUNNING)] * 4, ASKING, Reason.UPGRADE_QUEUED, id="but they count for the limit"),
        pytest.param([STALE] * 4, ASKING, None, id="an upgrade without an end counts for an hour"),
        pytest.param([FAILED], ASKING, Reason.UPGRADE_HALTED, id="the first that fails halts it"),
        pytest.param([FAILED] + [STABLE] * 8, ASKING, Reason.UPGRADE_HALTED, id="so does one in nine"),
        pytest.param([FAILED] + [STABLE] * 9, ASKING, None, id="one in ten may fail"),
        pytest.param([elsewhere(FAILED)], ASKING, None, id="another namespace halts nothing here"),
        pytest.param([FAILED, RUNNING], QUIET, None, id="a job that has been stable with its image has no slow start"),
        pytest.param([RUNNING] * 4, QUIET, Reason.UPGRADE_QUEUED, id="but it counts for the limit"),
    ],
)
def test_when_a_change_waits(others: list[Member], asking: Member, reason: Reason | None) -> None:
    members = {f"{job.namespace}/job-{number}": job for number, job in enumerate(others)}

    queued = rollout.queue("flights", asking, rollout.tally(members), limit=4, now=NOW)

    assert (queued.reason if queued is not None else None) is reason


def test_the_message_names_the_job_in_which_the_image_failed() -> None:
    queued = rollout.queue("flights", ASKING, rollout.tally({"demo/b": FAILED, "demo/a": FAILED}), limit=4, now=NOW)

    assert queued is not None
    assert queued.message == (
        "The upgrade to the image i:2 is halted, because it failed in a (BadJob). flights keeps running as it is. Change "
        "the image, or correct a; the other jobs follow then."
    )


def status_with(
    state: UpgradeState | None = None,
    *,
    image: str = NEW,
    outcome: RevisionOutcome | None = None,
    requested: str = "r2",
    stalled: bool = False,
    running: str = "r1",
    charged: int = 0,
    is_available: bool = True,
    history: tuple[RevisionRecord, ...] | None = None,
) -> StatefulSparkJobStatus:
    records: tuple[RevisionRecord, ...] = (
        RevisionRecord(revision="r1", image=OLD, outcome=RevisionOutcome.STABLE, at=BEGUN),
    )
    if outcome is not None:
        records = (RevisionRecord(revision="r2", image=image, outcome=outcome, at=NOW), *records)
    upgrade = UpgradeStatus(
        from_revision="r1", to_revision="r2", generation=2, state=state or UpgradeState.STABLE, requested_at=BEGUN
    )
    driver = DriverIntent(epoch=1, revision=running, state=DriverState.CREATED, decided_at=BEGUN, pod="p")
    available = Condition(
        type=ConditionType.AVAILABLE,
        status=ConditionStatus.TRUE if is_available else ConditionStatus.FALSE,
        reason="R",
        message="",
        last_transition_time=BEGUN,
        observed_generation=1,
    )
    return StatefulSparkJobStatus(
        driver=driver,
        upgrade=upgrade if state is not None else None,
        update_revision=requested,
        history=records if history is None else history,
        stalled=StallStatus(generation=2, reason="RollbackNeeded", message="m") if stalled else None,
        restarts=RestartStatus(charged=charged),
        conditions=(available,),
    )


@pytest.mark.parametrize(
    ("status", "member"),
    [
        pytest.param(status_with(), ASKING, id="no upgrade"),
        *(
            pytest.param(status_with(state), RUNNING, id=f"{state.value}: it runs")
            for state in UpgradeState
            if state.value not in ("Stable", "RolledBack", "Blocked", "Aborted")
        ),
        pytest.param(status_with(UpgradeState.STABLE, outcome=RevisionOutcome.STABLE), STABLE, id="stable"),
        pytest.param(status_with(UpgradeState.ABORTED), ASKING, id="aborted: it neither runs nor failed"),
        pytest.param(
            status_with(UpgradeState.BLOCKED, outcome=RevisionOutcome.BLOCKED),
            Member("demo", NEW, failure="Blocked", stable_with=frozenset({OLD})),
            id="blocked: the image failed",
        ),
        pytest.param(
            status_with(UpgradeState.STARTING, stalled=True),
            Member("demo", NEW, failure="RollbackNeeded", stable_with=frozenset({OLD})),
            id="it failed, and a person is to roll it back",
        ),
        pytest.param(status_with(UpgradeState.BLOCKED, requested="r3"), ASKING, id="given up for another change"),
        pytest.param(status_with(UpgradeState.PREPARE, requested="r3"), ASKING, id="replaced by another change"),
    ],
)
def test_what_a_job_means_for_the_others(status: StatefulSparkJobStatus, member: Member) -> None:
    assert rollout.member("demo", NEW, status) == member


def test_a_failure_of_something_else_says_nothing_about_an_image_that_was_stable() -> None:
    status = status_with(UpgradeState.BLOCKED, image=OLD, outcome=RevisionOutcome.BLOCKED)

    assert rollout.member("demo", OLD, status) == QUIET


WRITTEN: dict[str, object] = {"image": NEW, "job": {"file": "/x.py"}, "storage": {"uri": "s3://state/jobs"}}
SPEC = StatefulSparkJobSpec.model_validate(WRITTEN)
SUSPENDED = StatefulSparkJobSpec.model_validate({**WRITTEN, "suspend": True})
RESTORING = StatefulSparkJobSpec.model_validate({**WRITTEN, "restore": {"source": {"checkpointID": 3}}})


@pytest.mark.parametrize(
    ("status", "spec", "asks"),
    [
        pytest.param(status_with(), SPEC, True, id="a job that works asks"),
        pytest.param(status_with(running="r2"), SPEC, False, id="nothing to change"),
        pytest.param(status_with(), SUSPENDED, False, id="a suspended job stops nothing"),
        pytest.param(status_with(), RESTORING, False, id="a restore is one person's decision"),
        pytest.param(status_with(UpgradeState.PREPARE), SPEC, False, id="it has begun"),
        pytest.param(status_with(UpgradeState.SAVEPOINT, requested="r3"), SPEC, False, id="its driver stops already"),
        pytest.param(status_with(charged=1), SPEC, False, id="its revision fails"),
        pytest.param(status_with(stalled=True), SPEC, False, id="it is stalled"),
        pytest.param(status_with(is_available=False), SPEC, True, id="its node was lost: it goes on as it was"),
        pytest.param(status_with(is_available=False, history=()), SPEC, False, id="it has never run well"),
        pytest.param(StatefulSparkJobStatus(), SPEC, False, id="it has never started"),
    ],
)
def test_which_change_has_to_ask(status: StatefulSparkJobStatus, spec: StatefulSparkJobSpec, asks: bool) -> None:
    assert rollout.must_ask(status, spec, "r2") is asks


def test_a_change_that_was_let_go_counts_before_it_is_recorded() -> None:
    rollouts = Rollouts(limit=1)
    first, second = JobKey("demo", "a"), JobKey("demo", "b")

    assert rollouts.ask(first, NEW, NOW) is None
    assert rollouts.ask(second, NEW, NOW) is not None
    assert rollouts.ask(first, NEW, NOW) is None


def test_those_that_wait_hear_of_an_end_first_those_of_namespaces_with_few_upgrades() -> None:
    rollouts = Rollouts(limit=2)
    busy, quiet = [JobKey("busy", name) for name in "abcd"], JobKey("quiet", "a")
    for key in busy[:2]:
        rollouts.note(key, NEW, status_with(UpgradeState.PREPARE))
    for key in (*busy[2:], quiet):
        rollouts.note(key, NEW, status_with(), rollouts.ask(key, NEW, NOW))

    assert rollouts.waiting == {"UpgradeQueued": 3}
    assert rollouts.running == 2
    assert rollouts.note(busy[0], NEW, status_with(UpgradeState.STABLE)) == (quiet, busy[2])
    assert rollouts.note(busy[0], NEW, status_with(UpgradeState.STABLE)) == ()
    assert rollouts.forget(busy[1]) == (busy[2], busy[3])


def test_without_a_limit_nothing_waits() -> None:
    rollouts = Rollouts()
    rollouts.note(JobKey("demo", "a"), NEW, status_with(UpgradeState.PREPARE))

    assert rollouts.ask(JobKey("demo", "b"), NEW, NOW) is None
    assert rollouts.running == 1
