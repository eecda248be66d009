"""Segments and records of operator state on storage: closed over, restored, pruned, and missed when they are gone."""

from __future__ import annotations

from datetime import timedelta

from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark.checkpoint import batch_records, verify
from statefulspark.contract.layout import SegmentName
from statefulspark.contract.manifest import Manifest
from statefulspark.recovery.plan import StartMode
from statefulspark.retention import pruning, rules

GRACE_S = 60
POLICY = rules.PrunePolicy(retained=2, grace=timedelta(seconds=GRACE_S))


def record(batch: int) -> str:
    return batch_records.RecordName(batch_records.RecordKind.OPERATOR_STATE, "buffer", batch, 1).key


class StatefulQuery(FakeQuery):
    """A query with a stateful source and a sink function whose state changes with every second batch."""

    def plan_batch(self) -> int:
        number = super().plan_batch()
        name = self.segment(number)
        self._put(name.key, b"rows and state")
        self._put(f"{name.key.rsplit('-', 1)[0]}-00000000.arrow", b"of a driver that died before it was planned")
        self._put(
            f"offsets/{number}",
            f'v1\n{{"batchWatermarkMs":0}}\n{{"uid":"counter","segment":{number + 1},"epoch":1}}'.encode(),
        )
        return number

    def run_batch(self, *, failed_attempts: int = 0) -> int:
        if self.batch % 2:
            self._put(record(self.batch + 1), b"{}")
        return super().run_batch(failed_attempts=failed_attempts)

    def segment(self, batch: int) -> SegmentName:
        return SegmentName("counter", batch + 1, 1)


def a_stateful_query(job: Job) -> StatefulQuery:
    return StatefulQuery(job.store, job.start().generation)


def side_files(manifest: Manifest) -> list[str]:
    return [file.path for file in manifest.queries[0].files if file.path.startswith(("source-", "operator-"))]


def side_keys(job: Job) -> list[str]:
    keys = [info.key.split("/", 3)[3] for info in job.store.list("generations") if info.key.count("/") > 3]
    return [key for key in keys if key.startswith(("source-", "operator-"))]


def test_a_cut_holds_the_segment_of_its_offsets_and_the_newest_record(job: Job) -> None:
    query = a_stateful_query(job)
    for _ in range(6):
        query.run_batch()

    manifest = job.checkpoint(query)

    assert side_files(manifest) == [record(4), query.segment(5).key]
    assert verify.verify(job.store, manifest, deep=True).ok


def test_a_planned_batch_whose_segment_is_gone_does_not_end_every_start(job: Job) -> None:
    """A batch that was planned runs again with its segment; without that no start got beyond binding the source."""
    query = a_stateful_query(job)
    query.run_batch()
    job.checkpoint(query)
    ahead = query.plan_batch()
    key = f"{query.path}/{query.segment(ahead).key}"
    job.store.delete_many([key])

    plan = job.start()

    assert (plan.mode, plan.restored_from) == (StartMode.COPY, "checkpoint 1")
    assert key in (plan.fallback or "")


def test_a_restore_brings_exactly_what_the_cut_needs(job: Job) -> None:
    query = a_stateful_query(job)
    for _ in range(5):
        query.run_batch()
    job.checkpoint(query)
    for _ in range(2):
        query.run_batch()
    job.checkpoint(query)

    restored = job.start(a_restore(snapshot="checkpoint:1"))

    found = [info.key.split("/", 3)[3] for info in job.store.list(f"generations/{restored.generation:08d}/delays")]
    assert [key for key in found if key.startswith(("source-", "operator-"))] == [
        record(4),
        query.segment(4).key,
    ]


def test_storage_stays_bounded_and_what_the_running_driver_may_need_stays(job: Job) -> None:
    query = a_stateful_query(job)
    for _ in range(8):
        query.run_batch()
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query)
        job.clock.forward(2 * GRACE_S)
    query.run_batch()  # Committed and in no checkpoint yet.
    ahead = query.plan_batch()  # Planned and not committed.

    pruning.run(job.store, POLICY, job.clock.now)
    pruning.run(job.store, POLICY, job.clock.forward(GRACE_S))

    kept = side_keys(job)
    assert {query.segment(13).key, query.segment(15).key, query.segment(16).key, query.segment(ahead).key} <= set(kept)
    assert {record(12), record(14), record(16)} == {key for key in kept if batch_records.parse_key(key)}
    assert len(kept) == 9  # The two newest segments are here with what a dead driver left behind, too.
