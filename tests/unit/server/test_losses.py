"""What would be lost if the driver ended now."""

from __future__ import annotations

import pytest
from fakecontrol import NOON, a_status, a_summary, some_batches
from statefulspark.contract import api, observations
from statefulspark.server import losses

_NONE = observations.Batches()


def _a_sink(pending: int) -> api.SinkStatus:
    return api.SinkStatus(query="counts", uid="out", pending_transactions=pending)


def test_a_running_job_loses_no_state_and_says_after_which_batch_it_goes_on() -> None:
    told = losses.tell(a_status(), _NONE)

    assert told.verdict is observations.LossVerdict.NOTHING
    assert told.sentences == (
        "No state: the next driver goes on after the newest committed batch (counts 12, or later). Only a running batch is "
        "done again, from the same rows of its sources.",
    )


def test_a_job_without_a_committed_batch_names_none() -> None:
    status = a_status(queries=(api.QueryStatus(uid="counts", active=True, batch_id=-1),))

    told = losses.tell(status, _NONE)

    assert told.sentences[0].startswith("No state: the next driver goes on after the newest committed batch. Only")
    assert told.queries == (observations.QuerySinceCheckpoint(uid="counts", batches=0, rows=0),)


@pytest.mark.parametrize(
    ("pending", "said"),
    [(1, "No output: 1 prepared transaction waits for"), (3, "No output: 3 prepared transactions wait for")],
)
def test_prepared_transactions_wait_and_are_not_lost(pending: int, said: str) -> None:
    told = losses.tell(a_status(last_checkpoint=a_summary(), sinks=(_a_sink(pending),)), _NONE)

    assert told.sentences[1].startswith(said)
    assert told.pending_transactions == pending


def test_a_sink_without_a_waiting_transaction_has_shown_everything() -> None:
    told = losses.tell(a_status(last_checkpoint=a_summary(number=41), sinks=(_a_sink(0),)), _NONE)

    assert told.sentences[1:] == ("No output: sinks have shown everything up to checkpoint 41.",)


def test_before_the_first_checkpoint_sinks_have_shown_nothing() -> None:
    told = losses.tell(a_status(sinks=(_a_sink(2),)), _NONE)

    assert (
        told.sentences[-1]
        == "No checkpoint has completed yet, so sinks that show output at checkpoints have shown none."
    )


def test_batches_and_rows_since_the_checkpoint_are_counted() -> None:
    behind = a_summary(number=41).model_copy(update={"batches": {"counts": 10}})

    told = losses.tell(a_status(last_checkpoint=behind), some_batches(newest=12, count=5))

    assert (told.checkpoint, told.checkpoint_at) == (41, behind.completed_at)
    assert told.queries == (observations.QuerySinceCheckpoint(uid="counts", batches=2, rows=200),)


def test_rows_that_the_driver_does_not_remember_are_not_guessed() -> None:
    behind = a_summary().model_copy(update={"batches": {"counts": 2}})

    told = losses.tell(a_status(last_checkpoint=behind), some_batches(newest=12, count=5))

    assert told.queries == (observations.QuerySinceCheckpoint(uid="counts", batches=10),)


def test_a_running_batch_is_named_because_it_would_be_done_again() -> None:
    query = api.QueryStatus(uid="counts", active=True, batch_id=12, batch_since=NOON)

    told = losses.tell(a_status(queries=(query,), last_checkpoint=a_summary()), _NONE)

    assert told.queries == (observations.QuerySinceCheckpoint(uid="counts", batches=0, rows=0, running_batch=13),)


@pytest.mark.parametrize("state", list(api.JobState))
def test_every_state_is_explained(state: api.JobState) -> None:
    told = losses.tell(a_status(state=state), _NONE)

    unknown = state is api.JobState.STARTING
    assert told.verdict is (observations.LossVerdict.UNKNOWN if unknown else observations.LossVerdict.NOTHING)
    assert told.sentences
    assert all(sentence.endswith(".") for sentence in told.sentences)
