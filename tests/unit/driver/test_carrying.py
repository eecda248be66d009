"""When a standby carries state ahead: only with a changed plan, before it is ready, and then with every checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest
from fakecontrol import NOON
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import clock, errors, storage
from statefulspark.checkpoint import plans
from statefulspark.contract import layout
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import start_parts, state_ahead
from statefulspark.evolution import comparison
from statefulspark.operators import functions
from statefulspark.recovery.plan import StartPlan, move_to_new_generation
from statefulspark.testing import stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER = "uid"
SAME, MOVED = 0, 1
"""Places of the operator in the plan: as in the state, and another one."""


@dataclass
class World:
    """A running job, and a standby whose time the test moves."""

    job: Job = field(default_factory=Job)
    now_s: float = 0.0
    is_activated: bool = False
    plan: stores.Plan = field(default_factory=stores.Plan)
    owner: str = OWNER

    def __post_init__(self) -> None:
        self.query = FakeQuery(self.job.store, self.job.boot().generation)
        self.runs_on(3)
        self.store = stores.FaultyStore(self.job.store, self.plan)
        self.carrying = state_ahead.Carrying(
            self.store, self.owner, lambda: self.is_activated, beside=self._beside, elapsed_s=self._elapsed_s
        )

    def runs_on(self, batches: int = 1) -> None:
        for _ in range(batches):
            self.query.run_batch()
        self.query.upload_snapshots()
        self.job.checkpoint(self.query)

    def look(self, place: int = MOVED) -> list[str]:
        """Let the standby look; return what it wrote, each request by its name."""
        before = len(self.store.operations)
        self.carrying.refresh(compared(self.job.plan(), place))
        return [one.name for one in self.store.operations[before:] if one.name not in READS]

    def _beside(self, work: Callable[[], object]) -> None:
        work()

    def _elapsed_s(self) -> float:
        return self.now_s


READS = ("list", "list_names", "info", "read")


def compared(plan: StartPlan, place: int, partitions: int | None = None) -> start_parts.Comparison:
    """Compare state with a job whose operator is at a place of its plan."""
    operator = a_planned_operator("mean", place, max_parallelism=128)
    planned = a_planned_query(operator, uid="delays", sources=[plans.PlannedSource("numbers")], partitions=partitions)
    changes = comparison.compare(plan.queries, [planned], label="checkpoint 1")
    built = start_parts.Built((), functions.JobFunctions(), hooks.JobHooks())
    root = start_parts.JobRoot(stores.MemoryStore(), storage.StorageOptions())
    spark = cast("SparkSession", None)
    return start_parts.Comparison(root, spark, plan, built, {change.query.uid: change for change in changes})


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "utc_now", lambda: NOON)


@pytest.fixture
def world() -> World:
    return World()


def test_a_changed_plan_is_carried_ahead_once_for_each_checkpoint(world: World) -> None:
    first = world.look()
    second = world.look()
    world.query.run_batch()
    world.job.checkpoint(world.query)
    third = world.look()

    assert (first[0], set(first[1:])) == ("create", {"copy"})
    assert second == []
    assert (third[0], set(third[1:])) == ("replace", {"copy"})
    assert len(third) < len(first)


def test_it_tells_which_files_are_where_the_new_plan_will_look_for_them(world: World) -> None:
    (query,) = world.carrying.refresh(compared(world.job.plan(), MOVED))

    listed = {info.key: info.size_bytes for info in world.job.store.list("generations/00000002/delays")}
    assert {f"{query.path}/{file.path}": file.size_bytes for file in query.files} == listed
    assert {file.path.split("/")[1] for file in query.files} == {"1"}
    assert world.carrying.refresh(compared(world.job.plan(), MOVED)) == ()


def test_a_plan_that_goes_on_in_place_writes_nothing(world: World) -> None:
    assert world.look(SAME) == []
    assert world.carrying.end() is None


def test_a_standby_without_news_shows_that_it_lives_every_minute(world: World) -> None:
    world.look()
    told = []
    for seconds in (1, 57, 1, 1, 1, 58, 1):
        world.now_s += seconds
        told.append(world.look())

    assert told == [[], [], [], ["replace"], [], [], ["replace"]]


def test_it_stops_when_it_is_activated_and_does_not_begin_after_that(world: World) -> None:
    world.is_activated = True

    assert world.look() == []


def test_large_state_is_carried_over_several_looks() -> None:
    world = World()
    world.now_s = 0.0
    steps = iter(range(0, 10_000, int(state_ahead.LONGEST_S)))
    world.carrying = state_ahead.Carrying(
        world.store, OWNER, lambda: False, beside=world._beside, elapsed_s=lambda: next(steps)
    )

    looks = [world.look() for _ in range(3)]

    assert looks == [["create"], ["replace"], ["replace"]]


def test_state_of_another_resource_is_left_alone() -> None:
    assert World(owner="another").look() == []


def test_state_without_an_owner_is_left_alone(world: World) -> None:
    world.job.store.delete_many([layout.OWNER])

    assert world.look() == []


@pytest.mark.parametrize("name", ["create", "copy", "read"])
def test_a_failure_is_no_failure_of_the_standby_and_is_tried_again_a_minute_later(name: str) -> None:
    world = World(plan=stores.Plan(fail_at=frozenset({1}), only=frozenset({name})))

    failed = world.look()
    at_once = world.look()
    world.now_s += state_ahead.RENEW_S
    again = world.look()

    assert (failed[-1:], at_once) == (([name] if name != "read" else []), [])
    carried = world.carrying.end()
    assert carried is not None
    assert carried.files
    assert again == [] or name in ("create", "copy", *again)


@pytest.mark.parametrize("reason", ["AccessDenied", "StorageFailed"])
def test_a_standby_that_may_not_write_is_ready_all_the_same(reason: str, world: World) -> None:
    class ReadOnly(stores.FaultyStore):
        def create(self, key: str, body: bytes) -> None:
            raise errors.StateUnknownError(reason, f"{key} may not be written.")

    world.carrying = state_ahead.Carrying(
        ReadOnly(world.job.store), OWNER, lambda: False, beside=world._beside, elapsed_s=lambda: 0.0
    )

    world.look()

    assert world.carrying.end() is None


def test_state_that_is_spread_over_other_partitions_is_not_carried(world: World) -> None:
    plan = replace(world.job.plan(), queries=(a_query("delays", an_operator(partitions=2)),))

    cargo = state_ahead.cargo_of(compared(plan, SAME, partitions=5))

    assert cargo is not None
    assert cargo.rewritten == {"delays"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda plan: move_to_new_generation(plan, ("It falls back.",)), id="a start that copies anyway"),
        pytest.param(lambda plan: replace(plan, record=None), id="a start without a generation"),
    ],
)
def test_only_what_would_go_on_in_the_generation_in_use_is_carried(
    change: Callable[[StartPlan], StartPlan], world: World
) -> None:
    assert state_ahead.cargo_of(compared(change(world.job.plan()), MOVED)) is None
