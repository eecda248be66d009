"""A canonical savepoint of a real query, restored with other partitions and key groups (Flink A.60, A.158, B.3).

The restored query goes on with the results of the uninterrupted run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import statefulspark as ss
from manifests import a_manifest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import stateful_processor
from restores import a_restore
from s3server import S3Server
from statefulspark import errors, state_reading, storage
from statefulspark.checkpoint import closure, epochs, savepoint, transfer, verify
from statefulspark.contract import layout
from statefulspark.contract.config import EngineConfig, JobConfig, StorageConfig
from statefulspark.contract.manifest import Manifest, QueryEntry, SnapshotFormat, SnapshotKind, Trigger
from statefulspark.declaration import QueryContext
from statefulspark.driver.starting import start, start_parts
from statefulspark.engine.canonical import export
from statefulspark.job import Job
from statefulspark.operators.keyed import registry
from statefulspark.recovery import recovery
from statefulspark.recovery.plan import Author, ReadyState, StartMode
from statefulspark.storage.port import ObjectStore
from twosides import Output, TwoSides, run_to_the_end

pytestmark = [pytest.mark.spark, pytest.mark.s3]

ROWS_PER_FILE = 40
KEYS = 11
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FOLDER = "savepoints/00000007-canonical"


@dataclass
class Rig(TwoSides):
    """Input that grows file by file, one file a batch, and a job root that queries run in until the input ends."""

    spark: SparkSession
    folder: Path
    store: ObjectStore
    options: storage.StorageOptions
    groups: int | None = 128
    files: int = 0
    schema: str = "k int, n string, v long"
    rows_per_file: int = ROWS_PER_FILE
    inputs: dict[str, DataFrame] = field(default_factory=dict)

    @property
    def hadoop(self) -> str:
        return transfer.hadoop_uri(self.store.uri)

    def row(self, number: int, step: int, index: int) -> dict[str, object]:
        return {"k": (number * step + index) % KEYS, "n": f"name {index % 3}", "v": number * 100 + index}

    def run(self, kind: str, generation: int) -> Output:
        """Run a query over the rest of the input; return the rows of each of its batches."""
        build, mode = QUERIES[kind]
        root = f"{self.hadoop}/{layout.query_root(generation, 'q')}"
        key_groups = {"all": self.groups or 128}
        with registry.collecting(registry.OperatorRegistry(), query_uid="q", key_groups=key_groups):
            frame = build(self)
        return run_to_the_end(frame, mode, root, within_s=300)

    def closed(self, batch: int) -> QueryEntry:
        """Close over a batch, with what a driver knows of the operators."""
        entry = closure.close_over(self.store, layout.query_root(1, "q"), batch)
        known = {"key": "int, string", "max_parallelism": self.groups}
        operators = tuple(one.model_copy(update=known) if one.uid == "all" else one for one in entry.operators)
        return entry.model_copy(update={"operators": operators})

    def take(self, batch: int) -> Manifest:
        """Take a canonical savepoint of a batch, with its manifest."""
        target = savepoint.SavepointTarget(self.store, FOLDER)
        work = export.Export(self.store, self.hadoop, target, self.options)
        queries = export.export(self.spark, [self.closed(batch)], work)
        manifest = a_manifest(7, queries).model_copy(
            update={"kind": SnapshotKind.SAVEPOINT, "format": SnapshotFormat.CANONICAL}
        )
        self.store.write(f"{FOLDER}/_metadata.json", manifest.to_json(indent=1).encode())
        return manifest

    def restore(self, kind: str, *, partitions: int) -> ReadyState:
        """Do what a driver does from the claim until its queries could be started, from the canonical savepoint."""
        build, mode = QUERIES[kind]
        job = Job("flights")

        @job.query(uid="q")
        def q(spark: SparkSession, ctx: QueryContext) -> object:
            return build(self).writeStream.outputMode(mode)

        job_config = JobConfig(
            name="flights",
            storage=StorageConfig(uri="s3://unused"),
            restore=a_restore(snapshot=f"{self.store.uri}/{FOLDER}"),
            engine=EngineConfig(conf={"spark.sql.shuffle.partitions": str(partitions)}),
        )
        epochs.claim(self.store, assigned=None, holder="pod", claim_id="start", now=NOW)
        root = start_parts.JobRoot(self.store, self.options, Author("default", "flights", 1, NOW))
        found = start.find(job.definition.query_uids, job_config, root)
        built = start.build_queries(job.definition, job_config, self.spark, found)
        return start.prepare(job_config, start.compare(job_config, root, self.spark, found, built), NOW).plan


def _everything() -> ss.KeyedProcessFunction:
    """Return a function with each kind of state, values of several types, and a time to live; workers get its code."""

    class Sum:
        def create(self) -> int:
            return 0

        def add(self, accumulator: int, value: int) -> int:
            return accumulator + value

        def result(self, accumulator: int) -> int:
            return accumulator

    class Everything(ss.KeyedProcessFunction):
        def open(self, ctx: ss.KeyedContext) -> None:
            self.total = ctx.value_state("total", "bigint")
            self.seen = ctx.list_state("seen")
            self.parts = ctx.map_state("parts", ttl=ss.Ttl("9d"))
            self.mixed = ctx.value_state("mixed")
            self.most = ctx.reducing_state("most", max)
            self.summed = ctx.aggregating_state("summed", Sum())

        def process(
            self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext
        ) -> Iterator[tuple[object, ...]]:
            values = [row.v for row in rows]
            total = (self.total.get() or 0) + sum(values)
            self.total.update(total)
            for value in values:
                self.seen.add((value, f"v{value}"))
                self.parts.put(f"part {value % 3}", value * 0.5)
                self.most.add(value)
                self.summed.add(value)
            self.mixed.update(total if total % 2 else [str(total), {"total": total}])
            seen = self.seen.get()
            ordered = int(seen == sorted(seen) and self.most.get() == seen[-1][0] and self.summed.get() == total)
            yield key[0], total, len(seen) + ordered, sum(self.parts.values()), str(self.mixed.get())

    return Everything()


def _keyed(rig: Rig, frame: DataFrame) -> DataFrame:
    return ss.keyed_process(
        frame,
        key=("k", "n"),
        function=_everything(),
        uid="all",
        schema="k int, total bigint, seen bigint, parts double, mixed string",
        max_parallelism=rig.groups,
    )


def _keyed_then_aggregated(rig: Rig) -> DataFrame:
    most = (sql.max("total"), sql.max("seen"), sql.sum("parts"), sql.max("mixed"), sql.count("*"))
    return _keyed(rig, rig.source()).groupBy("k").agg(*most)


def _session_lengths() -> stateful_processor.StatefulProcessor:
    """Return a processor of Spark's with each kind of its state, and timers; workers get its code."""

    class Lengths(stateful_processor.StatefulProcessor):
        def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
            self.handle = handle
            self.total = handle.getValueState("total", "v bigint")
            self.seen = handle.getListState("seen", "v bigint, n string")
            self.parts = handle.getMapState("parts", "part string", "v double")

        def handleInputRows(self, key, rows, timerValues):  # type: ignore[no-untyped-def]  # noqa: N802, N803
            for row in rows:
                self.total.update(((self.total.get() or (0,))[0] + row.v,))
                self.seen.appendValue((row.v, row.n))
                self.parts.updateValue((f"part {row.v % 3}",), (row.v * 0.5,))
                self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 30_000)
            yield Row(k=key[0], total=self.total.get()[0], seen=len(list(self.seen.get())), fired=False)

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # type: ignore[no-untyped-def]  # noqa: N802, N803
            parts = int(sum(part[0] for part in self.parts.values()) * 2)
            yield Row(k=key[0], total=parts, seen=expiredTimerInfo.getExpiryTimeInMs(), fired=True)

        def close(self) -> None:
            pass

    return Lengths()


