"""A rollback to the savepoint from which a failed version began: done where no row comes twice, else refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from machines import files_sink, iceberg_sink, kafka_sink, postgres_sink
from plannedqueries import a_planned_operator, a_planned_query
from restores import a_restore
from sinkcontexts import a_written_query
from sinkdrivers import QUERY, Driver
from snapshots import Clock, Job
from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import QueryEntry
from statefulspark.driver.starting import rollbacks, start_parts
from statefulspark.evolution import comparison
from statefulspark.recovery import recovery
from statefulspark.storage import StorageOptions
from statefulspark.testing import stores
from toldsinks import FakeSink, MarkedSink


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", Clock())


def stopped(bucket: stores.MemoryStore) -> str:
    """The old version runs three batches, and stops with a savepoint."""
    driver = Driver(bucket, Clock(), sink=FakeSink())
    driver.batch(3)
    return driver.savepoint()


def back_to(bucket: stores.MemoryStore, savepoint: str, output: object, *, rollback: bool = True) -> None:
    """Compare as a start does that goes back to a savepoint."""
    store = bucket.child("default/flights")
    restore = a_restore(snapshot=savepoint, nonce="rollback", rollback=rollback)
    plan = recovery.plan_recovery(
        store, restore=restore, open_store=lambda uri: Job(Clock()).on(bucket).open_store(uri)
    )
    root = start_parts.JobRoot(store, StorageOptions())
    planned = [_planned(query) for query in plan.queries]
    changes = comparison.compare(plan.queries, planned, label="it")
    rollbacks.require_harmless(restore, root, plan, changes, planned=planned, outputs={QUERY: output})


def _planned(query: QueryEntry) -> plans.PlannedQuery:
    operators = (a_planned_operator(found.uid, found.operator_id, name=found.name) for found in query.operators)
    return a_planned_query(*operators, uid=query.uid, sources=[plans.PlannedSource("numbers", "numbers")])


def in_place(bucket: stores.MemoryStore, savepoint: str, batches: int) -> None:
    """The failed version goes on where the old one has stopped."""
    Driver(bucket, Clock(), a_restore(snapshot=savepoint, nonce="stop"), sink=FakeSink()).batch(batches)


def in_a_generation_of_its_own(bucket: stores.MemoryStore, savepoint: str, batches: int) -> None:
    """The failed version has another plan: it first restores into a new generation."""
    before = Driver(bucket, Clock(), a_restore(snapshot=savepoint, nonce="a"), sink=FakeSink())
    before.query.plan_batch()
    Driver(bucket, Clock(), a_restore(snapshot=savepoint, nonce="b"), sink=FakeSink()).batch(batches)


FAILED = pytest.mark.parametrize("failed", [in_place, in_a_generation_of_its_own])
Failed = Callable[[stores.MemoryStore, str, int], None]


@FAILED
def test_with_nothing_committed_since_any_sink_goes_back(bucket: stores.MemoryStore, failed: Failed) -> None:
    savepoint = stopped(bucket)
    failed(bucket, savepoint, 0)

    back_to(bucket, savepoint, a_written_query(MarkedSink(visible="checkpoint")))


@FAILED
def test_what_was_committed_since_is_named_with_its_query_and_its_sink(
    bucket: stores.MemoryStore, failed: Failed
) -> None:
    savepoint = stopped(bucket)
    failed(bucket, savepoint, 2)

    with pytest.raises(errors.SpecRejectedError, match=r"query 'delays' \(MarkedSink\), batches 3 to 4\.") as refused:
        back_to(bucket, savepoint, a_written_query(MarkedSink(visible="checkpoint")))

    assert refused.value.reason == "OutputRepeated"
    assert savepoint in refused.value.message
    assert "Those of their rows that are visible would be written once more" in refused.value.message


@FAILED
def test_a_restore_that_a_person_asks_for_is_not_refused_for_it(bucket: stores.MemoryStore, failed: Failed) -> None:
    savepoint = stopped(bucket)
    failed(bucket, savepoint, 2)

    back_to(bucket, savepoint, a_written_query(MarkedSink(visible="checkpoint")), rollback=False)


def test_a_version_that_ran_on_older_state_is_not_judged_by_its_numbers(bucket: stores.MemoryStore) -> None:
    """Its batch 1 may have read what comes after the savepoint's batch 2."""
    driver = Driver(bucket, Clock(), sink=FakeSink())
    driver.batch(1)
    older = driver.checkpoint()
    driver.batch(2)
    savepoint = driver.savepoint()
    restore = a_restore(snapshot=f"checkpoint:{older.id}", nonce="asked for")
    Driver(bucket, Clock(), restore, sink=FakeSink()).batch(1)

    with pytest.raises(errors.SpecRejectedError, match="up to batch 1 of other state"):
        back_to(bucket, savepoint, a_written_query(MarkedSink(visible="checkpoint")))


@pytest.mark.parametrize(
    ("output", "goes_back"),
    [
        pytest.param(a_written_query(files_sink("s3://out")), True, id="files are withdrawn"),
        pytest.param(a_written_query(files_sink("s3://out", visible="batch")), True, id="files, batch by batch"),
        pytest.param(a_written_query(postgres_sink("t", dsn="dsn", upsert_by="id")), True, id="PostgreSQL by key"),
        pytest.param(a_written_query(postgres_sink("t", dsn="dsn")), False, id="PostgreSQL appends"),
        pytest.param(a_written_query(kafka_sink("topic", bootstrap_servers="kafka:9092")), False, id="Kafka"),
        pytest.param(a_written_query(iceberg_sink("db.table", catalog={})), False, id="Iceberg"),
        pytest.param(a_written_query(object()), False, id="a sink of a user that says nothing"),
        pytest.param(object(), False, id="a sink of Spark"),
    ],
)
def test_sinks_that_withdraw_or_replace_go_back_and_others_do_not(
    bucket: stores.MemoryStore, output: object, goes_back: bool
) -> None:
    savepoint = stopped(bucket)
    in_place(bucket, savepoint, 2)

    if goes_back:
        back_to(bucket, savepoint, output)
        return
    with pytest.raises(errors.SpecRejectedError, match="would be written once more"):
        back_to(bucket, savepoint, output)
