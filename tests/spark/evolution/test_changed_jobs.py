"""A job that has changed goes on from the state it had: each change against the run that was never interrupted (A.169).

One root is recorded once: three batches of a query with two keyed operators and an aggregation over two sources, then a
checkpoint. Every test restores that checkpoint into a generation of its own and lets a changed job read the rest.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import statefulspark as ss
from manifests import a_manifest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import stateful_processor
from restores import a_restore
from statefulspark import errors, failures, storage
from statefulspark.checkpoint import catalog, closure, epochs, plans, verify
from statefulspark.contract import config
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import Trigger
from statefulspark.declaration import QueryContext
from statefulspark.driver.starting import check, start, start_parts
from statefulspark.engine import session
from statefulspark.evolution.parallelism import SHUFFLE_PARTITIONS
from statefulspark.job import Job
from statefulspark.recovery.plan import Author, ReadyState
from statefulspark.storage.port import ObjectStore

cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = [pytest.mark.spark, pytest.mark.s3]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RECORDED, REST = 3, 2
Build = Callable[[DataFrame, DataFrame], DataFrame]
"""Makes the query of the left and the right input."""
Rows = frozenset[tuple[int, str, str, int]]
"""(batch, step, key, number)."""


class Count(ss.KeyedProcessFunction):
    """Counts the rows of each key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self._seen = ctx.value_state("seen", int)

    def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[str, int]]:
        seen = (self._seen.get() or 0) + len(rows)
        self._seen.update(seen)
        yield key, seen


class CountInText(Count):
    """Declares another type for the same state."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self._seen = ctx.value_state("seen", str)


class CountInTextOnWorkers(CountInText):
    """Cannot be opened on the driver."""

    def open(self, ctx: ss.KeyedContext) -> None:
        if ctx.declares_only:
            raise FileNotFoundError("/models/only-on-workers")
        super().open(ctx)


class CountInFloats(Count):
    """Declares a type to which the state is migrated, and one more state."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self._seen = ctx.value_state("seen", float)
        ctx.list_state("latest")


class CountOfTables(ss.VectorizedProcessFunction):
    """Counts rows of each key, a table at a time."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self._seen = ctx.value_state("seen", "bigint")

    def process_table(self, rows: pa.Table, ctx: ss.KeyedContext) -> pa.Table:
        counts = rows.group_by("k").aggregate([("k", "count")])
        return pa.table({"k": counts.column("k"), "n": counts.column("k_count")})


class Nothing(stateful_processor.StatefulProcessor):
    """A processor of Spark's without output."""

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        handle.getValueState("seen", "n bigint")

    def handleInputRows(self, key, rows, timerValues):  # type: ignore[no-untyped-def]  # noqa: N802, N803
        return iter(())

    def close(self) -> None:
        pass


OF_MAINTENANCE = (".sst", ".sst.crc", ".zip", ".zip.crc")


