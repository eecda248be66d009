"""What a refusal, an abort and a failure tell the one who asked: which request, what happened, what is missing."""

from __future__ import annotations

import pytest
from coordination import PARTICIPANTS, Run, a_checkpoint, a_periodic, a_savepoint
from statefulspark.coordinator import model
from statefulspark.coordinator.model import AbortReason


def test_a_periodic_checkpoint_within_the_pause_is_refused_with_what_it_waits_for() -> None:
    """A.73."""
    run = Run(interval_s=10, min_pause_s=8, first_delay_s=20)
    run.complete(a_checkpoint(), now_s=15)

    assert run.tick(20) == (
        model.Refuse(
            a_periodic(20),
            AbortReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS,
            "The minimum pause after the last completion has 3.0 s to go.",
        ),
    )


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
        pytest.param(
            model.Failed(1, 1, AbortReason.FINALIZE_CHECKPOINT_FAILURE, "denied"), "denied", id="A.104 not finalized"
        ),
        pytest.param(
            model.Tick(30, PARTICIPANTS),
            "Checkpoint expired before completing: it began 30 s ago and still waits for counts, delays.",
            id="A.94 expired",
        ),
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
    run.ack(1)

    (aborted,) = run.tick(30)

    assert isinstance(aborted, model.NotifyAborted)
    assert aborted.message.endswith("and still waits for the manifest.")


def test_the_end_of_the_driver_refuses_what_waits_and_aborts_what_is_pending() -> None:
    """A.86, A.88 (1)."""
    run = Run()
    run.begin(a_checkpoint("pending"))
    run.request(a_checkpoint("waiting"))
    reason, message = AbortReason.CHECKPOINT_COORDINATOR_SHUTDOWN, "The driver is shutting down."

    assert run.send(model.ShutDown(0)) == (
        model.Refuse(a_checkpoint("waiting"), reason, message),
        model.NotifyAborted(1, a_checkpoint("pending"), reason, message),
    )
