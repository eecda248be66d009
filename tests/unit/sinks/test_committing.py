"""The committer: what is committed when, in which order, by whom, and what happens when that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import timedelta

import pytest
from restores import a_restore
from sinkdrivers import QUERY, Driver, expected, visible
from snapshots import Clock
from statefulspark import errors
from statefulspark.checkpoint import batch_records, closure, epochs
from statefulspark.contract import api
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import QueryEntry
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.driver.output import retries, unrestored
from statefulspark.driver.snapshots import notify
from statefulspark.retention import pruning, rules
from statefulspark.testing import stores
from toldsinks import FakeSink, MergingSink


class OtherSink(FakeSink):
    """Another kind of sink."""


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", Clock())


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(retries, "STOP_TIMEOUT_S", 0.5)


def start(bucket: stores.MemoryStore, sink: FakeSink, restore: RestoreConfig | None = None, uid: str = "out") -> Driver:
    return Driver(bucket, Clock(), restore, sink=sink, sink_uid=uid)


def news(sink: FakeSink) -> list[str]:
    return sink.news()


def unavailable() -> errors.StatefulSparkError:
    return errors.TransientError("KafkaUnavailable", "The broker does not answer.")


def test_batches_are_committed_in_order_when_a_checkpoint_covers_them(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    """A.101."""
    driver = start(bucket, sink)
    driver.batch(3)
    before = news(sink)
    first = driver.checkpoint()
    driver.batch(2)
    second = driver.checkpoint()
    driver.batch()
    third = driver.checkpoint()

    assert before == ["open 1/-1 by 1"]
    assert news(sink) == [f"commit 1/{batch} of 1 by 1" for batch in range(6)]
    assert [entry.batch_id for entry in first.queries[0].prepared] == [0, 1, 2]
    assert [entry.batch_id for entry in second.queries[0].prepared] == [0, 1, 2, 3, 4], (
        "a sink may lose what it just got"
    )
    assert [entry.batch_id for entry in third.queries[0].prepared] == [3, 4, 5], "not what was committed long ago"


def test_a_driver_that_takes_over_commits_what_the_sink_may_lack_and_not_all_that_there_is_a_record_of(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    """Also what was committed since the checkpoint before the last one, which a sink ignores if it has it."""
    dead = start(bucket, sink)
    for count in (3, 2, 1):
        dead.batch(count)
        dead.checkpoint()
    dead.batch()
    news(sink)

    start(bucket, sink)

    assert news(sink) == ["open 1/6 by 2", *(f"commit 1/{batch} of 1 by 2" for batch in (3, 4, 5, 6))]


def test_what_could_not_be_committed_goes_with_the_next_checkpoint(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    """A.47: a completion may be missed; the next one implies it."""
    driver = start(bucket, sink)
    driver.batch(2)
    missed = driver.complete()
    driver.announcer.forget(missed.id)
    driver.batch()
    driver.checkpoint()

    assert news(sink)[1:] == [f"commit 1/{batch} of 1 by 1" for batch in range(3)]


def test_of_snapshots_that_pile_up_while_a_sink_is_away_the_newest_one_stands_for_all(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    """A.47."""
    driver = start(bucket, sink)
    news(sink)
    for _ in range(12):
        driver.batch()
        driver.announcer.snapshot_completed(driver.complete().id)

    driver.show()

    assert news(sink) == [f"commit 1/{batch} of 1 by 1" for batch in range(12)]
    assert driver.announcer.due_sinks({QUERY: driver.query.batch}) == ()


def test_a_sink_that_is_away_holds_only_itself(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = Driver(bucket, Clock(), sink=sink, beside="beside")
    driver.batch(2)
    driver.announcer.snapshot_completed(driver.complete().id)
    away, well = driver.announcer.due_sinks({QUERY: 1})
    sink.failures = [unavailable() for _ in range(1000)]
    driver.announcer.cancel_retries()

    with pytest.raises(errors.TransientError):
        driver.announcer.commit(away, {QUERY: 1})
    driver.announcer.commit(well, {QUERY: 1})

    assert visible(bucket, "beside") == expected((1, 2))
    assert [(status.committed_batch, status.pending_transactions) for status in driver.committer.statuses()] == [
        (-1, 2),
        (1, 0),
    ]
    assert driver.announcer.sinks()[0].retrying == "Committing is retried: The broker does not answer."
    assert driver.announcer.sinks()[1].retrying is None


def test_batches_that_wait_are_committed_together_as_far_as_the_sink_merges_them(bucket: stores.MemoryStore) -> None:
    sink = MergingSink(most=6)
    driver = start(bucket, sink)
    driver.batch(4)
    driver.checkpoint()
    driver.batch(2)
    driver.checkpoint()

    assert news(sink)[1:] == [
        "commit 1/2 of 1 by 1 from 0: {}{}{}",
        "commit 1/3 of 1 by 1: {}",
        "commit 1/5 of 1 by 1 from 4: {}{}",
    ]
    assert driver.committer.statuses()[0].committed_batch == 5


def test_what_is_committed_together_is_tried_again_as_it_was(bucket: stores.MemoryStore) -> None:
    """Nobody knows whether the first attempt had happened: a batch that comes meanwhile is not put to it."""
    sink = MergingSink(failures=[unavailable()])
    driver = start(bucket, sink)
    sink.before_commit = driver.batch
    driver.batch(2)
    driver.checkpoint()

    assert news(sink)[1:] == ["commit 1/1 of 1 by 1 from 0: {}{}"]


@pytest.mark.parametrize("merged", [pytest.param("{}", id="text"), pytest.param(b"\xff", id="bytes that are no text")])
def test_a_sink_that_merges_into_what_is_no_transaction_is_named(
    bucket: stores.MemoryStore, merged: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = MergingSink()
    driver = start(bucket, sink)
    driver.batch(2)
    news(sink)
    monkeypatch.setattr(sink, "merge", lambda earlier, later: merged)

    with pytest.raises(errors.UserCodeError, match=r"SinkFailed: MergingSink.merge\(\) of sink 'out' raised"):
        driver.checkpoint()
    assert news(sink) == []


def test_a_start_commits_each_batch_apart(bucket: stores.MemoryStore) -> None:
    """The driver before may have committed some of them."""
    driver = start(bucket, MergingSink())
    driver.batch(2)
    driver.complete()
    sink = MergingSink()
    start(bucket, sink)

    assert news(sink)[1:] == [f"commit 1/{batch} of 1 by 2: {{}}" for batch in range(2)]


def test_a_batch_of_another_driver_and_one_without_rows_are_not_merged(bucket: stores.MemoryStore) -> None:
    old, sink = start(bucket, MergingSink()), MergingSink()
    number = old.prepare()
    new = start(bucket, sink)
    old.query.finish_batch(number, {"0": old.query.attempt(number)})
    new.query.batch = number
    new.batch()
    sink.transaction = None
    new.batch()
    sink.transaction = b"{}"
    new.batch(2)
    news(sink)
    new.checkpoint()

    assert news(sink) == [
        "commit 1/0 of 1 by 2: {}",
        "commit 1/1 of 2 by 2: {}",
        "commit 1/4 of 2 by 2 from 3: {}{}",
    ]


def test_records_go_with_the_last_checkpoint_that_names_them(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = start(bucket, sink)
    policy = rules.PrunePolicy(retained=1, grace=timedelta(seconds=1))
    for _ in range(6):
        driver.batch()
        driver.checkpoint()
        pruning.run(driver.job.store, policy, driver.clock.forward(5))
    waiting = driver.prepare()

    pruning.run(driver.job.store, policy, driver.clock.forward(5))

    left = driver.sink.log.list_all(batch_records.RecordKind.PREPARED)
    assert [name.batch for name in left] == [4, 5, waiting], "those that the newest checkpoint names, and what runs now"


def test_everybody_hears_in_flinks_order(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    """A.47, A.101: sinks commit, functions are notified, positions are published; an aborted one is only announced."""

    class Function:
        def snapshot_begun(self, snapshot_id: int) -> None:
            sink.told.append(f"begun {snapshot_id}")

        def snapshot_covers(self, snapshot_id: int, queries: Sequence[QueryEntry]) -> None:
            sink.told.append(f"{snapshot_id} covers {[query.batch_id for query in queries]}")

        def notify_complete(self, checkpoint_id: int) -> None:
            sink.told.append(f"complete {checkpoint_id}")

        def notify_aborted(self, checkpoint_id: int) -> None:
            sink.told.append(f"aborted {checkpoint_id}")

    driver = start(bucket, sink)
    driver.announcer = notify.Announcer(
        driver.committer,
        [Function()],
        [lambda queries: sink.told.append(f"published {queries[0].uid} {queries[0].offsets}")],
    )
    news(sink)
    driver.batch()
    driver.announcer.snapshot_begun(1)
    driver.checkpoint()
    driver.announcer.notify_aborted(2)

    assert news(sink) == [
        "begun 1",
        "commit 1/0 of 1 by 1",
        "1 covers [0]",
        "complete 1",
        """published delays ('{"offset":0}',)""",
        "aborted 2",
    ]


def test_a_restart_commits_what_the_restored_cut_had_prepared(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    """A.48: recovered transactions are committed again, by the new epoch, before anything runs."""
    driver = start(bucket, sink)
    driver.batch(2)
    driver.complete()
    news(sink)

    successor = start(bucket, sink)
    assert news(sink) == ["open 1/1 by 2", "commit 1/0 of 1 by 2", "commit 1/1 of 1 by 2"]
    assert successor.told == [api.Progress(unit="transactions", done=done, total=2) for done in range(3)]


def test_a_savepoint_whose_job_failed_to_commit_is_committed_by_whoever_restores_it(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    """A.164; from a copy in a new generation, too, which gives up what came after the savepoint."""
    driver = start(bucket, sink)
    driver.batch(2)
    place = driver.job.savepoint(driver.query)
    news(sink)

    start(bucket, sink, a_restore(snapshot=place.uri, nonce="one"))
    in_place = news(sink)
    start(bucket, sink, a_restore(snapshot=place.uri, nonce="two")).batch()
    last = start(bucket, sink, a_restore(snapshot=place.uri, nonce="three"))
    copied = news(sink)
    last.checkpoint()

    assert in_place[-2:] == ["commit 1/0 of 1 by 2", "commit 1/1 of 1 by 2"]
    assert copied[-2:] == ["commit 1/0 of 1 by 4", "commit 1/1 of 1 by 4"]
    assert news(sink) == ["abort 1/2 of 3: {}"], "its own checkpoint has the number that one on its way would have"


def test_a_record_that_cannot_be_removed_fails_no_driver_and_goes_with_a_later_checkpoint(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    driver = start(bucket, sink)
    driver.batch()
    entry = closure.close_over(driver.job.store, driver.query.path, 0).model_copy(update={"prepared": ()})
    name = batch_records.RecordName(batch_records.RecordKind.PREPARED, "out", 0, epoch=1)
    plan = stores.Plan(fail_at=frozenset([1]), only=frozenset(["delete"]))
    refusing = stores.FaultyStore(driver.job.store.child(driver.query.path), plan)
    record = unrestored.UnrestoredRecord(refusing, name, is_past=False)
    news(sink)

    left = unrestored.abort_uncovered(driver.sink, [record], entry)
    later = unrestored.abort_uncovered(driver.sink, left, entry)

    assert (left, later) == ((record,), ())
    assert news(sink) == ["abort 1/0 of 1: {}"] * 2


def test_failures_that_pass_are_waited_out_and_shown(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = start(bucket, sink)
    driver.batch()
    sink.failures = [unavailable(), unavailable()]
    seen: list[str | None] = []
    sink.before_commit = lambda: seen.append(driver.announcer.retry_message)

    driver.checkpoint()

    assert seen == [None, *["Committing is retried: The broker does not answer."] * 2]
    assert driver.announcer.retry_message is None
    assert news(sink)[-1] == "commit 1/0 of 1 by 1"


def test_a_start_says_what_it_waits_for_while_it_opens_its_sinks_and_commits(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    first = start(bucket, sink)
    first.batch(2)
    first.complete()
    refusals = iter([unavailable(), None])

    def before_open() -> None:
        refusal = next(refusals)
        if refusal is not None:
            raise refusal

    sink.before_open, sink.failures = before_open, [unavailable(), unavailable()]

    second = start(bucket, sink)

    opening = "Opening the sinks, and committing what checkpoint 7 had prepared for them"
    retried = "Committing is retried: The broker does not answer"
    assert second.steps == [opening, retried, opening, retried, opening]
    assert [(counted.done, counted.total) for counted in second.told] == [(0, 2), (1, 2), (2, 2)]


def test_a_stop_waits_for_a_sink_only_so_long(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    """A.164: then it fails, and the batch stays prepared for the next driver."""
    driver = start(bucket, sink)
    driver.batch()
    sink.failures = [unavailable() for _ in range(1000)]
    driver.announcer.limit_waiting()

    with pytest.raises(errors.TransientError, match="does not answer"):
        driver.checkpoint()

    sink.failures = []
    news(sink)
    start(bucket, sink)
    assert news(sink)[-1] == "commit 1/0 of 1 by 2"


def test_a_driver_that_ends_lets_a_waiting_commit_fail(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = start(bucket, sink)
    driver.batch()
    sink.failures = [unavailable() for _ in range(1000)]
    driver.announcer.cancel_retries()

    with pytest.raises(errors.TransientError):
        driver.checkpoint()
    assert len(sink.failures) == 999


def test_an_error_that_will_not_pass_fails_at_once_and_later_batches_wait(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    """A.47."""
    driver = start(bucket, sink)
    driver.batch(2)
    sink.failures = [errors.StateUnknownError("KafkaMarkerLost", "Look.")]

    with pytest.raises(errors.StateUnknownError):
        driver.checkpoint()
    assert news(sink) == ["open 1/-1 by 1"]


def test_a_driver_that_was_replaced_commits_nothing(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = start(bucket, sink)
    driver.batch()
    manifest = driver.complete()
    epochs.claim(driver.job.store, assigned=None, holder="pod", claim_id="next", now=Clock().now)

    with pytest.raises(errors.FencedError):
        driver.announce(manifest.id)
    assert news(sink) == ["open 1/-1 by 1"]


def test_a_driver_that_is_replaced_while_it_waits_for_a_sink_commits_nothing(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    driver = start(bucket, sink)
    driver.batch()

    def replaced() -> None:
        with contextlib.suppress(errors.StatefulSparkError):
            epochs.claim(driver.job.store, assigned=2, holder="pod", claim_id="next", now=Clock().now)

    sink.failures, sink.before_commit = [unavailable()], replaced

    with pytest.raises(errors.FencedError):
        driver.checkpoint()
    assert news(sink) == ["open 1/-1 by 1"]


def test_an_attempt_that_is_repeated_in_the_same_driver_replaces_the_one_before(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    driver = start(bucket, sink)
    sink.transaction = b'"first"'
    driver.prepare()
    sink.transaction = b'"second"'
    driver.batch()
    driver.checkpoint()

    assert news(sink)[1:] == ['abort 1/0 of 1: "first"', "commit 1/0 of 1 by 1"]


def test_an_attempt_with_nothing_to_commit_overrides_one_that_had_something(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    start(bucket, sink).prepare()
    sink.transaction = None
    driver = start(bucket, sink)
    driver.batch(2)
    news(sink)
    manifest = driver.checkpoint()

    assert news(sink) == ["abort 1/0 of 1: {}"]
    assert [entry.path for entry in manifest.queries[0].prepared] == [
        "prepared/out/00000000-00000002.json",
        "prepared/out/00000001-00000002.json",
    ]
    assert driver.committer.statuses()[0].pending_transactions == 0


def test_a_transaction_of_a_driver_that_won_the_batch_is_committed(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    """A driver that was replaced may commit the one batch that it had checked its epoch for."""
    old = start(bucket, sink)
    number = old.prepare()
    new = start(bucket, sink)
    old.query.finish_batch(number, {"0": old.query.attempt(number)})
    new.query.batch = number
    new.batch()
    news(sink)
    new.checkpoint()

    assert news(sink) == ["commit 1/0 of 1 by 2", "commit 1/1 of 2 by 2"]


def test_a_listing_that_hides_a_transaction_keeps_the_checkpoint_from_completing(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    driver = start(bucket, sink)
    driver.batch(2)
    entry = closure.close_over(driver.job.store, driver.query.path, 1)
    lagging = entry.model_copy(update={"prepared": entry.prepared[:1]})

    with pytest.raises(errors.SnapshotCorruptError, match="batch 1") as raised:
        driver.announcer.snapshot_covers(7, (lagging,))
    assert raised.value.reason == "ClosureIncomplete"


def test_a_sink_that_left_the_job_with_transactions_is_refused_by_name(
    bucket: stores.MemoryStore, sink: FakeSink
) -> None:
    driver = start(bucket, sink)
    driver.batch()
    driver.complete()

    with pytest.raises(errors.SpecRejectedError, match=f"sink 'out' of query '{QUERY}'") as raised:
        start(bucket, FakeSink(), uid="renamed")
    assert raised.value.reason == "NonRestoredState"

    other = FakeSink()
    start(bucket, other, RestoreConfig(drop_state=("out",)), uid="renamed")
    assert news(other) == ["open 1/0 by 3"]


def test_another_kind_of_sink_under_the_same_uid_is_refused(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = start(bucket, sink)
    driver.batch()
    driver.complete()

    with pytest.raises(errors.SpecRejectedError, match="FakeSink 'out' for batch 0, and the job has a OtherSink"):
        start(bucket, OtherSink())


def test_a_transaction_of_another_job_is_left_to_that_job(bucket: stores.MemoryStore, sink: FakeSink) -> None:
    driver = start(bucket, sink)
    driver.batch()
    for info in bucket.list(""):
        if "/prepared/" in info.key:
            record = PreparedRecord.parse(bucket.read(info.key), info.key)
            bucket.write(info.key, record.model_copy(update={"job": "default/other"}).to_json().encode())
    driver.complete()
    news(sink)

    start(bucket, sink)

    assert news(sink) == ["open 1/0 by 2"]
