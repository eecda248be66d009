"""What a refusal, an abort and a failure tell the one who asked: which request, what happened, what is missing."""

from __future__ import annotations

import pytest
from coordination import PARTICIPANTS, Run, a_checkpoint, a_periodic, a_savepoint
from statefulspark.coordinator import machine, model, requests
from statefulspark.coordinator.model import AbortReason

_SETTINGS = model.CoordinatorSettings(interval_s=10, min_pause_s=8)


@pytest.mark.parametrize(
    ("state", "request_", "told"),
    [
        pytest.param(
            model.State(_SETTINGS, 1),
            a_savepoint(),
            requests.Drop(
                a_savepoint(), AbortReason.NOT_ALL_REQUIRED_TASKS_RUNNING, "Not all queries of the job are running."
            ),
            id="A.92 before every query runs",
        ),
        pytest.param(
            model.State(_SETTINGS, 1, PARTICIPANTS),
            a_periodic(),
            requests.Drop(
                a_periodic(),
                AbortReason.PERIODIC_SCHEDULER_SHUTDOWN,
                "Periodic checkpoints are not scheduled now.",
            ),
            id="A.88 (2) while nothing is scheduled",
        ),
        pytest.param(
            model.State(_SETTINGS, 1, PARTICIPANTS, periodic=True, last_completion_at_s=15),
            a_periodic(),
            requests.Drop(
                a_periodic(),
                AbortReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS,
                "The minimum pause after the last completion has 3.0 s to go.",
                retry_at_s=23,
            ),
            id="A.73 within the pause",
        ),
    ],
)
def test_a_refusal_names_the_request_and_what_it_waits_for(
    state: model.State, request_: model.Request, told: requests.Drop
) -> None:
    assert requests.decide(machine.replace(state, queue=(request_,)), 20) == told


def test_a_refusal_reaches_the_one_who_asked_as_it_was_decided() -> None:
    """A.92."""
    assert Run(started=False).request(a_savepoint("mine")) == (
        model.Refuse(
            a_savepoint("mine"), AbortReason.NOT_ALL_REQUIRED_TASKS_RUNNING, "Not all queries of the job are running."
        ),
    )


@pytest.mark.parametrize(
    ("event", "message"),
    [
        pytest.param(model.Declined(1, 1, "delays", "closing"), "delays declined: closing", id="A.107 declined"),
        pytest.param(model.ParticipantFailed(1, "delays", "full"), "delays failed: full", id="A.109 failed"),
        pytest.param(model.TriggerFailed(1, 1, "503", is_storage=True), "503", id="A.93 not triggered"),
        pytest.param(model.FinalizeFailed(1, 1, "denied"), "denied", id="A.104 not finalized"),
        pytest.param(
            model.Tick(30, PARTICIPANTS),
            "Checkpoint expired before completing: it was triggered 30 s ago and still waits for counts, delays.",
            id="A.94 expired",
        ),
        pytest.param(model.Stopped(1), "The job stopped running.", id="A.86 stopped"),
        pytest.param(model.ShutDown(1), "The driver is shutting down.", id="A.88 (1) going down"),
    ],
)
def test_an_abort_tells_what_happened(event: model.Event, message: str) -> None:
    run = Run(timeout_s=30, first_delay_s=10_000, tolerable_failures=1)
    run.begin(a_checkpoint())

    (told,) = [one.message for one in run.send(event) if isinstance(one, model.NotifyAborted)]

    assert told == message


def test_an_expiry_while_the_manifest_is_written_says_so() -> None:
    """A.94: every participant has answered, so none of them is to blame."""
    run = Run(timeout_s=30, first_delay_s=10_000, tolerable_failures=1)
    run.begin(a_checkpoint())
    run.ack_all(1)

    (aborted,) = run.tick(30)

    assert isinstance(aborted, model.NotifyAborted)
    assert aborted.message.endswith("and still waits for the manifest.")


@pytest.mark.parametrize(
    ("end", "reason", "message"),
    [
        pytest.param(
            model.Stopped(0),
            AbortReason.CHECKPOINT_COORDINATOR_SUSPEND,
            "The job stopped running.",
            id="A.86 when a query stops",
        ),
        pytest.param(
            model.ShutDown(0),
            AbortReason.CHECKPOINT_COORDINATOR_SHUTDOWN,
            "The driver is shutting down.",
            id="A.88 (1) at shutdown",
        ),
    ],
)
def test_the_end_tells_those_who_wait_why(end: model.Event, reason: AbortReason, message: str) -> None:
    run = Run()
    run.begin(a_checkpoint("pending"))
    run.request(a_checkpoint("waiting"))

    assert run.send(end)[:2] == (
        model.Refuse(a_checkpoint("waiting"), reason, message),
        model.NotifyAborted(1, a_checkpoint("pending"), reason, message),
    )


def test_a_driver_that_goes_down_tells_each_new_request_so() -> None:
    """A.88 (1)."""
    run = Run()
    run.send(model.ShutDown(0))

    assert run.request(a_savepoint("late")) == (
        model.Refuse(a_savepoint("late"), AbortReason.CHECKPOINT_COORDINATOR_SHUTDOWN, "The driver is shutting down."),
    )
