"""Who acknowledges a snapshot, who declines it, and why (A.107, A.116)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from looprig import SparkHandle
from manifests import a_query, an_operator
from sinkcontexts import a_sink_context
from snapshots import Job
from snapshotwriters import a_writer, an_order
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.coordinator import model
from statefulspark.driver import cycle
from statefulspark.driver.output import writing
from statefulspark.driver.output.sink_committer import SinkCommitter
from statefulspark.driver.running import queries
from statefulspark.driver.snapshots import snapshot_writer
from statefulspark.engine import jvm
from statefulspark.operators import refusals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_SLOW = "org.apache.spark.SparkException: Python worker failed to connect back."
_FACT = jvm.GateFact(last_offsets=7, last_committed=7, last_commit_at=None, at_boundary=False)

_CLOSING = model.Declined(
    0.0, 3, "counts", "the query 'counts' is ending", model.AbortReason.CHECKPOINT_DECLINED_TASK_CLOSING
)


class Handle(SparkHandle):
    """Spark's handle of a query that has failed."""

    isActive = False  # noqa: N815 - Spark's name

    def __init__(self, failure: str) -> None:
        self.failure = failure


class Query:
    """A query that fails in the same way whenever it is started."""

    def __init__(self, failure: str) -> None:
        self.starts = 0
        self._failure = failure
        place = queries.CheckpointLocation("counts", "path", "root")
        self.running = queries.RunningQuery(place, self._start, self._start(), _FACT)

    def _start(self) -> StreamingQuery:
        self.starts += 1
        return cast("StreamingQuery", Handle(self._failure))

    def answer(self, *, is_ending: bool = False) -> model.Acknowledged | model.Declined:
        return cycle.acknowledge(
            3, 0.0, participants={"counts": "counts", "sink:out": "counts"}, running=[self.running], is_ending=is_ending
        )


def test_a_query_acknowledges_with_its_last_commit_for_itself_and_its_sinks() -> None:
    assert Query("").answer() == model.Acknowledged(0.0, 3, {"counts": 7, "sink:out": 7})


def test_a_query_that_waits_for_its_next_start_is_not_ready() -> None:
    query = Query(_SLOW)
    query.running.refresh(_FACT)  # Started again at once,
    query.running.refresh(_FACT)  # and after a pause the second time.

    assert query.starts == 2
    assert query.running.is_starting
    assert query.answer() == model.Declined(
        0.0,
        3,
        "counts",
        "the query 'counts' is being restarted and does not run yet",
        model.AbortReason.CHECKPOINT_DECLINED_TASK_NOT_READY,
    )


def test_a_query_that_has_failed_is_closing() -> None:
    query = Query("java.io.IOException: disk full")
    query.running.refresh(_FACT)

    assert query.answer() == _CLOSING


def test_nobody_takes_part_when_the_job_ends() -> None:
    assert Query("").answer(is_ending=True) == _CLOSING


@pytest.mark.parametrize(
    "failure",
    [
        _SLOW,
        "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back",
        "[STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE.STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE] …",
    ],
    ids=["connects too late", "its cause", "answers too late"],
)
def test_a_query_whose_python_worker_was_too_slow_is_started_again(failure: str) -> None:
    query = Query(failure)

    query.running.refresh(_FACT)

    assert (query.starts, query.running.error, query.running.active) == (2, None, True)


def test_a_query_that_is_too_slow_again_and_again_fails_unless_it_commits_in_between() -> None:
    query = Query(_SLOW)
    query.running.slow_starts = len(queries.SLOW_START_PAUSES_S)
    query.running.refresh(jvm.GateFact(8, 8, None, at_boundary=False))
    after_a_batch = query.running.error
    query.running.slow_starts, query.running.starts_at_s = len(queries.SLOW_START_PAUSES_S), None
    query.running.refresh(query.running.fact)

    assert (after_a_batch, query.running.error) == (None, _SLOW)


