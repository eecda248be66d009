"""A check and a start of the same job from the same root: one page, so that what one says is what the other does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from fakehooks import Bookmarks
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import declaration, errors, storage
from statefulspark.checkpoint import plans, progress, transfer
from statefulspark.contract import api, config
from statefulspark.contract.manifest import MasterStateEntry, SnapshotFormat
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import check, start, start_parts
from statefulspark.hooks import HookDefinition
from statefulspark.job import Job as JobFile
from statefulspark.operators import functions
from statefulspark.planning import carry
from statefulspark.recovery import plan
from statefulspark.testing import stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

KEYED = a_planned_operator("mean", max_parallelism=128)
ADDED = a_planned_operator("count", 1, max_parallelism=128)
SOURCE = plans.PlannedSource("numbers")
NO_SESSION = cast("SparkSession", None)
FENCED_SESSION = cast(
    "SparkSession",
    SimpleNamespace(
        _jvm=SimpleNamespace(
            io=SimpleNamespace(statefulspark=SimpleNamespace(checkpoint=SimpleNamespace(EpochFence=None)))
        )
    ),
)


@dataclass
class World:
    """A root, and what was asked for."""

    job: Job
    query: FakeQuery
    wish: config.RestoreConfig

    @property
    def job_config(self) -> config.JobConfig:
        return config.JobConfig(name="flights", storage=config.StorageConfig(uri="s3://bucket"), restore=self.wish)

    def told(self, built: start_parts.Built, root: start_parts.JobRoot) -> check.Report:
        """Find and compare; report what came out."""
        try:
            found = start.find(tuple(one.uid for one in built.queries), self.job_config, root)
            return check.report_of(start.compare(self.job_config, root, NO_SESSION, found, built))
        except errors.StatefulSparkError as error:
            return check.Report(fits=False, reason=error.reason, message=error.message)

    @property
    def unclaimed(self) -> start_parts.JobRoot:
        return start_parts.JobRoot(self.job.store, storage.StorageOptions())

    @property
    def claimed(self) -> start_parts.JobRoot:
        self.job.epoch += 1
        self.job.hold_epoch()
        return replace(self.unclaimed, author=self.job.author())


def a_root_with_a_checkpoint(wish: config.RestoreConfig | None = None) -> World:
    """A job that has a checkpoint with the state of a hook."""
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    for _ in range(3):
        query.run_batch()
    job.checkpoint(query)
    return World(job, query, wish or config.RestoreConfig())


def past_its_checkpoint() -> World:
    world = a_root_with_a_checkpoint()
    world.query.run_batch()
    return world


def with_a_damaged_head() -> World:
    world = past_its_checkpoint()
    world.job.store.write(f"{world.query.path}/offsets/3", b"not Spark's")
    return world


def asked_for_a_checkpoint() -> World:
    return a_root_with_a_checkpoint(a_restore(snapshot="checkpoint:1", nonce="wish"))


def asked_for_what_is_not_there() -> World:
    return a_root_with_a_checkpoint(a_restore(snapshot="checkpoint:7", nonce="wish"))


def asked_for_empty_state() -> World:
    return a_root_with_a_checkpoint(a_restore(empty=True, nonce="wish"))


def allowed_to_leave_state() -> World:
    return a_root_with_a_checkpoint(config.RestoreConfig(drop_state=("delays", "other")))


def empty() -> World:
    job = Job()
    return World(job, FakeQuery(job.store), config.RestoreConfig())


def emptied() -> World:
    world = a_root_with_a_checkpoint()
    store = world.job.store
    store.delete_many([info.key for folder in ("generations", "checkpoints") for info in store.list(folder)])
    return world


WORLDS = (
    a_root_with_a_checkpoint,
    past_its_checkpoint,
    with_a_damaged_head,
    asked_for_a_checkpoint,
    asked_for_what_is_not_there,
    asked_for_empty_state,
    allowed_to_leave_state,
    empty,
    emptied,
)


def a_built_job(
    uid: str = "delays", *operators: plans.PlannedOperator, sources: tuple[plans.PlannedSource, ...] = (SOURCE,)
) -> start_parts.Built:
    """Build a job of one query."""
    frame, writer = cast("DataFrame", None), cast("DataStreamWriter", None)
    planned = a_planned_query(*operators, uid=uid, sources=sources)
    query = start_parts.BuiltQuery(uid, writer, carry.Stream(frame, "update"), planned)
    hook = HookDefinition("bookmarks", Bookmarks("bookmarks"))
    return start_parts.Built((query,), functions.JobFunctions(), hooks.JobHooks((hook,)))


JOBS = {
    "the same job": a_built_job("delays", KEYED),
    "a job with one operator more": a_built_job("delays", KEYED, ADDED),
    "a job without its operator": a_built_job("delays"),
    "a job without its query": a_built_job("arrivals", KEYED),
}
READING_MORE = a_built_job("delays", KEYED, sources=(plans.PlannedSource("letters"), replace(SOURCE, relation=1)))


@pytest.mark.parametrize("built", JOBS.values(), ids=JOBS.keys())
@pytest.mark.parametrize("world_of", WORLDS, ids=lambda world_of: world_of.__name__)
def test_a_check_says_what_the_start_then_does(world_of: Callable[[], World], built: start_parts.Built) -> None:
    world = world_of()
    before = world.job.store.list("")

    foretold = world.told(built, world.unclaimed)
    untouched = world.job.store.list("") == before
    done = world.told(built, world.claimed)

    assert untouched
    # A start completes as a checkpoint what a check leaves as it is, and names that one.
    assert _unnamed(foretold) == _unnamed(done)


def _unnamed(report: check.Report) -> check.Report:
    message = report.message.replace("checkpoint 2", "checkpoint 1") if report.message else None
    newest = report.restored_from and report.restored_from.replace("checkpoint 2", "checkpoint 1")
    return report.model_copy(update={"message": message, "restored_from": newest})


FOUND = "Finding the job's state"
NEWER = "Reading the state that query 'delays' has committed since the latest checkpoint"


@pytest.mark.parametrize(
    ("world_of", "steps"),
    [
        pytest.param(empty, [FOUND], id="nothing to go on from"),
        pytest.param(a_root_with_a_checkpoint, [FOUND, "Verifying checkpoint 1"], id="a checkpoint"),
        pytest.param(past_its_checkpoint, [FOUND, NEWER], id="batches since the checkpoint"),
        pytest.param(with_a_damaged_head, [FOUND, "Verifying checkpoint 1"], id="batches that cannot be used"),
        pytest.param(asked_for_a_checkpoint, [FOUND, "Verifying checkpoint 1"], id="a restore"),
    ],
)
def test_what_may_take_long_is_told_with_a_count_that_gets_to_its_end(
    world_of: Callable[[], World], steps: list[str]
) -> None:
    world, told = world_of(), dict[str, list[api.Progress]]()

    def at(step: str) -> progress.Report:
        return told.setdefault(step, []).append

    start.find(("delays",), world.job_config, world.claimed, begin_step=at)

    assert list(told) == steps
    assert all(counts[-1].done == counts[-1].total for counts in told.values() if counts)
    assert [step for step in steps if told[step] and told[step][-1].total] == steps[1:]


@pytest.mark.parametrize("written_as", SnapshotFormat)
def test_one_group_of_all_rows_takes_another_number_of_partitions_from_a_canonical_savepoint_alone(
    written_as: SnapshotFormat,
) -> None:
    """Spark's repartition would move it to where it is not looked for; an import does not."""
    world = a_root_with_a_checkpoint(a_restore(snapshot="checkpoint:1", nonce="wish"))
    limit = {"name": "globalLimit"}
    query = a_query("delays", an_operator("mean"), an_operator("globalLimit-1", 1, **limit))
    found = replace(start.find(("delays",), world.job_config, world.unclaimed), queries=(query,))
    assert found.restored is not None
    manifest = found.restored.model_copy(update={"format": written_as})
    place = transfer.SnapshotLocation(world.job.store, "savepoints/one")
    found = replace(found, source=plan.Candidate("one", (query,), place, manifest=manifest))
    built = a_built_job("delays", KEYED, a_planned_operator(None, 1, **limit))
    asked = replace(built.queries[0], planned=replace(built.queries[0].planned, partitions=4))

    def compared() -> start_parts.Comparison:
        again = replace(built, queries=(asked,))
        return start.compare(world.job_config, world.unclaimed, NO_SESSION, found, again)

    if written_as is SnapshotFormat.CANONICAL:
        assert compared().changes["delays"].partitions == 4
        return
    with pytest.raises(errors.SpecRejectedError, match="globalLimit-1") as refused:
        compared()
    assert refused.value.reason == "PartitionsChanged"


