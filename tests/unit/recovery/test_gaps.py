"""Logs of Spark with a gap: where a query goes on, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import verify
from statefulspark.recovery import gaps
from statefulspark.recovery.plan import ReadyState, StartMode
from statefulspark.testing import lagging


@pytest.mark.parametrize(
    ("planned", "committed", "missing"),
    [
        pytest.param((), -1, None, id="nothing was planned"),
        pytest.param((0,), -1, None, id="the first batch waits for its commit"),
        pytest.param((3, 4), 4, None, id="everything planned is committed"),
        pytest.param((3, 4, 5), 4, None, id="one batch waits for its commit"),
        pytest.param((3, 4, 6), 4, "offsets/5", id="the batch after the newest commit is gone"),
        pytest.param((3, 4, 5, 6), 4, "commits/5", id="its commit is gone"),
        pytest.param((6, 9), 4, "offsets/5", id="several are gone"),
        pytest.param((1,), -1, "offsets/0", id="the first one is gone"),
        pytest.param((2, 6), 6, None, id="a gap before the newest commit"),
    ],
)
def test_one_batch_at_most_waits_for_its_commit(planned: Collection[int], committed: int, missing: str | None) -> None:
    assert gaps.first_batch_gap(planned, committed) == missing


@pytest.mark.parametrize(
    ("entries", "position", "missing"),
    [
        pytest.param((), 0, None, id="no entry"),
        pytest.param((3, 4), 4, None, id="none after the position"),
        pytest.param((4, 5), 4, None, id="that of a planned batch"),
        pytest.param((4, 6), 4, 5, id="one is gone"),
        pytest.param((1, 4, 5), 4, None, id="one before the position is gone"),
    ],
)
def test_the_log_of_a_file_source_has_no_gap_after_what_was_read(
    entries: Collection[int], position: int, missing: int | None
) -> None:
    assert gaps.first_source_gap(entries, position) == missing


@pytest.mark.parametrize(
    ("planned", "partition"),
    [
        pytest.param(('{"a":{"0":7,"1":5}}', '{"logOffset":4}'), None, id="forwards"),
        pytest.param(('{"a":{"0":5,"1":5}}', '{"logOffset":4}'), None, id="no new records"),
        pytest.param(
            ('{"a":{"0":5,"1":5,"2":0},"b":{"0":0}}', '{"logOffset":4}'), None, id="new partitions and topics"
        ),
        pytest.param(('{"a":{"0":9,"1":4}}', '{"logOffset":4}'), "a-1", id="one partition goes back"),
        pytest.param(('{"a":{"0":9}}', '{"logOffset":4}'), "a-1", id="a partition is gone"),
        pytest.param(('{"b":{"0":9}}', '{"logOffset":4}'), "a-0", id="the topic is gone"),
        pytest.param(("-", '{"logOffset":4}'), "a-0", id="no position"),
        pytest.param(('{"a":{"0":9,"1":9}}', '{"logOffset":2}'), None, id="another source, with its own rules"),
        pytest.param(('{"logOffset":2}', '{"logOffset":2}'), None, id="other sources"),
    ],
)
def test_kafka_is_not_read_backwards(planned: Sequence[str], partition: str | None) -> None:
    assert gaps.first_way_back(('{"a":{"0":5,"1":5}}', '{"logOffset":3}'), planned) == partition


def after_batches(job: Job, batches: int = 4) -> FakeQuery:
    """Run a job with a checkpoint after its second batch."""
    query = FakeQuery(job.store, job.boot().generation)
    for number in range(batches):
        query.run_batch()
        if number == 1:
            job.checkpoint(query)
    return query


def lose(job: Job, query: FakeQuery, *names: str) -> None:
    job.store.delete_many([f"{query.path}/{name}" for name in names])


def require_start_after(job: Job, batch: int, gone: str) -> ReadyState:
    """Require that a start goes on after a batch, in a copy without what lies behind the gap, and that it says so."""
    plan = job.boot()
    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.COPY, 2, {"delays": batch})
    assert plan.fallback is not None
    assert gone in plan.fallback
    assert verify.verify_queries(job.store, plan.queries, deep=True).ok
    assert not [info for info in job.store.list("generations/00000002") if info.key.endswith(f"/{batch + 2}")]
    again = job.boot()
    assert (again.mode, again.generation, again.fallback) == (StartMode.CONTINUE, 2, None)
    return plan


def test_a_batch_that_was_planned_behind_a_gap_is_left_behind(job: Job) -> None:
    query = after_batches(job)
    query.batch += 1  # What the driver has seen, and storage has lost.
    query.plan_batch()

    require_start_after(job, 3, "offsets/4 does not exist")


def test_a_commit_that_is_gone_while_the_next_batch_is_planned_leaves_both_behind(job: Job) -> None:
    query = after_batches(job, 5)
    query.plan_batch()
    lose(job, query, "commits/4")

    require_start_after(job, 3, "commits/4 does not exist")


def test_a_gap_directly_after_the_checkpoint_leads_to_the_checkpoint(job: Job) -> None:
    query = after_batches(job, 3)
    query.plan_batch()
    lose(job, query, "commits/2", "offsets/2")

    require_start_after(job, 1, "offsets/2 does not exist")


def test_a_gap_in_the_log_of_a_file_source_is_left_behind(job: Job) -> None:
    query = after_batches(job, 3)
    for number in (0, 1, 2, 4):
        job.store.write(f"{query.path}/sources/0/{number}", b"v1\n{}")
    job.store.write(f"{query.path}/offsets/2", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":2}')

    require_start_after(job, 2, "sources/0/3 does not exist")


def test_a_batch_that_was_planned_while_kafka_had_too_few_records_is_planned_again(job: Job) -> None:
    query = after_batches(job)
    for batch, records in ((3, 20), (4, 17)):
        entry = f'v1\n{{"batchWatermarkMs":0}}\n{{"clicks":{{"0":{records}}}}}'
        job.store.write(f"{query.path}/offsets/{batch}", entry.encode())

    require_start_after(job, 3, "offsets/4 was planned while the Kafka partition clicks-0 had fewer records")


def test_a_job_that_has_lost_all_that_it_had_committed_does_not_begin_empty(job: Job) -> None:
    query = FakeQuery(job.store, job.boot().generation)
    query.run_batch()
    query.plan_batch()
    lose(job, query, "commits/0", "offsets/0")

    with pytest.raises(errors.SnapshotCorruptError, match="batch 1 was planned"):
        job.boot()


@pytest.mark.parametrize("lost", ["commits/2", "offsets/2"])
def test_a_gap_before_the_newest_commit_that_no_batch_needs_is_none(job: Job, lost: str) -> None:
    query = after_batches(job, 5)
    query.upload_snapshots()
    lose(job, query, lost)

    plan = job.boot()

    assert (plan.mode, dict(plan.start_batches), plan.fallback) == (StartMode.CONTINUE, {"delays": 4}, None)


def test_a_listing_that_lags_is_no_gap() -> None:
    real = Job()
    bucket = lagging.LaggingStore(real.bucket, 10**9)
    job = real.on(bucket)
    query = after_batches(job)
    job.store.write(f"{query.path}/offsets/3", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":0}')
    for number in (0, 2):
        job.store.write(f"{query.path}/sources/0/{number}", b"v1\n{}")
    bucket.catch_up()
    job.store.write(f"{query.path}/sources/0/1", b"v1\n{}")

    plan = job.boot()

    assert (plan.mode, plan.fallback) == (StartMode.CONTINUE, None)
