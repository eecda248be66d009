"""A real query is held at a batch boundary, let go, and stopped while it waits."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
import streams
from pyspark.sql import SparkSession
from s3server import S3Server
from statefulspark import storage

pytestmark = [pytest.mark.spark, pytest.mark.s3]


@pytest.fixture(params=["s3a", "file"])
def root(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    if request.param == "s3a":
        location = f"s3a://{request.getfixturevalue('s3_bucket')}/job/generations/00000001/counts"
    else:
        location = f"file://{request.getfixturevalue('tmp_path')}/counts"
    yield location
    for query in spark.streams.active:
        query.stop()
    streams.gate(spark).unregister(location)


@pytest.fixture
def name() -> str:
    return f"q{uuid.uuid4().hex[:8]}"


def test_a_closed_gate_parks_the_query_at_a_boundary_until_it_opens(spark: SparkSession, root: str, name: str) -> None:
    gate = streams.gate(spark)
    gate.register(root, -1, -1)
    query = streams.start_count(spark, root, name=name)
    streams.wait_until(lambda: gate.lastCommitted(root) >= 2, "three batches are committed")

    gate.close(root)
    reached = gate.awaitBoundary(root, 30_000)
    parked_at = gate.lastCommitted(root)
    streams.wait_until(lambda: _state(spark)["parked"], "the next batch waits at the gate")
    while_parked = (gate.atBoundary(root), gate.lastOffsets(root), gate.lastCommitted(root), query.isActive)
    sum_while_parked = streams.counted_rows(spark, name)
    gate.open(root)
    streams.wait_until(lambda: gate.lastCommitted(root) >= parked_at + 2, "the query goes on")

    assert reached
    assert while_parked == (True, parked_at, parked_at, True)
    assert sum_while_parked == streams.ROWS_PER_BATCH * (parked_at + 1)
    assert not gate.atBoundary(root)
    assert query.exception() is None


def test_stopping_a_parked_query_is_no_error_and_leaves_no_begun_batch(
    spark: SparkSession, root: str, name: str
) -> None:
    gate = streams.gate(spark)
    gate.register(root, -1, -1)
    query = streams.start_count(spark, root, name=name)
    streams.wait_until(lambda: gate.lastCommitted(root) >= 1, "two batches are committed")
    gate.close(root)
    assert gate.awaitBoundary(root, 30_000)
    streams.wait_until(lambda: _state(spark)["parked"], "the next batch waits at the gate")
    boundary = gate.lastCommitted(root)

    query.stop()

    assert not query.isActive
    assert query.exception() is None
    assert (gate.lastOffsets(root), gate.lastCommitted(root)) == (boundary, boundary)

    gate.register(root, boundary, boundary)
    successor = streams.start_count(spark, root, name=name + "b")
    streams.wait_until(lambda: gate.lastCommitted(root) >= boundary + 2, "a new start goes on from the boundary")
    gate.close(root)
    assert gate.awaitBoundary(root, 30_000)
    assert streams.counted_rows(spark, name + "b") == streams.ROWS_PER_BATCH * (gate.lastCommitted(root) + 1)
    assert successor.exception() is None


def test_a_query_registered_with_a_closed_gate_never_begins_a_batch(spark: SparkSession, root: str, name: str) -> None:
    gate = streams.gate(spark)
    gate.register(root, -1, -1)
    gate.close(root)
    query = streams.start_count(spark, root, name=name)

    streams.wait_until(lambda: _state(spark)["parked"], "the first batch waits at the gate")

    assert gate.atBoundary(root)
    assert gate.lastOffsets(root) == -1
    query.stop()
    assert query.exception() is None


def test_the_boundary_is_not_reported_while_the_gate_is_open(spark: SparkSession, root: str) -> None:
    gate = streams.gate(spark)
    gate.register(root, 4, 4)

    assert not gate.atBoundary(root)
    assert not gate.awaitBoundary(root, 0)


def test_a_begun_batch_keeps_the_boundary_away(spark: SparkSession, root: str) -> None:
    gate = streams.gate(spark)
    gate.register(root, 5, 4)
    gate.close(root)

    assert not gate.awaitBoundary(root, 50)


def test_the_snapshot_names_every_gate_and_roots_match_as_s3_or_s3a(spark: SparkSession, s3: S3Server) -> None:
    gate = streams.gate(spark)
    gate.register("s3://b/ns/job/q/", 7, 6)

    found = json.loads(gate.snapshot())
    gate.unregister("s3a://b/ns/job/q")

    assert found["s3a://b/ns/job/q"] == {
        "closed": False,
        "parked": False,
        "atBoundary": False,
        "begun": 7,
        "lastOffsets": 7,
        "lastCommitted": 6,
        "commits": 0,
        "committedAtMillis": 0,
        "committedAtNanos": 0,
        "missingFiles": 0,
        "missingFile": "",
    }
    assert json.loads(gate.snapshot()) == {}


def test_the_log_on_storage_is_what_the_gate_says(spark: SparkSession, s3: S3Server, s3_bucket: str, name: str) -> None:
    gate = streams.gate(spark)
    root = f"s3a://{s3_bucket}/q"
    gate.register(root, -1, -1)
    query = streams.start_count(spark, root, name=name)
    streams.wait_until(lambda: gate.lastCommitted(root) >= 3, "four batches are committed")
    gate.close(root)
    assert gate.awaitBoundary(root, 30_000)
    query.stop()

    store = storage.open_store(f"s3://{s3_bucket}/q", s3.options())
    batches = sorted(str(number) for number in range(gate.lastCommitted(root) + 1))
    assert sorted(store.list_names("commits")) == batches
    assert sorted(store.list_names("offsets")) == batches
    gate.unregister(root)


def _state(spark: SparkSession) -> dict[str, bool]:
    (state,) = json.loads(streams.gate(spark).snapshot()).values()
    assert isinstance(state, dict)
    return state
