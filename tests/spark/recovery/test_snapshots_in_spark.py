"""A snapshot of a real query, restored into another root: it goes on with the results of the uninterrupted run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from manifests import a_manifest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from restores import a_restore
from s3server import S3Server
from statefulspark import failures, storage
from statefulspark.checkpoint import catalog, closure, epochs, savepoint, transfer, verify
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import Trigger
from statefulspark.contract.notes import DamageNote
from statefulspark.recovery import damage, recovery, restore
from statefulspark.recovery.plan import Author, ReadyState
from statefulspark.storage.port import ObjectStore
from twosides import Output, TwoSides, run_to_the_end

pytestmark = [pytest.mark.spark, pytest.mark.s3]

ROWS_PER_FILE = 20
KEYS = 7
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLAIM = "start"
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


@dataclass
class Rig(TwoSides):
    """Input that grows file by file, one file a batch, and a job root that queries run in until the input ends."""

    spark: SparkSession
    folder: Path
    store: ObjectStore
    open_store: Callable[[str], ObjectStore]
    files: int = 0
    schema: str = "k long, v long"
    rows_per_file: int = ROWS_PER_FILE
    inputs: dict[str, DataFrame] = field(default_factory=dict)

    def row(self, number: int, step: int, index: int) -> dict[str, object]:
        return {"k": (number * step + index) % KEYS, "v": number * 100 + index}

    def run(self, kind: str, generation: int) -> Output:
        """Run a query over the rest of the input; return the rows of each of its batches."""
        root = f"{transfer.hadoop_uri(self.store.uri)}/{layout.query_root(generation, 'q')}"
        mode = "append" if kind in ("join", "stateless") else "update"
        return run_to_the_end(QUERIES[kind](self), mode, root)

    def checkpoint(self, batch: int, generation: int = 1) -> closure.QueryEntry:
        """Complete a checkpoint at a batch."""
        entry = closure.close_over(self.store, layout.query_root(generation, "q"), batch)
        number = catalog.next_snapshot_id(self.store)
        catalog.write_checkpoint(self.store, a_manifest(number, [entry], generation=generation, claim=CLAIM))
        return entry

    def start(self, wish: RestoreConfig | None = None) -> ReadyState:
        plan = recovery.plan_recovery(
            self.store, restore=wish or RestoreConfig(), query_uids=["q"], open_store=self.open_store
        )
        epochs.claim(self.store, assigned=None, holder="pod", claim_id=CLAIM, now=NOW)
        author = Author("default", "flights", 1, NOW)
        return restore.carry_out(self.store, restore.settle(self.store, plan, author), author)


def _count(rig: Rig) -> DataFrame:
    return rig.source().groupBy("k").count()


def _join(rig: Rig) -> DataFrame:
    left, right = rig.source("left"), rig.source("right").withColumnsRenamed({"k": "k2", "v": "v2"})
    return left.join(right, (left.k == right.k2) & (left.v % 10 == right.v2 % 10))


def _two_operators(rig: Rig) -> DataFrame:
    return rig.source().dropDuplicates(["v"]).groupBy("k").count()


def _stateless(rig: Rig) -> DataFrame:
    return rig.source()


def _keyed(rig: Rig) -> DataFrame:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Sum(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._sum = handle.getValueState("head_sums", "total long")
            self._seen = handle.getListState("log_sums", "v long")

        def handleInputRows(self, key, rows, timer_values):  # noqa: N802
            values = [int(value) for frame in rows for value in frame["v"]]
            total = (self._sum.get()[0] if self._sum.exists() else 0) + sum(values)
            self._sum.update((total,))
            self._seen.appendValue((len(values),))
            seen = sum(row[0] for row in self._seen.get())
            yield pd.DataFrame({"k": [key[0]], "total": [total], "seen": [seen]})

        def close(self) -> None:
            pass

    grouped = rig.source().groupBy("k")
    return grouped.transformWithStateInPandas(Sum(), "k long, total long, seen long", "Update", "None")


QUERIES: dict[str, Callable[[Rig], DataFrame]] = {
    "count": _count,
    "join": _join,
    "two operators": _two_operators,
    "stateless": _stateless,
    "keyed": _keyed,
}


@pytest.fixture
def rig(spark: SparkSession, s3: S3Server, s3_bucket: str, tmp_path: Path) -> Iterator[Rig]:
    settings = {
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
        "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
        "spark.sql.streaming.fileSource.log.compactInterval": "3",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)

    def open_store(uri: str) -> ObjectStore:
        return storage.open_store(uri, s3.options())

    yield Rig(spark, tmp_path, open_store(f"s3://{s3_bucket}/state/default/flights"), open_store)
    for name in settings:
        spark.conf.unset(name)
    spark.conf.set(CHANGELOGS, "true")


@pytest.mark.parametrize("kind", QUERIES)
def test_a_restored_query_gives_the_results_of_the_uninterrupted_run(rig: Rig, kind: str) -> None:
    rig.grow(4)
    assert rig.start().generation == 1
    rig.run(kind, generation=1)
    rig.checkpoint(batch=3)
    rig.grow(2)
    uninterrupted = rig.run(kind, generation=1)
    rig.checkpoint(batch=5)

    plan = rig.start(a_restore(snapshot="checkpoint:1"))
    restored = rig.run(kind, plan.generation)

    assert plan.generation == 2
    assert sorted(uninterrupted) == [4, 5]
    assert restored == uninterrupted


def test_a_savepoint_moved_to_another_bucket_and_job_gives_the_results_of_the_uninterrupted_run(
    rig: Rig, s3: S3Server
) -> None:
    rig.grow(2)
    rig.start()
    rig.run("keyed", generation=1)
    entry = closure.close_over(rig.store, layout.query_root(1, "q"), 1)
    request = savepoint.SavepointProperties(1, "default", "flights", Trigger.MANUAL, 1, 1, NOW)
    place = savepoint.resolve_target(rig.store, request)
    savepoint.take_savepoint(rig.store, [entry], request, place, completed_at=lambda: NOW)
    moved = rig.open_store(f"s3://{s3.new_bucket()}/backups/monday")
    names = [info.key for info in rig.store.list(place.folder)]
    transfer.copy(rig.store, moved, [(name, name[len(place.folder) + 1 :]) for name in names])
    rig.grow(1)
    uninterrupted = rig.run("keyed", generation=1)
    rig.store.delete_many([info.key for info in rig.store.list("")])

    plan = rig.start(a_restore(snapshot=moved.uri))
    restored = rig.run("keyed", plan.generation)

    assert (plan.restored_from, dict(plan.start_batches)) == (moved.uri, {"q": 1})
    assert restored == uninterrupted


def test_committed_batches_that_no_checkpoint_covers_are_salvaged_and_continued(rig: Rig) -> None:
    rig.grow(2)
    rig.start()
    rig.run("count", generation=1)

    plan = rig.start()
    rig.grow(1)
    output = rig.run("count", plan.generation)

    assert (plan.generation, plan.restored_from) == (1, "checkpoint 1")
    assert sorted(output) == [2]
    assert sum(count for _, count in output[2]) <= 3 * ROWS_PER_FILE


def test_rot_that_only_shows_when_spark_loads_state_is_noted_and_left_behind(rig: Rig, s3: S3Server) -> None:
    """A byte changes on the server's disk: size and etag stay, so that only who reads the file finds out."""
    # A snapshot of the state, uploaded late, would spare Spark the changelog that is going to rot.
    rig.spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "100")
    rig.grow(3)
    rig.start()
    rig.run("count", generation=1)
    rig.checkpoint(batch=1)
    newest = rig.checkpoint(batch=2)
    rig.grow(1)
    rotten = next(file.path for file in newest.files if "/3_" in file.path and file.path.endswith(".changelog"))
    on_disk = s3.objects / rig.store.uri.removeprefix("s3://") / newest.path / rotten
    body = bytearray(on_disk.read_bytes())
    body[len(body) // 2] ^= 0xFF
    on_disk.write_bytes(body)

    unsuspecting = rig.start()
    with pytest.raises(StreamingQueryException) as raised:
        rig.run("count", unsuspecting.generation)
    failure = failures.classify_query("q", str(raised.value), fenced=False)
    note = DamageNote(generation=1, epoch=1, query="q", batch_id=2, said=failure.message, noted_at=NOW)
    damage.write(rig.store, note)
    plan = rig.start()
    output = rig.run("count", plan.generation)

    assert (unsuspecting.generation, unsuspecting.restored_from) == (1, "checkpoint 2")
    assert failure.reason == failures.STATE_DAMAGED
    assert (plan.generation, plan.restored_from) == (2, "checkpoint 1")
    assert rotten in (plan.fallback or "")
    assert sorted(output) == [2, 3]
    assert sum(count for _, count in output[3]) == 4 * ROWS_PER_FILE


def test_every_file_of_a_real_checkpoint_matters_to_verification(rig: Rig) -> None:
    """Each file in turn goes missing, loses its last byte, and is swapped for another of the same size."""
    rig.grow(2)
    rig.start()
    rig.run("keyed", generation=1)
    entry = rig.checkpoint(batch=1)
    assert verify.verify_queries(rig.store, [entry], deep=True).ok
    for file in entry.files:
        key = f"{entry.path}/{file.path}"
        body = rig.store.read(key)
        for spoilt, kind in (
            (None, verify.ProblemKind.MISSING),
            (body[:-1], verify.ProblemKind.SIZE_DIFFERS),
            (bytes(reversed(body)), verify.ProblemKind.CHECKSUM_DIFFERS),
        ):
            if spoilt is None:
                rig.store.delete_many([key])
            else:
                rig.store.write(key, spoilt)
            problems = verify.verify_queries(rig.store, [entry]).problems
            assert [(problem.path, problem.kind) for problem in problems] == [(key, kind)]
        rig.store.write(key, body)
    assert verify.verify_queries(rig.store, [entry], deep=True).ok


def test_a_real_checkpoint_is_proven_whatever_its_etags_say(rig: Rig, s3: S3Server) -> None:
    """With SSE-KMS an etag is no MD5, and an encryption in place changes it and no content."""

    def encrypt() -> None:
        for info in rig.store.list(""):
            s3.encrypt(f"{rig.store.uri.removeprefix('s3://')}/{info.key}")

    # Each batch uploads a snapshot with its tables, as Spark's maintenance does now and then.
    rig.spark.conf.set(CHANGELOGS, "false")
    rig.grow(8)
    rig.start()
    rig.run("count", generation=1)
    encrypt()
    entry = rig.checkpoint(batch=7)
    tables = [file.path for file in entry.files if file.path.endswith(".sst")]
    encrypt()
    report = verify.verify_queries(rig.store, [entry], deep=True)
    plan = rig.start(a_restore(snapshot="checkpoint:1"))
    rig.grow(1)
    output = rig.run("count", plan.generation)
    body = rig.store.read(f"{entry.path}/{tables[0]}")
    rig.store.write(f"{entry.path}/{tables[0]}", bytes([body[0] ^ 1]) + body[1:])
    problems = verify.verify_queries(rig.store, [entry]).problems

    assert tables
    assert {f"{table}.crc" for table in tables} <= {file.path for file in entry.files}
    assert (report.problems, report.uncompared) == ((), ())
    assert sorted(output) == [8]
    assert [problem.path for problem in problems] == [f"{entry.path}/{tables[0]}"]