@dataclass
class World:
    """Input, the job's root, and a session."""

    spark: SparkSession
    folder: Path
    store: ObjectStore
    options: storage.StorageOptions
    files: int = 0
    epoch: int = 0
    uninterrupted: Rows = frozenset()
    job_config: config.JobConfig = field(init=False)

    def grow(self, count: int) -> None:
        """Add input: one file a batch to each side; the sides have other rows."""
        for number in range(self.files, self.files + count):
            for side, step in (("left", 1), ("right", 3)):
                path = self.folder / side / f"{number:04d}.json"
                path.parent.mkdir(exist_ok=True)
                rows = [{"k": f"{side[0]}{(number * step + row) % 5}"} for row in range(12 + step)]
                path.write_text("\n".join(json.dumps(row) for row in rows))
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        self.files += count

    def side(self, name: str) -> DataFrame:
        reader = self.spark.readStream.schema("k string").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / name))

    def look(
        self,
        build: Build,
        *,
        conf: dict[str, str] | None = None,
        restore: config.RestoreConfig,
        is_check: bool = False,
    ) -> start_parts.Comparison:
        """Do what a driver, or a check, does until it has compared the job with its state."""
        self.epoch += 0 if is_check else 1
        job = Job("flights")

        @job.query(uid="q")
        def q(spark: SparkSession, ctx: QueryContext) -> object:
            return build(self.side("left"), self.side("right")).writeStream.outputMode("update")

        self.job_config = config.JobConfig(
            name="flights",
            storage=config.StorageConfig(uri="file:///unused"),
            restore=restore,
            engine=config.EngineConfig(conf=conf or {}),
        )
        root = start_parts.JobRoot(self.store, self.options)
        if is_check:
            return start.up_to_comparison(
                job.definition, self.job_config, lambda: root, session_of=lambda *_: self.spark
            )
        root = replace(root, author=self.author)
        epochs.claim(self.store, assigned=self.epoch, holder="pod", claim_id=f"start {self.epoch}", now=NOW)
        found = start.find(job.definition.query_uids, self.job_config, root)
        built = start.build_queries(job.definition, self.job_config, self.spark, found)
        return start.compare(self.job_config, root, self.spark, found, built)

    @property
    def author(self) -> Author:
        return Author("default", "flights", self.epoch, NOW)

    def start(
        self, build: Build, *, conf: dict[str, str] | None = None, restore: config.RestoreConfig
    ) -> tuple[ReadyState, tuple[start_parts.BuiltQuery, ...]]:
        """Do what a driver does until its queries could be started."""
        compared = self.look(build, conf=conf, restore=restore)
        parts = start.prepare(self.job_config, compared, NOW)
        return parts.plan, parts.built

    def keys(self) -> frozenset[str]:
        """Return all keys but epochs, and those of Spark's maintenance, which uploads state of ended queries, too."""
        keys = (info.key for info in self.store.list(""))
        return frozenset(key for key in keys if not key.endswith(OF_MAINTENANCE) and not key.startswith("epochs/"))

    def run(self, plan: ReadyState, built: Sequence[start_parts.BuiltQuery]) -> Rows:
        """Run the query over the rest of the input; return what it emitted."""
        (one,) = built
        output: set[tuple[int, str, str, int]] = set()

        def collect(rows: DataFrame, batch: int) -> None:
            output.update((batch, *row) for row in rows.collect())

        root = f"{session.hadoop_uri(self.store.uri)}/generations/{plan.generation:08d}/q"
        writer = one.stream.frame.writeStream.outputMode("update").foreachBatch(collect)
        query = writer.option("checkpointLocation", root).trigger(availableNow=True).start()
        assert query.awaitTermination(400), "the query did not end"
        return frozenset(output)

    def checkpoint(self, generation: int, batch: int, built: Sequence[start_parts.BuiltQuery]) -> int:
        entry = closure.close_over(self.store, f"generations/{generation:08d}/q", batch)
        number = catalog.next_snapshot_id(self.store)
        manifest = a_manifest(
            number, [plans.annotate(entry, built[0].planned)], generation=generation, trigger=Trigger.MANUAL
        )
        catalog.write_checkpoint(self.store, manifest)
        return number

    def restored(self, build: Build, snapshot: int = 1, **options: object) -> Rows:
        """Restore a checkpoint into a new generation for a changed job, and run it to the end of the input."""
        plan, built = self.start(build, restore=self.wish(snapshot), **options)
        return self.run(plan, built)

    def wish(self, snapshot: int = 1, *, drop: tuple[str, ...] = ()) -> config.RestoreConfig:
        return a_restore(snapshot=f"checkpoint:{snapshot}", nonce=f"wish {self.epoch + 1}", drop_state=drop)


def keyed(
    uid: str,
    frame: DataFrame,
    *,
    function: type[ss.KeyedProcessFunction] = Count,
    max_parallelism: int | None = None,
) -> DataFrame:
    counted = ss.keyed_process(
        frame, key="k", function=function(), uid=uid, schema="k string, n bigint", max_parallelism=max_parallelism
    )
    return counted.select(sql.lit(uid).alias("step"), "k", "n")


