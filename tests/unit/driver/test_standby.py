"""A standby beside a running driver, on storage in memory: what it follows, refuses and rides out, and its activation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest
from fakecontrol import NOON
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors, storage
from statefulspark.checkpoint import plans
from statefulspark.contract import api, config
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import standby, start, start_parts
from statefulspark.driver.starting.controls import StandbyControl
from statefulspark.operators import functions
from statefulspark.planning import carry
from statefulspark.testing import stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from statefulspark.recovery.plan import StartPlan

CONFIG = config.JobConfig(name="flights", storage=config.StorageConfig(uri="s3://bucket"))
BAD_CODE = errors.UserCodeError(
    "JobFileRaised", "The function of query 'delays' raised at /app/job.py:3.", raised=Exception()
)
Fault = Exception | None


@dataclass
class World:
    """A running driver's storage, and a standby that counts what it does."""

    job: Job
    query: FakeQuery
    plan: stores.Plan = field(default_factory=stores.Plan)
    done: list[str] = field(default_factory=list)
    read_ahead: list[str | None] = field(default_factory=list)
    carried_ahead: list[str | None] = field(default_factory=list)
    fault: Fault = None
    on_build: Callable[[], None] = lambda: None
    uid: str = "delays"
    has_new_executors: bool = False
    steps: list[str] = field(default_factory=list)
    """What it says that it does, at each step."""

    def __post_init__(self) -> None:
        self.store = stores.FaultyStore(self.job.store, self.plan)
        self.control = StandbyControl(CONFIG, NOON)
        root = start_parts.JobRoot(self.store, storage.StorageOptions())
        spark_steps = standby.SparkSteps(
            self._build,
            self._compare,
            self._rehearse,
            self._is_cold,
            self._read_ahead,
            lambda: None,
            self._carry_ahead,
            lambda: None,
        )
        self.standby = standby.Standby((self.uid,), CONFIG, root, self.control, spark_steps)

    @property
    def told(self) -> api.StandbyStatus:
        status = self.control.status().standby
        assert status is not None
        return status

    def runs_on(self, batches: int = 1) -> None:
        """Let the driver go on, and take a checkpoint."""
        for _ in range(batches):
            self.query.run_batch()
        self.job.checkpoint(self.query)

    def _build(self, _: StartPlan) -> start_parts.Built:
        self.done.append("build")
        self.on_build()
        if self.fault is not None:
            raise self.fault
        planned = a_planned_query(
            a_planned_operator("mean", max_parallelism=128), uid=self.uid, sources=(plans.PlannedSource("numbers"),)
        )
        stream = carry.Stream(cast("DataFrame", None), "update")
        query = start_parts.BuiltQuery(self.uid, cast("DataStreamWriter", None), stream, planned)
        return start_parts.Built((query,), functions.JobFunctions(), hooks.JobHooks())

    def _compare(
        self, job_config: config.JobConfig, root: start_parts.JobRoot, found: StartPlan, built: start_parts.Built
    ) -> start_parts.Comparison:
        self.done.append("compare")
        self._note_step()
        return start.compare(job_config, root, cast("SparkSession", None), found, built)

    def _rehearse(self, compared: start_parts.Comparison) -> None:
        self.done.append("rehearse")

    def _is_cold(self) -> bool:
        was_cold, self.has_new_executors = self.has_new_executors, False
        return was_cold

    def _read_ahead(self, compared: start_parts.Comparison) -> None:
        self.read_ahead.append(compared.start_plan.restored_from)
        self._note_step()

    def _carry_ahead(self, compared: start_parts.Comparison) -> None:
        self.carried_ahead.append(f"{compared.start_plan.restored_from}, {self.told.state}")
        self._note_step()

    def _note_step(self) -> None:
        message = self.control.status().message
        self.steps += [message] if message is not None else []


@pytest.fixture
def world() -> Iterator[World]:
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    made = World(job, query)
    made.runs_on(3)
    yield made
    assert [one for one in made.store.operations if one.name not in ("list", "list_names", "info", "read")] == []


def test_a_standby_is_ready_when_the_job_fits_the_newest_state(world: World) -> None:
    world.standby.refresh()

    assert (world.told.state, world.told.compared_with) == (api.StandbyState.READY, "checkpoint 1")
    assert world.done == ["build", "compare", "rehearse"]


def test_a_standby_says_at_each_step_what_it_does_until_it_is_ready(world: World) -> None:
    world.standby.refresh()

    assert [step.partition(", since ")[0] for step in world.steps] == [
        "Comparing the job with its state",
        "Reading state ahead",
        "Carrying state ahead",
    ]
    assert world.control.status().message is None


def test_it_looks_with_one_listing_while_there_is_nothing_new(world: World) -> None:
    world.standby.refresh()
    before = len(world.store.operations)

    for _ in range(5):
        world.standby.refresh()

    assert [one.name for one in world.store.operations[before:]] == ["list_names"] * 5
    assert world.done == ["build", "compare", "rehearse"]