class Sink:
    """Stages anything, and cannot prepare."""

    def write_part(self, *_: object) -> None:
        """Never called: the frame is none."""

    def prepare(self, *_: object) -> bytes:
        raise errors.TransientError("BrokerUnavailable", "The broker did not answer.")


def test_a_sink_that_cannot_prepare_is_remembered_with_its_reason() -> None:
    noted = refusals.Refusals()
    sink = SimpleNamespace(
        sink=Sink(), uid="out", query_uid="counts", participant="sink:counts/out", context=lambda _: a_sink_context()
    )
    frame = SimpleNamespace(columns=[], mapInArrow=lambda *_: SimpleNamespace(collect=list))
    writer = writing.BatchWriter([cast("SinkCommitter", SimpleNamespace(sink=sink))], [None], noted)

    with pytest.raises(errors.TransientError):
        writer.run(cast("DataFrame", frame), 7)

    assert noted.take("counts") == refusals.Refusal("sink:counts/out", "The broker did not answer.")
    assert noted.take("counts") is None


def test_a_query_whose_commit_is_gone_declines_by_name() -> None:
    job = Job()
    job.boot()
    query = FakeQuery(job.store, 1)
    query.run_batch()
    job.store.delete_many([f"{query.path}/commits/0"])

    with pytest.raises(snapshot_writer.DeclinedError) as raised:
        a_writer(job, query).complete(an_order(), {query.uid: 0})

    assert raised.value.participant == query.uid
    assert "has no entry in the commit log" in raised.value.message


def test_a_transaction_that_a_listing_hides_declines_for_the_sinks() -> None:
    job = Job()
    job.boot()
    query = FakeQuery(job.store, 1)
    query.run_batch()

    def hidden(*_: object) -> None:
        raise errors.SnapshotCorruptError("ClosureIncomplete", "The transaction of sink 'out' is not listed.")

    with pytest.raises(snapshot_writer.DeclinedError, match="of sink 'out'") as raised:
        a_writer(job, query, announcer=SimpleNamespace(snapshot_covers=hidden)).complete(an_order(), {query.uid: 0})

    assert raised.value.participant == "sinks"


def test_a_snapshot_that_expired_while_it_was_written_is_forgotten() -> None:
    """Its abort is announced while its files are still listed, so what it covers is remembered after that."""
    job = Job()
    job.boot()
    query = FakeQuery(job.store, 1)
    query.run_batch()
    remembered = set[int]()
    announcer = SimpleNamespace(snapshot_covers=lambda number, _: remembered.add(number), forget=remembered.discard)
    writer = a_writer(job, query, announcer=announcer)

    writer.complete(an_order(), {query.uid: 0})
    writer.discard(an_order())

    assert remembered == set()


def test_the_writer_tells_the_size_of_the_state_in_the_checkpoint_that_it_wrote() -> None:
    job = Job()
    job.boot()
    query = FakeQuery(job.store, 1)
    query.run_batch()
    restored = a_query("delays", an_operator("mean", 0, partitions=1), files={"state/0/0/1_a.zip": 30})
    covers = SimpleNamespace(snapshot_covers=lambda *_: None)
    writer = a_writer(job, query, restored=(restored,), announcer=covers)
    before = writer.state_sizes

    writer.complete(an_order(5), {query.uid: 0})

    after = writer.state_sizes
    assert [operator.size_bytes for operator in before.operators] == [30]
    assert (before.snapshot, after.snapshot) == (None, "checkpoint 5")
    assert sum(operator.size_bytes for operator in after.operators) > 0


def test_a_query_tells_since_when_its_batch_is_running() -> None:
    query = Query("").running
    idle = query.status().batch_since
    query.refresh(replace(_FACT, last_offsets=8))
    first = query.status().batch_since
    query.refresh(replace(_FACT, last_offsets=8))
    later = query.status().batch_since
    query.refresh(replace(_FACT, last_offsets=9, last_committed=8))
    second = query.status().batch_since
    query.refresh(replace(_FACT, last_offsets=9, last_committed=9))

    assert idle is None
    assert first is not None
    assert later == first
    assert second is not None
    assert second > first
    assert query.status().batch_since is None
