"""Sinks that show each batch: when, in which order, by whom, and what a crash between two steps leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sinkdrivers
from sinkdrivers import QUERY, Driver
from snapshots import Clock
from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.driver.output import retries
from statefulspark.operatorstate import SinkFunction
from statefulspark.sinks import base, visibility
from statefulspark.sinks.files import FilesSink
from statefulspark.sinks.iceberg import IcebergSink
from statefulspark.sinks.kafka import KafkaSink
from statefulspark.sinks.postgres import PostgresSink
from statefulspark.testing import stores
from toldsinks import FakeSink

MAKERS: dict[str, Callable[[str], base.Sink]] = {
    "FilesSink": lambda visible: FilesSink("s3://bucket/out", visible=visible),
    "KafkaSink": lambda visible: KafkaSink("delays", bootstrap_servers="kafka:9092", visible=visible),
    "PostgresSink": lambda visible: PostgresSink("delays", dsn="postgresql://db", visible=visible),
    "IcebergSink": lambda visible: IcebergSink("shop.delays", catalog={}, visible=visible),
}


class Discarding(SinkFunction[object]):
    """Does nothing with its rows."""


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", Clock())


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink(visible="batch")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(retries, "STOP_TIMEOUT_S", 0.05)


def start(bucket: stores.MemoryStore, sink: FakeSink) -> Driver:
    return Driver(bucket, Clock(), sink=sink)


@pytest.mark.parametrize("kind", MAKERS)
def test_every_built_in_sink_shows_batches_if_it_is_told_to(kind: str) -> None:
    declared = [MAKERS[kind](one) for one in ("checkpoint", "batch")]
    shown = [visibility.sink_visibility(base.machine_of(one)) for one in declared]
    assert shown == list(map(visibility.sink_visibility, declared))
    assert shown == [visibility.Visibility.CHECKPOINT, visibility.Visibility.BATCH]


@pytest.mark.parametrize("kind", MAKERS)
def test_an_unknown_visibility_is_refused_with_the_two_that_exist(kind: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=f"visible='now' of {kind}.*'checkpoint' or 'batch'") as raised:
        MAKERS[kind]("now")
    assert raised.value.reason == "SinkSettingRefused"


def test_a_sink_of_the_jobs_own_with_an_unknown_visibility_is_refused() -> None:
    with pytest.raises(errors.SpecRejectedError, match="visible='now' of FakeSink"):
        visibility.sink_visibility(FakeSink(visible="now"))


def test_a_sink_that_says_nothing_shows_its_batches_at_checkpoints() -> None:
    assert visibility.sink_visibility(object()) is visibility.Visibility.CHECKPOINT


def test_a_batch_is_committed_once_spark_has_committed_it_and_before_any_checkpoint(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    driver = start(bucket, sink)
    driver.show()
    waiting = driver.prepare()
    driver.show()
    before = sink.news()
    driver.query.finish_batch(waiting, {"0": driver.query.attempt(waiting)})
    driver.show()
    driver.show()

    assert before == ["open 1/-1 by 1"]
    assert sink.news() == ["commit 1/0 of 1 by 1"]


def test_batches_that_pile_up_are_committed_in_order_and_named_until_the_second_checkpoint(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    driver = start(bucket, sink)
    driver.batch(3)
    driver.show()
    driver.batch()
    first, second = driver.checkpoint(), driver.checkpoint()

    assert sink.news()[1:] == [f"commit 1/{batch} of 1 by 1" for batch in range(4)]
    assert [entry.batch_id for entry in first.queries[0].prepared] == [0, 1, 2, 3]
    assert [entry.batch_id for entry in second.queries[0].prepared] == [3], "what came since the first one"


def test_a_sink_that_shows_checkpoints_is_not_asked_between_them(bucket: stores.MemoryStore) -> None:
    sink = FakeSink()
    driver = start(bucket, sink)
    driver.batch(2)

    assert not driver.announcer.due_sinks({QUERY: driver.query.batch})
    driver.announcer.commit(driver.sink.key, {QUERY: driver.query.batch})
    assert sink.news() == ["open 1/-1 by 1"]


def test_a_batch_without_rows_commits_nothing_and_is_passed(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = start(bucket, sink)
    sink.transaction = None
    driver.batch()
    sink.transaction = b"{}"
    driver.batch()
    driver.show()

    assert sink.news()[1:] == ["commit 1/1 of 1 by 1"]


def test_a_kill_between_sparks_commit_and_the_sinks_leaves_the_batch_to_the_next_start(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    killed = start(bucket, sink)
    killed.batch(2)
    sink.news()

    start(bucket, sink)
    assert sink.news() == ["open 1/1 by 2", "commit 1/0 of 1 by 2", "commit 1/1 of 1 by 2"]


def test_a_batch_that_spark_had_not_committed_is_not_committed_by_the_next_start(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    killed = start(bucket, sink)
    killed.batch()
    killed.show()
    killed.prepare()
    sink.news()

    driver = start(bucket, sink)
    driver.batch()
    driver.show()
    assert sink.news() == ["open 1/0 by 2", "commit 1/0 of 1 by 2", "commit 1/1 of 2 by 2"]


def test_a_driver_that_was_replaced_between_sparks_commit_and_the_sinks_commits_nothing(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    driver = start(bucket, sink)
    driver.batch()
    epochs.claim(driver.job.store, assigned=None, holder="pod", claim_id="next", now=Clock().now)

    with pytest.raises(errors.FencedError):
        driver.show()
    assert sink.news() == ["open 1/-1 by 1"]


def test_a_batch_that_a_replaced_driver_won_is_not_passed_over(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    """It waits, with those after it, for the checkpoint, which finds the record of the other driver."""
    old = start(bucket, sink)
    number = old.prepare()
    new = start(bucket, sink)
    old.query.finish_batch(number, {"0": old.query.attempt(number)})
    new.query.batch = number
    new.batch()
    sink.news()
    new.show()
    waiting = sink.news()
    new.checkpoint()
    committed = sink.news()
    new.batch()
    new.show()

    assert waiting == []
    assert committed == ["commit 1/0 of 1 by 2", "commit 1/1 of 2 by 2"]
    assert sink.news() == ["commit 1/2 of 2 by 2"]


def test_a_sink_that_is_away_is_waited_for(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = start(bucket, sink)
    driver.batch()
    sink.failures = [errors.TransientError("KafkaUnavailable", "The broker does not answer.") for _ in range(2)]
    driver.show()

    assert sink.news()[-1] == "commit 1/0 of 1 by 1"


@pytest.mark.parametrize(("before", "after"), [("batch", "checkpoint"), ("checkpoint", "batch")])
def test_the_visibility_may_change_with_transactions_in_flight(
    bucket: stores.MemoryStore, before: str, after: str
) -> None:
    first = FakeSink(visible=before)
    driver = start(bucket, first)
    driver.batch()
    driver.checkpoint()
    driver.batch(2)

    second = FakeSink(visible=after)
    following = start(bucket, second)
    following.batch()
    following.show()
    following.checkpoint()
    assert second.news()[-3:] == [
        "commit 1/1 of 1 by 2",
        "commit 1/2 of 1 by 2",
        "commit 1/3 of 2 by 2",
    ]


def test_a_batch_of_a_files_sink_costs_two_looks_at_the_epoch_two_into_the_folder_one_at_each_file_and_its_commit(
    bucket: stores.MemoryStore,
) -> None:
    watched = stores.FaultyStore(bucket)
    driver = Driver(watched, Clock(), visible="batch")
    driver.batch()
    driver.show()  # It replaces the fence that opening has left.
    driver.batch()
    before = len(watched.operations)
    driver.show()

    (file,) = [one.key for one in watched.operations[before:] if one.key.startswith("output/data/")]
    assert [(one.name, one.key) for one in watched.operations[before:]] == [
        ("info", "default/flights/epochs/00000002.json"),
        ("info", "default/flights/epochs/00000001.json"),
        ("read", "output/_sink.json"),
        ("read", "output/_commits/00000000.json"),
        ("info", file),
        ("create", "output/_commits/00000001.json"),
    ]


def test_readers_of_a_files_sink_see_each_batch_without_a_checkpoint_and_once_after_a_kill(
    bucket: stores.MemoryStore,
) -> None:
    driver = Driver(bucket, Clock(), visible="batch")
    driver.batch(2)
    driver.show()
    seen = sinkdrivers.visible(bucket)
    driver.batch()
    following = Driver(bucket, Clock(), visible="batch")
    restarted = sinkdrivers.visible(bucket)
    following.batch()
    following.show()

    expected = sinkdrivers.expected((1, 4))
    assert [seen, restarted, sinkdrivers.visible(bucket)] == [expected[:6], expected[:9], expected]