def _with_processor(rig: Rig) -> DataFrame:
    timed = rig.source().withColumn("at", sql.timestamp_seconds("v")).withWatermark("at", "5 seconds")
    return ss.compat.transform_with_state(
        timed.groupBy("k", "n"),
        _session_lengths(),
        "k int, total bigint, seen bigint, fired boolean",
        "Update",
        "EventTime",
        uid="all",
        max_parallelism=rig.groups,
    )


def _deduplicated_then_joined(rig: Rig) -> DataFrame:
    left = rig.source("left").dropDuplicates(["v"])
    right = rig.source("right").withColumnsRenamed({"k": "k2", "v": "v2", "n": "n2"})
    return left.join(right, (left.k == right.k2) & (left.v % 10 == right.v2 % 10))


def _aggregated_over_all(rig: Rig) -> DataFrame:
    return rig.source().groupBy().agg(sql.sum("v"), sql.max("n"), sql.count("*"))


_OF_ALL_ROWS = "an aggregation of all rows"
QUERIES: dict[str, tuple[Callable[[Rig], DataFrame], str]] = {
    "keyed state and an aggregation of Spark's": (_keyed_then_aggregated, "update"),
    "a processor of Spark's on keyed state": (_with_processor, "update"),
    "a deduplication and a join of Spark's": (_deduplicated_then_joined, "append"),
    _OF_ALL_ROWS: (_aggregated_over_all, "update"),
}


