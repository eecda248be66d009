"""An empty root starts empty; one whose state is gone does not."""

from __future__ import annotations

import pytest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import doctor, errors
from statefulspark.checkpoint import epochs
from statefulspark.contract import layout
from statefulspark.recovery.plan import StartMode
from statefulspark.retention import rules
from statefulspark.testing import stores

WRITES = frozenset({"create", "write", "delete"})


def lose(job: Job, *folders: str) -> None:
    """Delete folders, as somebody does who cleans up in the wrong place."""
    job.store.delete_many([info.key for folder in folders for info in job.store.list(folder)])


def a_job_with_state() -> Job:
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    query.run_batch()
    job.checkpoint(query)
    return job


@pytest.mark.parametrize("also", [(), (layout.OWNER,)], ids=["the owner is known", "nor an owner"])
def test_a_root_that_has_epochs_and_no_state_any_more_does_not_start_empty(also: tuple[str, ...]) -> None:
    job = a_job_with_state()
    lose(job, layout.GENERATIONS, layout.CHECKPOINTS)
    job.store.delete_many(also)

    with pytest.raises(errors.StateUnknownError, match=r"epochs/began\.json.*generations/.*checkpoints/") as raised:
        job.boot()

    assert raised.value.reason == "StateMissing"
    assert job.boot(a_restore(empty=True)).mode is StartMode.EMPTY
    assert job.boot().mode is StartMode.CONTINUE


def test_a_root_whose_epochs_are_gone_too_is_known_by_what_a_driver_left_while_it_ran() -> None:
    job = a_job_with_state()
    job.store.write(layout.PRUNE_MARKS, b"{}")
    lose(job, layout.GENERATIONS, layout.CHECKPOINTS, layout.EPOCHS)

    with pytest.raises(errors.StateUnknownError, match="prune/"):
        job.boot()


def test_a_first_start_that_dies_anywhere_before_its_queries_run_can_be_repeated() -> None:
    """A root that never held state starts empty however often its first start dies."""
    for number in range(1, 12):
        for plan in (stores.Plan(crash_before=number, only=WRITES), stores.Plan(crash_after=number, only=WRITES)):
            job = Job()
            dying = job.on(stores.FaultyStore(job.bucket, plan))
            try:
                dying.boot()
            except stores.CrashPoint:
                assert job.boot().mode in (StartMode.EMPTY, StartMode.CONTINUE)
                assert job.boot().mode is StartMode.CONTINUE


def test_every_start_before_a_query_runs_leaves_word() -> None:
    job = a_job_with_state()
    job.store.delete_many([layout.BEGAN])

    job.boot()
    lose(job, layout.GENERATIONS, layout.CHECKPOINTS)

    with pytest.raises(errors.StateUnknownError, match="began"):
        job.boot()


def test_numbers_that_were_skipped_are_no_trace_of_state() -> None:
    job = Job()
    epochs.claim(job.store, assigned=5, holder="pod", claim_id="a", now=job.clock.now)

    assert job.boot().mode is StartMode.EMPTY


def test_the_doctor_names_what_is_missing() -> None:
    job = a_job_with_state()
    lose(job, layout.GENERATIONS, layout.CHECKPOINTS)

    found = doctor.forecast(job.store, doctor.Examination(job.clock.now, rules.PrunePolicy()))

    assert not found.possible
    assert "neither generations/ nor checkpoints/" in found.sentence