def test_it_reads_a_new_checkpoint_alone_and_builds_nothing_again(world: World) -> None:
    world.standby.refresh()
    before = len(world.store.operations)
    world.runs_on()

    world.standby.refresh()

    assert [one.name for one in world.store.operations[before:]] == ["list_names", "read"]
    assert world.told.compared_with == "checkpoint 2"
    assert world.done == ["build", "compare", "rehearse", "compare"]


def test_files_of_each_new_checkpoint_are_read_ahead_once(world: World) -> None:
    world.standby.refresh()
    world.standby.refresh()
    world.runs_on()

    world.standby.refresh()

    assert world.read_ahead == ["checkpoint 1", "checkpoint 2"]


def test_state_is_carried_ahead_before_it_is_ready_and_at_each_look_after_that(world: World) -> None:
    world.standby.refresh()
    world.standby.refresh()
    world.runs_on()
    world.standby.refresh()

    assert world.carried_ahead == ["checkpoint 1, Warming", "checkpoint 1, Ready", "checkpoint 2, Ready"]


@pytest.mark.parametrize("has_new_checkpoint", [False, True])
def test_it_rehearses_again_and_stays_ready_when_its_executors_have_been_replaced(
    world: World, has_new_checkpoint: bool
) -> None:
    world.standby.refresh()
    done = len(world.done)
    world.has_new_executors = True
    if has_new_checkpoint:
        world.runs_on()

    world.standby.refresh()
    world.standby.refresh()

    assert world.done[done:].count("rehearse") == 1
    assert world.told.state is api.StandbyState.READY


def test_it_looks_at_everything_again_in_a_new_generation(world: World) -> None:
    world.standby.refresh()
    plan = world.job.boot(a_restore(snapshot="checkpoint:1", nonce="back"))
    world.query = world.query.continue_in(plan.generation, 2)
    world.runs_on()

    world.standby.refresh()

    assert world.told.compared_with == "checkpoint 2"
    assert world.done == ["build", "compare", "rehearse", "compare", "rehearse"]


@pytest.mark.parametrize(
    "fault", [BAD_CODE, errors.SpecRejectedError("KeyChanged", "Another key.")], ids=lambda one: one.reason
)
def test_a_version_that_does_not_fit_refuses_says_why_and_is_looked_at_again_at_a_newer_checkpoint(
    world: World, fault: errors.StatefulSparkError
) -> None:
    world.fault = fault
    for _ in range(3):
        world.standby.refresh()
    refused = world.told
    world.fault = None
    world.runs_on()
    world.standby.refresh()

    assert (refused.state, refused.reason, refused.message) == (api.StandbyState.REFUSED, fault.reason, fault.message)
    assert world.done == ["build", "build", "compare", "rehearse"]
    assert (world.told.state, world.told.reason) == (api.StandbyState.READY, None)


def test_a_version_that_would_lose_state_refuses() -> None:
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    world = World(job, query, uid="other")
    world.runs_on(1)

    world.standby.refresh()

    assert (world.told.state, world.told.reason) == (api.StandbyState.REFUSED, "NonRestoredState")


@pytest.mark.parametrize("broken", [1, 2, 5, 20], ids=lambda number: f"at request {number}")
def test_storage_that_is_away_is_told_and_tried_again(broken: int) -> None:
    job = Job()
    world = World(job, FakeQuery(job.store, job.boot().generation), stores.Plan(fail_at=frozenset({broken})))
    world.runs_on(3)

    world.standby.refresh()
    troubled = world.told
    world.standby.refresh()

    assert (troubled.state, troubled.reason) == (api.StandbyState.WARMING, "StorageUnreachable")
    assert (world.told.state, world.told.reason) == (api.StandbyState.READY, None)


def test_a_bug_ends_the_standby(world: World) -> None:
    world.fault = errors.InternalError("NoGeneration", "A bug.")

    with pytest.raises(errors.InternalError):
        world.standby.refresh()


def test_an_activation_while_it_warms_ends_the_preparation(world: World) -> None:
    request = api.ActivateRequest(request_id="take-8", epoch=8)
    world.on_build = lambda: world.control.request_activation(request) and None

    assert world.standby.until_activated() == request
    assert world.done == ["build", "compare"]


def test_what_was_built_is_used_at_the_activation_unless_the_state_is_placed_otherwise(world: World) -> None:
    world.standby.refresh()
    same = world.job.plan()
    rescaled = replace(same, queries=(a_query("delays", an_operator(partitions=7)),))

    built = world.standby.built_for(same)
    assert world.standby.built_for(same) is built
    assert world.done.count("build") == 1

    world.standby.built_for(rescaled)
    assert world.done.count("build") == 2


def test_the_activation_says_where_to_start() -> None:
    wish = a_restore(snapshot="s3://bucket/savepoint")
    asked = api.ActivateRequest(request_id="a", epoch=8, restore=wish)

    assert standby.apply_restore(CONFIG, asked).restore == wish
    assert standby.apply_restore(CONFIG, api.ActivateRequest(request_id="a", epoch=8)) == CONFIG