def total(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").count().select(sql.lit("total").alias("step"), "k", "count")


def united(*frames: DataFrame) -> DataFrame:
    first, *others = frames
    for other in others:
        first = first.union(other)
    return first


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("evolution")
    options = storage.StorageOptions(allow_local_files=True)
    (folder / "root").mkdir()
    store = storage.open_store(f"file://{folder}/root", options).child("default/flights")
    changed = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "2"}
    for name, value in changed.items():
        spark.conf.set(name, value)
    one = World(spark, folder, store, options)
    one.grow(RECORDED)
    plan, built = one.start(recorded, restore=config.RestoreConfig())
    one.run(plan, built)
    one.checkpoint(plan.generation, RECORDED - 1, built)
    one.grow(REST)
    one.uninterrupted = one.run(plan, built)
    yield one
    for name in changed:
        spark.conf.unset(name)


def recorded(left: DataFrame, right: DataFrame) -> DataFrame:
    return united(keyed("aa", left), keyed("bb", right), total(left))


def of_steps(rows: Rows, *steps: str) -> Rows:
    return frozenset(row for row in rows if row[1] in steps)


def test_operators_and_sources_in_another_order_go_on_with_their_own_state(world: World) -> None:
    """A.169: reordered stateful operators are fine with uids; here Spark's aggregation and both sources move, too."""
    changed = world.restored(lambda left, right: united(keyed("bb", right), total(left), keyed("aa", left)))

    assert {row[0] for row in world.uninterrupted} == {RECORDED, RECORDED + 1}
    assert changed == world.uninterrupted


def test_a_new_operator_starts_empty_and_the_others_go_on(world: World) -> None:
    """A.168, A.169: operators with new uids start empty; the new one reads the old source from where that one stands."""
    changed = world.restored(
        lambda left, right: united(keyed("bb", right), keyed("cc", right), keyed("aa", left), total(left))
    )

    assert of_steps(changed, "aa", "bb", "total") == world.uninterrupted
    fresh = {(row[0], row[2]): row[3] for row in of_steps(changed, "cc")}
    assert {number for (batch, _), number in fresh.items() if batch == RECORDED} == {3}


def test_an_operator_that_left_the_job_is_refused_by_name(world: World) -> None:
    """A.167."""
    before = world.keys()

    with pytest.raises(errors.SpecRejectedError) as refused:
        world.start(lambda left, right: united(keyed("bb", right), total(left)), restore=world.wish())

    assert refused.value.reason == "NonRestoredState"
    assert "checkpoint 1 holds state of operator 'aa' of query 'q'" in refused.value.message
    assert "restore.dropState" in refused.value.message
    assert world.keys() == before


def test_an_operator_that_left_the_job_is_left_behind_when_that_is_allowed(world: World) -> None:
    """A.168."""
    plan, built = world.start(
        lambda left, right: united(keyed("bb", right), total(left)), restore=world.wish(drop=("aa",))
    )

    assert world.run(plan, built) == of_steps(world.uninterrupted, "bb", "total")
    assert not [info.key for info in world.store.list(f"generations/{plan.generation:08d}/q/state/2")]


def test_an_earlier_version_goes_on_without_the_operator_that_a_later_one_added(world: World) -> None:
    back = world.wish().model_copy(update={"keep_aside": True})
    plan, built = world.start(lambda left, right: united(keyed("bb", right), total(left)), restore=back)

    assert [part.uid for part in plan.kept_aside] == ["aa"]
    # By that, pruning keeps the checkpoint for a day.
    assert "aa" not in {operator.uid for query in plan.record.queries for operator in query.operators}
    assert world.run(plan, built) == of_steps(world.uninterrupted, "bb", "total")


def test_an_earlier_version_is_refused_if_an_operator_may_have_another_name_now(world: World) -> None:
    back = world.wish().model_copy(update={"keep_aside": True})

    with pytest.raises(errors.SpecRejectedError, match="state of operator 'aa' of query 'q'") as refused:
        world.start(lambda left, right: united(keyed("cc", left), keyed("bb", right), total(left)), restore=back)

    assert refused.value.reason == "NonRestoredState"