@pytest.fixture
def rig(spark: SparkSession, s3: S3Server, s3_bucket: str, tmp_path: Path) -> Rig:
    store = storage.open_store(f"s3://{s3_bucket}/state/default/flights", s3.options())
    return Rig(spark, tmp_path, store, s3.options())


def test_restored_by_a_job_that_leaves_the_number_out_it_keeps_the_key_groups_that_it_had(rig: Rig) -> None:
    """A.67."""
    kind = "keyed state and an aggregation of Spark's"
    rig = replace(rig, groups=64)
    rig.grow(1)
    rig.take(batch=max(rig.run(kind, generation=1)))
    rig.grow(1)
    uninterrupted = rig.run(kind, generation=1)
    rig.store.delete_many([info.key for info in rig.store.list("generations")])

    plan = replace(rig, groups=None).restore(kind, partitions=3)

    assert [one.max_parallelism for one in plan.queries[0].operators if one.uid == "all"] == [64]
    assert rig.run(kind, plan.generation) == uninterrupted


@pytest.mark.parametrize("kind", QUERIES)
def test_restored_with_more_partitions_and_fewer_key_groups_it_goes_on_as_the_uninterrupted_run(
    rig: Rig, kind: str
) -> None:
    rig.grow(2)
    # Spark runs a batch without rows where the watermark has something to do.
    last = max(rig.run(kind, generation=1))
    rig.take(batch=last)
    rig.grow(1)
    uninterrupted = rig.run(kind, generation=1)
    rig.store.delete_many([info.key for info in rig.store.list("generations")])

    changed = replace(rig, groups=64)
    plan = changed.restore(kind, partitions=3)
    restored = changed.run(kind, plan.generation)

    (entry,) = plan.queries
    assert min(uninterrupted) == last + 1
    assert restored == uninterrupted
    assert {one.partitions for one in entry.operators} == {1 if kind == _OF_ALL_ROWS else 3}
    assert {one.max_parallelism for one in entry.operators if one.uid == "all"} <= {64}
    assert verify.verify_queries(rig.store, [entry]).ok


def _read_by_command(rig: Rig, folder: str, uid: str, state: str) -> list[dict[str, object]]:
    """Read in a process of its own, in whose Spark nothing has run yet."""
    command = [sys.executable, "-m", "statefulspark.cli.main", "state", "read", f"{rig.store.uri}/{folder}"]
    command += ["--uid", uid, "--state", state, "-o", "json", "--endpoint", str(rig.options.endpoint)]
    keys = {"AWS_ACCESS_KEY_ID": rig.options.access_key, "AWS_SECRET_ACCESS_KEY": rig.options.secret_key}
    environment = {**os.environ, **{name: str(key) for name, key in keys.items()}}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    return sorted((json.loads(line) for line in ended.stdout.splitlines()), key=str)