def test_a_job_without_the_hook_whose_state_it_has_is_refused_by_both() -> None:
    world = a_root_with_a_checkpoint()
    states = (MasterStateEntry.encode("another", 1, b"state"),)
    found = replace(start.find(("delays",), world.job_config, world.unclaimed), master_states=states)

    with pytest.raises(errors.SpecRejectedError, match="master hook 'another'"):
        start.compare(world.job_config, world.unclaimed, NO_SESSION, found, JOBS["the same job"])


@pytest.mark.parametrize(
    ("job", "is_planned", "generation"),
    [
        pytest.param(JOBS["the same job"], True, 1, id="the job is the same"),
        pytest.param(JOBS["a job with one operator more"], True, 1, id="it reads the same"),
        pytest.param(READING_MORE, True, 2, id="it reads one source more"),
        pytest.param(READING_MORE, False, 1, id="it had not planned anything"),
    ],
)
def test_a_first_batch_that_was_planned_and_not_committed_is_planned_anew_for_other_sources(
    job: start_parts.Built, is_planned: bool, generation: int
) -> None:
    """Spark would read one source up to the planned position of another, or refuse the job for good."""
    world = empty()

    def prepared(built: start_parts.Built) -> start_parts.Parts:
        root = world.claimed
        found = start.find(("delays",), world.job_config, root)
        return start.prepare(
            world.job_config,
            start.compare(world.job_config, root, FENCED_SESSION, found, built),
            world.job.clock.now,
        )

    query = FakeQuery(world.job.store, prepared(JOBS["the same job"]).plan.generation)
    if is_planned:
        query.plan_batch()
    foretold = world.told(job, world.unclaimed)

    assert prepared(job).plan.generation == generation
    assert foretold.new_generation is (generation == 2)
    assert len(foretold.changes) == generation - 1
    assert not world.job.store.list("generations/00000002/delays")