def test_state_is_spread_over_more_partitions_and_over_fewer_again(world: World) -> None:
    """A.66, A.68: any number of partitions up to the number of key groups."""
    setting = "spark.sql.shuffle.partitions"
    plan, built = world.start(recorded, conf={setting: "5"}, restore=world.wish())
    wider = world.run(plan, built)
    assert {(batch - 1, *rest) for batch, *rest in wider} == world.uninterrupted
    (entry,) = plan.queries
    assert (entry.batch_id, {operator.partitions for operator in entry.operators}) == (RECORDED, {5})
    again = world.checkpoint(plan.generation, RECORDED, built)

    narrower = world.restored(recorded, again, conf={setting: "2"})

    assert {(batch - 2, *rest) for batch, *rest in narrower} == world.uninterrupted


def every_door(left: DataFrame, right: DataFrame) -> DataFrame:
    """Return a query with each operator that keeps keyed state."""

    def counted(row: ss.InputRow, seen: int | None) -> tuple[tuple[str, str, int], int]:
        return ("mapped", row.k, (seen or 0) + 1), (seen or 0) + 1

    mapped = ss.map_with_state(left, key="k", function=counted, uid="mapped", schema="step string, k string, n bigint")
    rows = ss.keyed_process(left, key="k", function=CountOfTables(), uid="tables", schema="k string, n bigint")
    spark = ss.compat.transform_with_state(
        right.groupBy("k"), Nothing(), "k string, n bigint", "Update", "None", uid="rows"
    )
    pandas = ss.compat.transform_with_state_in_pandas(
        right.groupBy("k"), Nothing(), "k string, n bigint", "Update", "None", uid="pandas"
    )
    named = [(sql.lit(uid).alias("step"), frame) for uid, frame in (("t", rows), ("r", spark), ("p", pandas))]
    return united(keyed("aa", left), mapped, *(frame.select(step, "k", "n") for step, frame in named))


@pytest.fixture
def partitions_of_session(spark: SparkSession) -> Iterator[Callable[[int], dict[str, str]]]:
    """Set what a user's Spark setting becomes in the session that a driver builds; return the user's setting."""
    before = spark.conf.get(SHUFFLE_PARTITIONS)

    def ask(partitions: int) -> dict[str, str]:
        spark.conf.set(SHUFFLE_PARTITIONS, str(partitions))
        return {SHUFFLE_PARTITIONS: str(partitions)}

    yield ask
    spark.conf.set(SHUFFLE_PARTITIONS, before or "2")


def test_a_first_start_with_the_number_of_partitions_that_is_sparks_default_derives_its_key_groups(
    world: World, partitions_of_session: Callable[[int], dict[str, str]]
) -> None:
    """A.64: by each operator that keeps keyed state."""
    restore = a_restore(empty=True, nonce="derived")

    (built,) = world.look(every_door, conf=partitions_of_session(200), restore=restore).built.queries

    assert {one.uid: one.max_parallelism for one in built.planned.operators} == dict.fromkeys(
        ("aa", "mapped", "tables", "rows", "pandas"), 512
    )


def test_a_restart_with_other_partitions_keeps_the_key_groups_of_the_snapshot(
    world: World, partitions_of_session: Callable[[int], dict[str, str]]
) -> None:
    """A.67: the job leaves the number out; an operator that is new has one for the partitions there are."""
    with_another = lambda left, right: united(recorded(left, right), keyed("cc", right))  # noqa: E731
    setting = partitions_of_session(100)

    changed = world.restored(with_another, conf={SHUFFLE_PARTITIONS: "5"})
    (built,) = world.look(with_another, conf=setting, restore=world.wish()).built.queries

    assert {(batch - 1, *rest) for batch, *rest in of_steps(changed, "aa", "bb", "total")} == world.uninterrupted
    assert {one.uid: one.max_parallelism for one in built.planned.operators if one.uid} == {
        "aa": 128,
        "bb": 128,
        "cc": 256,
    }


def test_a_number_of_key_groups_that_contradicts_the_snapshot_is_refused_with_both(world: World) -> None:
    """A.67."""
    before = world.keys()

    with pytest.raises(errors.SpecRejectedError, match="has 128 key groups and the job declares 256") as refused:
        world.start(
            lambda left, right: united(keyed("aa", left, max_parallelism=256), keyed("bb", right), total(left)),
            restore=world.wish(),
        )

    assert refused.value.reason == "MaxParallelismChanged"
    assert world.keys() == before


