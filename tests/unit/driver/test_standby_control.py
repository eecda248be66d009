"""What a standby answers: how far it is, who activated it, and everything else by the driver that it becomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakecontrol import NOON, FakeControl, a_status
from statefulspark import errors
from statefulspark.contract import api, config
from statefulspark.driver.starting.controls import StandbyControl

TAKE_8 = api.ActivateRequest(request_id="take-8", epoch=8)
BAD = errors.SpecRejectedError("KeyChanged", "The key of 'by-k' is another one.")


@pytest.fixture
def control() -> StandbyControl:
    job_config = config.JobConfig(name="words", storage=config.StorageConfig(uri="s3://bucket"), revision="r2")
    return StandbyControl(job_config, NOON)


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(errors.PreconditionFailedError) as raised:
        ask()
    return raised.value.reason


def test_a_standby_tells_how_far_it_is_and_owns_no_epoch(control: StandbyControl) -> None:
    warming = control.status()
    control.report_warm("counts")
    control.report_ready("checkpoint 41", NOON)

    assert (warming.state, warming.epoch, warming.generation) == (api.JobState.STANDBY, 0, 0)
    assert warming.standby == api.StandbyStatus(state=api.StandbyState.WARMING)
    assert (warming.message or "").startswith("Starting, since ")
    assert (control.status().message, control.status().progress) == (None, None)
    assert control.status().standby == api.StandbyStatus(
        state=api.StandbyState.READY, compared_with="checkpoint 41", ready_at=NOON, warmed_queries=("counts",)
    )
    assert control.is_alive()


def test_it_is_ready_since_the_first_time_and_says_what_troubles_it(control: StandbyControl) -> None:
    control.report_ready("checkpoint 41", NOON)
    control.report_failure(errors.TransientError("StorageUnreachable", "No answer."))
    troubled = control.status().standby
    control.report_ready("checkpoint 42", NOON.replace(hour=13))

    assert troubled is not None
    assert (troubled.state, troubled.reason) == (api.StandbyState.READY, "StorageUnreachable")
    told = control.status().standby
    assert told == api.StandbyStatus(state=api.StandbyState.READY, compared_with="checkpoint 42", ready_at=NOON)


def test_an_activation_is_accepted_once_and_repeated_as_often_as_it_is_lost(control: StandbyControl) -> None:
    first, again = control.request_activation(TAKE_8), control.request_activation(TAKE_8)

    assert first == again == control.operation("take-8")
    assert first == api.Operation(request_id="take-8", kind="Activation", state=api.OperationState.IN_PROGRESS)
    assert control.activation == TAKE_8
    assert (control.status().state, control.status().epoch, control.status().standby) == (
        api.JobState.STARTING,
        8,
        None,
    )


def test_an_activated_standby_says_which_step_of_its_start_it_is_at_and_a_ready_one_none(
    control: StandbyControl,
) -> None:
    control.report_ready("checkpoint 41", NOON)
    before = control.status()
    control.request_activation(TAKE_8)
    control.steps.begin("Restoring checkpoint 41")(api.Progress(unit="files", done=3, total=4))
    told = control.status()

    assert (before.message, before.progress) == (None, None)
    assert (told.message or "").startswith("Restoring checkpoint 41: 3 of 4 files, since ")
    assert told.progress == api.Progress(unit="files", done=3, total=4)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(api.ActivateRequest(request_id="take-9", epoch=9), id="for another epoch"),
        pytest.param(api.ActivateRequest(request_id="take-8", epoch=9), id="for another epoch by the same name"),
        pytest.param(api.ActivateRequest(request_id="mine", epoch=8), id="by another request"),
    ],
)
def test_a_standby_is_activated_by_one_request(control: StandbyControl, other: api.ActivateRequest) -> None:
    control.request_activation(TAKE_8)

    assert refused(lambda: control.request_activation(other)) == "AlreadyActivated"
    assert control.activation == TAKE_8


def test_a_standby_that_refuses_is_not_activated_until_it_fits(control: StandbyControl) -> None:
    control.refuse(BAD)
    told = control.status().standby

    assert told == api.StandbyStatus(state=api.StandbyState.REFUSED, reason=BAD.reason, message=BAD.message)
    with pytest.raises(errors.PreconditionFailedError, match="KeyChanged: The key of 'by-k'") as raised:
        control.request_activation(TAKE_8)
    assert raised.value.reason == "StandbyRefused"
    assert control.operation("take-8") is None
    control.report_warming()
    assert control.request_activation(TAKE_8).request_id == "take-8"


def test_what_only_a_driver_can_do_is_refused_until_it_is_one(control: StandbyControl) -> None:
    asked: tuple[Callable[[], object], ...] = (
        lambda: control.request_checkpoint(api.CheckpointRequest(request_id="a")),
        lambda: control.request_savepoint(api.SavepointRequest(request_id="b")),
        lambda: control.request_stop(api.StopRequest(request_id="c")),
    )

    assert [refused(ask) for ask in asked] == ["StandingBy"] * 3
    assert control.checkpoints().counts.completed == 0
    assert (control.batches().queries, control.state().operators) == ((), ())
    assert (control.checkpoint(1), control.operation("a")) == (None, None)

    driver = FakeControl()
    control.hand_over(driver, TAKE_8)
    for ask in asked:
        ask()
    assert [request.request_id for request in driver.started] == ["a", "b", "c"]
    assert control.operation("b") == driver.operation("b")


def test_the_driver_that_it_becomes_answers_and_the_activation_is_known_for_ever(control: StandbyControl) -> None:
    driver = FakeControl()
    control.request_activation(TAKE_8)
    control.hand_over(driver, TAKE_8)
    driver.alive = False

    again = control.request_activation(TAKE_8)

    assert (again.state, again.request_id) == (api.OperationState.COMPLETED, "take-8")
    assert refused(lambda: control.request_activation(api.ActivateRequest(request_id="x", epoch=9))) == (
        "AlreadyActivated"
    )
    assert control.status() == a_status()
    assert not control.is_alive()
    assert control.checkpoints() == driver.checkpoints()
    assert (control.batches(), control.state()) == (driver.batches(), driver.state())
    assert driver.started == []
