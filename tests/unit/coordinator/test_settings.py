"""New settings of a running job: the next periodic checkpoint, those that wait, and how many are retained."""

from __future__ import annotations

from datetime import timedelta

import pytest
from coordination import Run, a_checkpoint
from statefulspark.contract.config import CheckpointConfig
from statefulspark.coordinator import model


def configure(run: Run, now_s: float, **changes: object) -> tuple[model.Command, ...]:
    settings = model.CoordinatorSettings.read(CheckpointConfig.model_validate({"interval": "10s", **changes}))
    return run.send(model.Configured(now_s, settings))


@pytest.mark.parametrize(
    ("interval", "due_s"),
    [
        pytest.param("2s", 7.0, id="a shorter interval counts from the change"),
        pytest.param("1h", 10.0, id="a longer one counts from the next checkpoint"),
    ],
)
def test_a_new_interval_never_postpones_what_is_due(interval: str, due_s: float) -> None:
    run = Run(interval_s=10, first_delay_s=10)

    configure(run, 5.0, interval=interval)

    assert run.state.next_trigger_at_s == due_s


def test_a_request_that_waits_begins_when_more_may_run_at_once() -> None:
    run = Run()
    run.begin(a_checkpoint("first"))
    assert run.request(a_checkpoint("second")) == ()

    commands = configure(run, 1.0, max_concurrent=2)

    assert [type(command) for command in commands] == [model.Begin]


def test_fewer_are_retained_from_the_next_checkpoint_on() -> None:
    run = Run(kept=3, next_id=4, retained=(1, 2, 3))

    configure(run, 1.0, retention={"count": 1})
    run.complete(a_checkpoint())

    assert run.state.retained == (4,)


def test_a_job_that_does_not_run_yet_schedules_nothing() -> None:
    run = Run(started=False)

    configure(run, 1.0, interval=timedelta(seconds=1))

    assert run.state.next_trigger_at_s is None