def test_state_read_offline_is_the_same_from_a_native_and_from_a_canonical_snapshot(rig: Rig) -> None:
    """A native snapshot that was moved is read, too: its absolute paths lead nowhere."""
    rig.grow(1)
    rig.run("keyed state and an aggregation of Spark's", generation=1)
    manifest = rig.take(batch=0)
    entry = rig.closed(batch=0)
    epochs.claim(rig.store, assigned=None, holder="pod", claim_id="start", now=NOW)
    request = savepoint.SavepointProperties(8, "default", "flights", Trigger.MANUAL, 1, 1, NOW)
    target = savepoint.SavepointTarget(rig.store, "savepoints/00000008-native")
    savepoint.take_savepoint(rig.store, [entry], request, target, completed_at=lambda: NOW)
    rig.store.delete_many([info.key for info in rig.store.list("generations")])

    def read(folder: str, uid: str, **chosen: str) -> list[dict[str, object]]:
        found = ss.read_state(f"{rig.store.uri}/{folder}", uid=uid, options=rig.options, **chosen)
        return sorted(found.to_pylist(), key=str)

    assert manifest.format is SnapshotFormat.CANONICAL
    for uid, chosen in (("all", {"state": "seen"}), ("stateStoreSave-0", {})):
        canonical = read(FOLDER, uid, **chosen)
        assert len(canonical) in (ROWS_PER_FILE, KEYS)
        assert read(target.folder, uid, **chosen) == canonical
    assert _read_by_command(rig, target.folder, "all", "most") == read(FOLDER, "all", state="most") != []
    parent, _, name = f"{rig.store.uri}/savepoints/00000009-converted".rpartition("/")
    converted = state_reading.convert(target.uri, parent, name, rig.options)
    assert [one.operators for one in converted.queries] == [entry.operators for entry in manifest.queries]
    for state in ("total", "seen", "parts", "mixed", "most", "summed"):
        assert read("savepoints/00000009-converted", "all", state=state) == read(FOLDER, "all", state=state) != []
    key = {"key_1": 3, "key_2": "name 0"}
    values = range(3, ROWS_PER_FILE, 33)
    assert read(FOLDER, "all", state="most", key="3,name 0") == [{**key, "value": max(values)}]
    assert read(FOLDER, "all", state="summed", key="3,name 0") == [{**key, "value": sum(values)}]
    renewed = {row["renewed_ms"] for row in read(FOLDER, "all", state="parts")}
    assert min(renewed) > int(NOW.timestamp() * 1000)
    with pytest.raises(errors.PreconditionFailedError, match="00000009-converted"):
        state_reading.convert(target.uri, parent, name, rig.options)
    assert read(FOLDER, "all", state="total", key="3,name 0") == [
        {"key_1": 3, "key_2": "name 0", "value": sum(range(3, ROWS_PER_FILE, 33))}
    ]
    operator = entry.operators[0]
    damaged = next(
        file.path for file in entry.files if re.match(rf"state/{operator.operator_id}/\d+/.*changelog$", file.path)
    )
    rig.store.write(f"{target.folder}/files/q/{damaged}", b"swapped")
    with pytest.raises(errors.SnapshotCorruptError, match=damaged.rpartition("/")[2]):
        read(target.folder, operator.uid)


def test_a_missing_or_swapped_file_is_refused_by_name_before_anything_is_made(rig: Rig) -> None:
    rig.grow(1)
    rig.run("keyed state and an aggregation of Spark's", generation=1)
    (entry,) = rig.take(batch=0).queries
    parts = [f"{FOLDER}/{entry.path}/{file.path}" for file in entry.files if file.path.endswith(".parquet")]
    wish = a_restore(snapshot=f"{rig.store.uri}/{FOLDER}")
    for part in parts[:2]:
        body = rig.store.read(part)
        for damage in (None, bytes(reversed(body))):
            if damage is None:
                rig.store.delete_many([part])
            else:
                rig.store.write(part, damage)
            with pytest.raises(errors.SnapshotCorruptError, match=part.rpartition("/")[2]):
                recovery.plan_recovery(rig.store, restore=wish)
        rig.store.write(part, body)
    plan = recovery.plan_recovery(rig.store, restore=wish)
    assert (plan.mode, plan.queries[0].operators[0].uid) == (
        StartMode.COPY, "stateStoreSave-0",
    )  # fmt: skip
    assert not rig.store.list("generations/00000002")
