"""What master hooks are restored with: the answers of the snapshot that the job goes on from."""

from __future__ import annotations

from manifests import a_manifest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark.checkpoint import catalog, closure, savepoint
from statefulspark.contract.manifest import Manifest, MasterStateEntry
from statefulspark.recovery.plan import StartMode


def answer(number: int) -> tuple[MasterStateEntry, ...]:
    return (MasterStateEntry.encode("shop", number, b"page %d" % number),)


def a_checkpoint_with_answers(job: Job, query: FakeQuery, number: int) -> Manifest:
    entry = closure.close_over(job.store, query.path, query.batch)
    writer = {"generation": query.generation, "epoch": max(job.epoch, 1), "claim": job.claim_id}
    manifest = a_manifest(number, [entry], now=job.clock.now, **writer)
    catalog.write_checkpoint(job.store, manifest.model_copy(update={"master_states": answer(number)}))
    return manifest


def a_savepoint_with_answers(job: Job, query: FakeQuery, number: int) -> savepoint.SavepointTarget:
    return job.savepoint(query, number, master_states=answer(number))


def test_a_job_goes_on_with_the_answers_of_its_checkpoint(job: Job) -> None:
    a_checkpoint_with_answers(job, job.running(1), 1)

    assert job.start().master_states == answer(1)


def test_what_a_recovery_completes_has_the_answers_of_the_checkpoint_before(job: Job) -> None:
    query = job.running(1)
    a_checkpoint_with_answers(job, query, 1)
    query.run_batch()

    plan = job.start()

    assert plan.restored is not None
    assert (plan.restored.id, plan.restored.master_states, plan.master_states) == (2, answer(1), answer(1))
    assert job.start().master_states == answer(1)


def test_a_restored_savepoint_brings_its_answers_until_the_next_checkpoint(job: Job) -> None:
    """Copied into a new generation: a crash before the first checkpoint finds them in its record."""
    query = job.running(1)
    place = a_savepoint_with_answers(job, query, 1)
    query.run_batch()
    a_checkpoint_with_answers(job, query, 2)

    plan = job.start(a_restore(snapshot=place.uri, nonce="go-back"))
    savepoint.dispose(place.store, place.folder)
    after_a_crash = job.start(a_restore(snapshot=place.uri, nonce="go-back"))

    assert (plan.mode, plan.master_states) == (StartMode.COPY, answer(1))
    assert after_a_crash.master_states == answer(1)


def test_a_savepoint_that_is_continued_in_place_brings_its_answers_too(job: Job) -> None:
    query = job.running(1)
    a_checkpoint_with_answers(job, query, 1)
    query.run_batch()
    wish = a_restore(snapshot=a_savepoint_with_answers(job, query, 2).uri, nonce="go-on")

    plan, after_a_crash = job.start(wish), job.start(wish)
    query.run_batch()
    a_checkpoint_with_answers(job, query, after_a_crash.next_snapshot_id)

    assert (plan.mode, plan.master_states) == (StartMode.CONTINUE, answer(2))
    assert after_a_crash.master_states == answer(2)
    third = job.start(wish)
    assert third.master_states == answer(after_a_crash.next_snapshot_id), third.fallback