def test_what_was_not_claimed_cannot_be_prepared() -> None:
    world = a_root_with_a_checkpoint()
    found = start.find(("delays",), world.job_config, world.unclaimed)
    compared = start.compare(world.job_config, world.unclaimed, NO_SESSION, found, JOBS["the same job"])
    before = world.job.store.list("")

    with pytest.raises(errors.InternalError, match="was not claimed"):
        start.prepare(world.job_config, compared, world.job.clock.now)
    assert world.job.store.list("") == before


def test_a_check_opens_the_root_and_nothing_else_before_it_refuses() -> None:
    """Both halves of the page are one function; a job without queries shows it without Spark."""
    opened: list[str] = []

    def root_of() -> start_parts.JobRoot:
        opened.append("root")
        return start_parts.JobRoot(stores.MemoryStore(), storage.StorageOptions())

    def no_session(*_: object) -> SparkSession:
        raise errors.InternalError("JarsMissing", "no session is needed for this")

    job = JobFile("flights")
    with pytest.raises(errors.SpecRejectedError, match="declares no query"):
        start.up_to_comparison(job.definition, a_root_with_a_checkpoint().job_config, root_of, session_of=no_session)
    assert opened == []

    @job.query(uid="delays")
    def delays(spark: SparkSession, ctx: declaration.QueryContext) -> DataStreamWriter:
        raise AssertionError("is not called")

    with pytest.raises(errors.InternalError, match="no session"):
        start.up_to_comparison(job.definition, a_root_with_a_checkpoint().job_config, root_of, session_of=no_session)
    assert opened == ["root"]
