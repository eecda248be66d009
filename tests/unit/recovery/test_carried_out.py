"""A restore that was carried out is never carried out again, whatever the job has done since: storage remembers it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.recovery import generations
from statefulspark.recovery.plan import ReadyState, StartMode


def running(job: Job, plan: ReadyState, batches: int = 2) -> FakeQuery:
    """Run the job on from a start, with a checkpoint at the end."""
    query = FakeQuery(job.store, plan.generation)
    query.batch = dict(plan.start_batches).get("delays", -1)
    for _ in range(batches):
        query.run_batch()
    query.upload_snapshots()
    job.checkpoint(query)
    return query


def stopped(job: Job, query: FakeQuery, upgrade: int) -> RestoreConfig:
    """Stop the job for an upgrade; the operator asks for the savepoint under an id of its own."""
    return a_restore(snapshot=job.savepoint(query).uri, nonce=f"uid-upgrade-{upgrade}")


def upgraded_in_place(job: Job, query: FakeQuery) -> FakeQuery:
    plan = job.boot(stopped(job, query, 1))
    assert plan.mode is StartMode.CONTINUE
    return running(job, plan)


def upgraded_into_a_copy(job: Job, query: FakeQuery) -> FakeQuery:
    plan = job.boot(stopped(job, query, 2), changes=("Operator 'sum' is new.",))
    assert plan.generation > query.generation
    return running(job, plan)


def changed(job: Job, query: FakeQuery) -> FakeQuery:
    plan = job.boot(changes=("Operator 'sum' is new.",))
    assert plan.generation > query.generation
    return running(job, plan)


def gone_elsewhere(job: Job, query: FakeQuery) -> FakeQuery:
    running(job, job.boot())
    return running(job, job.boot(a_restore(snapshot="checkpoint:1", nonce="another")))


def fallen_back(job: Job, query: FakeQuery) -> FakeQuery:
    newest = running(job, job.boot())
    job.store.delete_many([f"{newest.path}/commits/{newest.batch}"])
    plan = job.boot()
    assert plan.fallback is not None
    return running(job, plan)


def nothing(job: Job, query: FakeQuery) -> FakeQuery:
    return query


@pytest.mark.parametrize("fresh", [False, True], ids=["from a savepoint", "with empty state"])
@pytest.mark.parametrize(
    "later",
    [
        pytest.param((nothing,), id="nothing"),
        pytest.param((upgraded_in_place,), id="an upgrade in place"),
        pytest.param((upgraded_in_place, upgraded_in_place, upgraded_into_a_copy), id="three upgrades"),
        pytest.param((changed,), id="a change without a stop"),
        pytest.param((gone_elsewhere, upgraded_in_place), id="another restore, and an upgrade"),
        pytest.param((fallen_back,), id="a fallback to an older checkpoint"),
    ],
)
def test_a_restore_that_the_spec_still_asks_for_is_not_repeated_when_the_resource_is_made_anew(
    fresh: bool, later: tuple[Callable[[Job, FakeQuery], FakeQuery], ...]
) -> None:
    job = Job()
    old = job.savepoint(running(job, job.boot())).uri
    asked = a_restore(empty=True, nonce="hash") if fresh else a_restore(snapshot=old, nonce="hash")
    query = running(job, job.boot(asked))
    for change in later:
        query = change(job, query)

    again = job.boot(asked)

    assert (again.mode, again.generation) == (StartMode.CONTINUE, query.generation)
    assert again.start_batches == {"delays": query.batch}
    assert again.restore_skipped is not None
    assert "was done before" in again.restore_skipped


def test_a_root_that_was_copied_remembers_what_was_carried_out_in_it() -> None:
    job = Job()
    query = running(job, job.boot())
    asked = a_restore(empty=True, nonce="hash")
    running(job, job.boot(asked))
    for info in job.store.list(""):
        job.bucket.child("default/moved").write(info.key, job.store.read(info.key))
    moved = Job(clock=job.clock)
    moved.bucket, moved.store = job.bucket, job.bucket.child("default/moved")

    assert query.batch == 1
    assert moved.boot(asked).restore_skipped is not None


def test_a_restore_with_a_new_name_is_carried_out_and_remembered_too() -> None:
    job = Job()
    running(job, job.boot())
    asked = a_restore(snapshot="checkpoint:1", nonce="first")
    running(job, job.boot(asked))

    plan = job.boot(asked.model_copy(update={"nonce": "second"}))

    record = generations.read_all(job.store).current
    assert record is not None
    assert (plan.generation, record.carried_out) == (3, ("first", "second"))
    assert layout.generation_record(3)
