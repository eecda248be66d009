"""What a driver answers while it starts: the step it is at; and afterwards what its loop answers."""

from __future__ import annotations

import http.client
from collections.abc import Callable

import pytest
from fakecontrol import NOON, FakeControl, a_status, served
from statefulspark import errors
from statefulspark.contract import api, config
from statefulspark.driver.starting.controls import StartControl


@pytest.fixture
def control() -> StartControl:
    job_config = config.JobConfig(name="words", storage=config.StorageConfig(uri="s3://bucket"), revision="r2")
    return StartControl(job_config, NOON, epoch=8)


def probed(url: str, path: str) -> int:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(errors.PreconditionFailedError) as raised:
        ask()
    return raised.value.reason


def test_a_driver_that_restores_says_how_far_it_is(control: StartControl) -> None:
    begun = control.status()
    report = control.steps.begin("Restoring checkpoint 41")
    report(api.Progress(unit="files", done=120, total=512))
    told = control.status()

    assert (begun.state, begun.epoch, begun.message) == (api.JobState.STARTING, 8, "Starting, since 12:00:00 UTC.")
    assert (begun.revision, begun.progress) == ("r2", None)
    assert (told.message or "").startswith("Restoring checkpoint 41: 120 of 512 files, since ")
    assert told.progress == api.Progress(unit="files", done=120, total=512)


def test_the_refusal_of_a_request_says_how_far_the_start_is(control: StartControl) -> None:
    control.steps.begin("Planning the queries")(api.Progress(unit="queries", done=1, total=3))

    with pytest.raises(errors.PreconditionFailedError, match="Planning the queries: 1 of 3 queries, since "):
        control.request_checkpoint(api.CheckpointRequest(request_id="cp-1"))


def test_a_restore_of_any_length_is_alive_and_not_ready(control: StartControl) -> None:
    with served(control) as url:
        assert probed(url, "/healthz") == 200
        assert probed(url, "/readyz") == 503


def test_what_needs_a_running_job_is_refused_until_it_runs(control: StartControl) -> None:
    stop = api.StopRequest(request_id="stop-1")
    checkpoint, savepoint = api.CheckpointRequest(request_id="cp-1"), api.SavepointRequest(request_id="sp-1")
    activation = api.ActivateRequest(request_id="take-8", epoch=8)

    assert refused(lambda: control.request_stop(stop)) == "StillStarting"
    assert refused(lambda: control.request_checkpoint(checkpoint)) == "StillStarting"
    assert refused(lambda: control.request_savepoint(savepoint)) == "StillStarting"
    assert refused(lambda: control.request_activation(activation)) == "StillStarting"
    assert (control.operation("stop-1"), control.checkpoint(1)) == (None, None)
    assert control.checkpoints().counts == api.CheckpointCounts()
    assert (control.batches().queries, control.state().operators) == ((), ())
    assert control.config() is not None


def test_the_loop_answers_from_the_moment_it_takes_over(control: StartControl) -> None:
    driver = FakeControl()
    control.hand_over(driver)

    assert control.status() == a_status()
    control.request_stop(api.StopRequest(request_id="stop-1"))
    control.request_checkpoint(api.CheckpointRequest(request_id="cp-1"))
    control.request_savepoint(api.SavepointRequest(request_id="sp-1"))
    control.request_activation(api.ActivateRequest(request_id="take-8", epoch=8))
    assert [request.request_id for request in driver.started] == ["stop-1", "cp-1", "sp-1", "take-8"]
    assert control.operation("stop-1") == driver.operation("stop-1")
    assert control.checkpoints() == driver.checkpoints()
    assert (control.batches(), control.state()) == (driver.batches(), driver.state())
    assert control.checkpoint(1) is None
    driver.alive = False
    assert not control.is_alive()
