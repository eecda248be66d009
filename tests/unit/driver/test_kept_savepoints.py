"""What the savepoints in a job's folder cost, as the search for unused files counts them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from snapshots import Job
from snapshotwriters import a_writer, an_order
from sparkroot import FakeQuery
from statefulspark.checkpoint import catalog, savepoint
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.driver.snapshots import snapshot_writer
from statefulspark.storage.port import MOST_BYTES
from statefulspark.testing import stores


class CountingStore(stores.MemoryStore):
    """It counts the objects that are read."""

    reads = 0

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        self.reads += 1
        return super().read(key, most_bytes=most_bytes)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def writer(store: CountingStore) -> snapshot_writer.SnapshotWriter:
    """The writer of a job that has two savepoints, and a checkpoint."""
    job = Job()
    job.store = store
    job.boot()
    query = FakeQuery(store, 1)
    made = a_writer(job, query, announcer=SimpleNamespace(snapshot_covers=lambda *_: None))
    for number, kind in enumerate((SnapshotKind.SAVEPOINT, SnapshotKind.SAVEPOINT, SnapshotKind.CHECKPOINT), 1):
        query.run_batch()
        made.complete(an_order(number, kind), {query.uid: query.batch})
    return made


def sizes(store: CountingStore) -> list[int]:
    refs = [ref for ref in catalog.list_snapshots(store) if ref.kind is SnapshotKind.SAVEPOINT]
    return [catalog.read_manifest(store, ref.folder).size_bytes for ref in refs]


def test_the_search_for_unused_files_finds_the_savepoints_and_their_size(
    store: CountingStore, writer: snapshot_writer.SnapshotWriter
) -> None:
    savepoints = writer.prune().savepoints

    assert len(savepoints) == 2
    assert writer.size_of(savepoints) == sum(sizes(store)) > 0


def test_a_savepoint_is_read_once_and_counts_no_more_when_it_is_gone(
    store: CountingStore, writer: snapshot_writer.SnapshotWriter
) -> None:
    first, second = sizes(store)
    writer.size_of(writer.prune().savepoints)
    savepoint.dispose(store, writer.prune().savepoints[0].folder)
    left, before = writer.prune().savepoints, store.reads

    assert writer.size_of(left) in (first, second)
    assert (len(left), store.reads) == (1, before)
