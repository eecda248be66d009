"""What the plugin finds wrong, and what it tells people to do: for every state that the operator can report."""

from __future__ import annotations

import json

import pytest
import situationcases
import standbycases
from kubectlworld import (
    a_condition,
    a_recorded_driver,
    a_snapshot,
    a_stored_job,
    a_stored_pod,
    a_stored_status,
    a_view,
    a_waiting_pod,
    an_event,
    before,
    not_ready,
)
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.restore import EmptyState, RestoreSource
from statefulspark_operator.api.status import DriverState, Phase, RestoreIntent, StallStatus
from statefulspark_operator.kubectl import findings, losses, pages, reports
from statefulspark_operator.kubectl.findings import ADVICE, Finding
from statefulspark_operator.kubectl.view import Surroundings, View, read
from statefulspark_operator.lifecycle import decide
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import Situation

SITUATIONS = {
    f"{rule}: {name}": situation
    for cases in (situationcases.CASES, standbycases.CASES)
    for rule, named in cases.items()
    for name, situation in named.items()
}


def seen(situation: Situation) -> View:
    """Return what the plugin sees after the operator's pass in a situation."""
    decision = decide.decide(situation)
    job = a_stored_job(decision.status, generation=situation.job.generation)
    if situation.job.deletion_requested_at is not None:
        job["metadata"] |= {"deletionTimestamp": situation.job.deletion_requested_at.isoformat()}  # type: ignore[operator]
    return read(job, Surroundings(), now=situation.now)


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_state_of_the_operator_has_a_page_and_one_that_is_not_ready_says_why(name: str) -> None:
    view = seen(SITUATIONS[name])
    report = reports.status(view)

    assert pages.status(report).startswith("demo/flights\n")
    assert pages.why(reports.why(view))
    assert report.lost_now
    assert report.ready or report.findings
    assert json.loads(report.to_json())["phase"] == report.phase


def test_every_reason_of_the_operator_has_a_next_step_or_needs_none() -> None:
    assert set(ADVICE) == set(Reason)


def test_advice_names_the_job() -> None:
    advice = [findings.advice_for(a_view(), reason.word) or "" for reason in Reason]

    assert [text for text in advice if "{" in text] == []
    assert any("kubectl statefulspark rollback flights -n demo" in text for text in advice)


@pytest.mark.parametrize(
    ("view", "found"),
    [
        pytest.param(a_view(pods=(a_stored_pod(),)), (), id="a job that runs well"),
        pytest.param(
            a_view(a_stored_status(conditions=not_ready("Unschedulable", "no room", minutes=3))),
            (("Unschedulable", "no room"),),
            id="not ready, in the operator's words",
        ),
        pytest.param(
            a_view(
                a_stored_status(
                    phase=Phase.STALLED,
                    conditions=not_ready("DriverRefused", "line 17"),
                    stalled=StallStatus(generation=4, reason="JobFileRaised", message="line 17"),
                )
            ),
            (("JobFileRaised", "line 17"),),
            id="stalled, by the driver's reason and not by the operator's",
        ),
        pytest.param(
            a_view(
                a_stored_status(
                    conditions=(
                        *not_ready("RolledBack", "it failed"),
                        a_condition(ConditionType.STALLED, ConditionStatus.TRUE, "RolledBack", "it failed"),
                        a_condition(ConditionType.UPGRADE_BLOCKED, ConditionStatus.TRUE, "Raised", "it failed"),
                    )
                )
            ),
            (("RolledBack", "it failed"),),
            id="one sentence in three conditions is told once",
        ),
        pytest.param(
            a_view(
                a_stored_status(
                    conditions=(
                        a_condition(ConditionType.READY, ConditionStatus.TRUE),
                        a_condition(ConditionType.CHECKPOINT_HEALTHY, ConditionStatus.FALSE, "Declined", "sink 'out'"),
                    )
                )
            ),
            (("Declined", "sink 'out'"),),
            id="ready, but its checkpoints fail",
        ),
        pytest.param(
            a_view(a_stored_status(fallback="checkpoint 51 does not verify")),
            (("FellBack", "checkpoint 51 does not verify"),),
            id="ready, from older state than the newest",
        ),
        pytest.param(
            a_view(a_stored_status(restore_skipped="it was done before")),
            (("RestoreSkipped", "it was done before"),),
            id="ready, without the restore of the spec",
        ),
        pytest.param(
            a_view(pods=(a_waiting_pod("ImagePullBackOff", "not found"),)),
            (("ImageUnavailable", "flights-driver-7 cannot start (ImagePullBackOff): not found"),),
            id="a pod without its image, before the operator says so",
        ),
        pytest.param(
            a_view(pods=(a_waiting_pod("ContainerCreating"),)), (), id="a container that is being created is no problem"
        ),
        pytest.param(
            a_view(
                pods=(a_waiting_pod("ContainerCreating"),),
                events=(
                    an_event("FailedMount", "no volume", before(seconds=9), about="flights-driver-7", kind="Warning"),
                ),
            ),
            (("ContainerWaiting", "flights-driver-7 waits (FailedMount): no volume"),),
            id="a container that is being created, with a warning",
        ),
    ],
)
def test_what_is_wrong_is_found(view: View, found: tuple[tuple[str, str], ...]) -> None:
    assert tuple((finding.reason, finding.message) for finding in findings.find(view)) == found