def test_named_sources_swap_their_places_and_read_something_else(world: World) -> None:
    """A name is given to what was unnamed, then kept while the plan and the description change."""

    def swapped(left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = ss.named_source(left, uid="first"), ss.named_source(right, uid="second")
        return united(keyed("bb", right), keyed("aa", left), total(left))

    plan, built = world.start(swapped, restore=world.wish())

    assert [source.name for source in built[0].planned.source_entries] == ["second", "first", "first"]
    assert world.run(plan, built) == world.uninterrupted


def test_a_dry_run_tells_what_would_happen_and_writes_nothing(world: World) -> None:
    before = world.keys()
    compared = world.look(
        lambda left, right: united(keyed("bb", right), keyed("cc", right), keyed("aa", left), total(left)),
        conf={"spark.sql.shuffle.partitions": "3"},
        restore=world.wish(),
        is_check=True,
    )

    report = check.report_of(compared)

    (query,) = report.queries
    assert (query.moved, query.added, query.dropped, query.partitions) == (
        ("aa", "bb", "stateStoreSave-2"),
        ("cc",),
        (),
        3,
    )
    assert report.new_generation
    assert "This job can start from checkpoint 1." in check.sentences(report)
    assert "operator 'cc' is new and starts empty" in check.sentences(report)
    assert world.keys() == before


def test_another_type_of_key_is_refused_before_anything_is_written(world: World) -> None:
    """A.14: a key is never migratable."""
    before = world.keys()

    with pytest.raises(errors.SpecRejectedError, match=r"operator 'aa' of query 'q'.*\(string\).*\(int\)") as refused:
        world.start(
            lambda left, right: united(
                keyed("aa", left.select(sql.hash("k").alias("k"))), keyed("bb", right), total(left)
            ),
            restore=world.wish(),
        )

    assert refused.value.reason == "KeyChanged"
    assert world.keys() == before


def with_aa(function: type[ss.KeyedProcessFunction]) -> Build:
    return lambda left, right: united(keyed("aa", left, function=function), keyed("bb", right), total(left))


def test_another_type_of_a_state_is_refused_before_anything_is_written(world: World) -> None:
    """A.13, A.14: both types are named."""
    before = world.keys()

    told = r"operator 'aa' of query 'q'.*Was \[ValueState<int>\], registered with \[ValueState<str>\]"
    with pytest.raises(errors.SpecRejectedError, match=told) as refused:
        world.start(with_aa(CountInText), restore=world.wish())

    assert refused.value.reason == "StateTypeIncompatible"
    assert world.keys() == before


def test_a_dry_run_tells_what_becomes_of_each_state(world: World) -> None:
    compared = world.look(with_aa(CountInFloats), restore=world.wish(), is_check=True)

    report = check.report_of(compared)

    aa = "operator 'aa' of query 'q'"
    assert report.changes == (
        f"{aa}: state 'seen' is migrated from int to float, each key group when it is next used",
        f"{aa}: state 'latest' is new and starts empty",
    )
    assert world.restored(with_aa(CountInFloats)) == world.uninterrupted


def test_a_type_that_only_the_first_batch_finds_ends_as_not_retriable_and_leaves_the_snapshot(world: World) -> None:
    """A.13, A.14: the driver cannot open this function, so it cannot know."""
    (warning,) = check.report_of(
        world.look(with_aa(CountInTextOnWorkers), restore=world.wish(), is_check=True)
    ).warnings
    assert "could not be opened on the driver" in warning
    plan, built = world.start(with_aa(CountInTextOnWorkers), restore=world.wish())

    with pytest.raises(StreamingQueryException) as failed:
        world.run(plan, built)

    failure = failures.classify_query("q", str(failed.value), fenced=False)
    assert failure.code is ExitCode.INCOMPATIBLE_STATE
    assert not world.store.list_names(f"generations/{plan.generation:08d}/q/commits/{RECORDED}")
    manifest = catalog.read_manifest(world.store, "checkpoints/00000001")
    assert verify.verify_queries(world.store, manifest.queries, deep=True).ok
