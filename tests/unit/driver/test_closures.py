"""The files of a job's queries are listed side by side, and the first query that fails declines the checkpoint."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from snapshots import Job
from snapshotwriters import a_writer, an_order
from sparkroot import FakeQuery
from statefulspark.driver.running import queries
from statefulspark.driver.snapshots import snapshot_writer
from statefulspark.storage import ObjectInfo
from statefulspark.testing import stores

QUERIES = 4


class MeetingStore(stores.MemoryStore):
    """A store that lists the root of a query when it lists those of the others, too."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = threading.Barrier(QUERIES)
        self.roots: frozenset[str] = frozenset()

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        if prefix in self.roots:
            self.barrier.wait(10)
        return super().list(prefix)


def a_job_of_queries() -> tuple[snapshot_writer.SnapshotWriter, list[FakeQuery]]:
    job, store = Job(), MeetingStore()
    job.store = store
    job.boot()
    each = [FakeQuery(job.store, 1, f"query{number}") for number in range(QUERIES)]
    for query in each:
        query.run_batch()
    store.roots = frozenset(query.path for query in each)
    places = tuple(queries.CheckpointLocation(query.uid, query.path, "root") for query in each)
    covers = SimpleNamespace(snapshot_covers=lambda *_: None)
    return a_writer(job, each[0], locations=places, announcer=covers), each


def test_queries_are_closed_over_side_by_side() -> None:
    writer, each = a_job_of_queries()

    summary = writer.complete(an_order(5), {query.uid: 0 for query in each})

    assert summary.batches == {query.uid: 0 for query in each}


def test_the_first_query_that_fails_declines() -> None:
    writer, each = a_job_of_queries()
    batches = {query.uid: 0 for query in each} | {"query1": 7, "query2": 7}

    with pytest.raises(snapshot_writer.DeclinedError) as raised:
        writer.complete(an_order(5), batches)

    assert (raised.value.participant, raised.value.reason) == ("query1", "BatchNotCommitted")