def test_a_job_that_no_operator_has_seen_says_how_to_find_the_operator() -> None:
    (finding,) = findings.find(a_view(a_stored_status(observed_generation=None, conditions=())))

    assert finding.reason == "NotObserved"
    assert finding.advice is not None
    assert "kubectl get pods -A -l app.kubernetes.io/name=statefulspark-operator" in finding.advice


def test_a_change_that_was_not_seen_yet_is_not_ready_although_the_status_says_so() -> None:
    report = reports.status(a_view(generation=5))

    assert (report.ready, report.ready_since, report.findings[0].reason) == (False, None, "NotObserved")


def test_an_unknown_reason_of_a_stalled_job_leads_to_the_log() -> None:
    view = a_view(a_stored_status(phase=Phase.STALLED, conditions=not_ready("NeverHeardOf", "something")))

    assert findings.find(view) == (
        Finding(
            reason="NeverHeardOf",
            message="something",
            since=before(hours=3),
            advice="Correct the job, and apply it with its new image. To see the driver's log: kubectl statefulspark logs "
            "flights -n demo",
        ),
    )


GONE = a_recorded_driver(state=DriverState.ENDED, end_reason="StateMissing", end_message="gone", exit_code=17)
REFUSED = a_recorded_driver(state=DriverState.ENDED, end_reason="StateOwnedByAnother", end_message="no", exit_code=2)


@pytest.mark.parametrize(
    ("view", "lost"),
    [
        pytest.param(
            a_view(), "No state: the next driver continues after the newest committed batch (counts 1200, or", id="runs"
        ),
        pytest.param(a_view(a_stored_status(phase=None)), "Nothing: the job has not been started.", id="never started"),
        pytest.param(
            a_view(
                a_stored_status(
                    phase=Phase.SUSPENDED, restore=RestoreIntent(id="x", source=RestoreSource(uri="s3://b/43"))
                )
            ),
            "Nothing: no driver runs. A start continues from s3://b/43.",
            id="suspended",
        ),
        pytest.param(
            a_view(
                a_stored_status(
                    phase=Phase.SUSPENDED, restore=RestoreIntent(id="x", source=RestoreSource(empty=EmptyState()))
                )
            ),
            "Nothing: no driver runs. A start continues from empty state",
            id="suspended, with an empty start asked for",
        ),
        pytest.param(
            a_view(a_stored_status(phase=Phase.STOPPED, last_checkpoint=a_snapshot(51))),
            "Nothing: no driver runs. A start continues from checkpoint 51.",
            id="all queries ended",
        ),
        pytest.param(
            a_view(a_stored_status(phase=Phase.SUSPENDED), pods=(a_stored_pod(),)),
            "No state: the next driver continues",
            id="a driver that is still stopping",
        ),
        pytest.param(
            a_view(a_stored_status(phase=Phase.STALLED, driver=GONE)),
            "Unknown: the last driver could not read the state",
            id="state that a driver could not read is not promised",
        ),
        pytest.param(
            a_view(a_stored_status(phase=Phase.STALLED, driver=REFUSED)),
            "Nothing: the state there belongs to another resource",
            id="state of another resource is not promised",
        ),
        pytest.param(
            a_view(
                a_stored_status(
                    conditions=(a_condition(ConditionType.STORAGE_REACHABLE, ConditionStatus.FALSE, "Away", minutes=6),)
                )
            ),
            "Unknown: storage has not been readable for 6m.",
            id="storage that does not answer",
        ),
    ],
)
def test_what_would_be_lost_is_told_first(view: View, lost: str) -> None:
    assert losses.tell(view)[0].startswith(lost)


def test_what_going_back_to_the_savepoint_would_undo_is_counted_in_batches() -> None:
    assert losses.tell(a_view())[-1] == "Going back to savepoint 43 would undo 3h12m: 300 batches of counts."


def test_a_job_whose_deletion_deletes_its_state_says_so() -> None:
    view = a_view(spec={**a_view().raw_spec, "deletionPolicy": "Delete"})

    assert (
        losses.tell(view)[-1]
        == "Everything, including its savepoints, if the job is deleted: deletionPolicy is Delete."
    )
