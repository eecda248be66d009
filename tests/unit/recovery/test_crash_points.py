"""A driver killed at every write of a start, checkpoint, savepoint, restore and prune: its successor finds the right cut.

The writes are counted by a dry run of each operation, so that a new one cannot be forgotten. At each the process dies
before the write, or right after it, before it has seen the answer; or the answer is lost and the process goes on. (Flink:
A.75, A.105 and A.106 order what is written and deleted for the same reason.)
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from _pytest.mark.structures import ParameterSet
from restores import a_restore
from snapshots import Clock, Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, savepoint, verify
from statefulspark.contract import layout
from statefulspark.contract.config import ClaimMode, RestoreConfig
from statefulspark.contract.manifest import Manifest
from statefulspark.recovery import ahead
from statefulspark.recovery.plan import StartMode
from statefulspark.retention import pruning, rules
from statefulspark.testing import stores

pytestmark = pytest.mark.slow

WRITES = frozenset({"write", "create", "replace", "copy", "delete"})
GRACE_S = 60
POLICY = rules.PrunePolicy(retained=2, grace=timedelta(seconds=GRACE_S))
ELSEWHERE = "memory://bucket/backups"
SAVEPOINT = f"{ELSEWHERE}/default.flights-00000004"


@dataclass
class World:
    """A job with a history, and the driver that is about to die.

    Attributes:
        job: Its storage.
        query: Where Spark stands.
    """

    job: Job
    query: FakeQuery

    def copy(self) -> World:
        """Return an independent world in the same state."""
        assert isinstance(self.job.bucket, stores.MemoryStore)
        clock = Clock(self.job.clock.now)
        job = Job(clock, self.job.epoch).on(self.job.bucket.copy(clock))
        query = replace(self.query, store=job.store, ids=dict(self.query.ids), ssts=dict(self.query.ssts))
        return World(job, query)

    @property
    def snapshots(self) -> dict[str, Manifest]:
        """Every completed snapshot, wherever it lies, by its URI."""
        own = {f"{self.job.store.uri}/{ref.folder}": ref.folder for ref in catalog.list_snapshots(self.job.store)}
        found = {uri: catalog.read_manifest(self.job.store, folder) for uri, folder in own.items()}
        elsewhere = self.job.bucket.child("backups")
        for name in elsewhere.list_names(""):
            if elsewhere.info(f"{name}_metadata.json"):
                found[f"{ELSEWHERE}/{name.rstrip('/')}"] = catalog.read_manifest(elsewhere, name.rstrip("/"))
        return found

    def problem(self, uri: str, manifest: Manifest) -> str | None:
        """Verify a snapshot completely."""
        is_savepoint = manifest.kind is manifest.kind.SAVEPOINT
        store, root = (self.job.open_store(uri), "") if is_savepoint else (self.job.store, "")
        report = verify.verify(store, manifest, root=root, deep=True)
        return None if report.ok else report.sentence


def a_world() -> World:
    """Build a job with three checkpoints, a savepoint elsewhere at batch 5, and a committed batch after that."""
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    for _ in range(3):
        query.run_batch(failed_attempts=1)
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query)
        job.clock.forward(2 * GRACE_S)
    job.savepoint(query, location=ELSEWHERE)
    query.run_batch()
    return World(job, query)


def a_world_in_the_middle_of_a_restore() -> World:
    world = a_world()
    dying = stores.FaultyStore(world.job.bucket, stores.Plan(crash_before=9, only=frozenset({"copy"})))
    with pytest.raises(stores.CrashPoint):
        world.job.on(dying).boot(a_restore(snapshot="checkpoint:1"))
    return world


def a_world_at_its_savepoint() -> World:
    """Build a job that was stopped with a savepoint."""
    world = a_world()
    world.job.savepoint(world.query, location=ELSEWHERE)
    return world


def a_world_with_its_own_savepoint() -> World:
    world = a_world()
    world.job.savepoint(world.query)
    return world


def a_world_with_files_to_delete() -> World:
    world = a_world()
    prune_once(world.job)
    world.job.clock.forward(GRACE_S)
    return world


def a_world_that_has_claimed_its_savepoint() -> World:
    world = a_world()
    plan = world.job.boot(a_restore(snapshot=SAVEPOINT, claim_mode=ClaimMode.CLAIM))
    world.query = world.query.continue_in(plan.generation, 5)
    for _ in range(POLICY.retained):
        world.query.run_batch()
        world.job.checkpoint(world.query)
    return world


def an_empty_world() -> World:
    job = Job()
    return World(job, FakeQuery(job.store))


def prune_once(job: Job) -> object:
    return pruning.run(job.store, POLICY, job.clock.now, open_store=job.open_store)


@dataclass(frozen=True)
class Scenario:
    """An operation in which the driver dies.

    Attributes:
        prepare: Makes the world before it.
        act: The operation, of a job that sees storage through the store that breaks.
        cut: Newest batch of the query that a start finds afterwards.
        wish: What the driver and its successor are asked to restore.
        deletes: Which snapshots may be missing afterwards.
    """

    prepare: Callable[[], World]
    act: Callable[[Job, FakeQuery, RestoreConfig], object]
    cut: int
    wish: RestoreConfig = field(default_factory=RestoreConfig)
    deletes: Callable[[str], bool] = lambda uri: False


def boot(job: Job, _: FakeQuery, wish: RestoreConfig) -> object:
    return job.boot(wish)


def upgrade(job: Job, *_: object) -> object:
    """Carry ahead as a standby, and become the driver of a changed plan."""
    carrier = ahead.AheadCopier(job.store, standby="standby 1", claim_id="one")
    for _ in range(2):
        carrier.follow(job.cargo(), job.clock.now, stops=lambda: False)
    return job.boot(changes=("The job has changed.",), carried=carrier.end())


def a_world_with_a_standby_that_is_gone() -> World:
    world = a_world()
    carrier = ahead.AheadCopier(world.job.store, standby="standby 1", claim_id="one")
    carrier.follow(world.job.cargo(), world.job.clock.now, stops=lambda: False)
    world.job.clock.forward(2 * rules.STANDBY_SILENCE.total_seconds())
    world.query.run_batch()
    world.job.checkpoint(world.query)
    return world


SCENARIOS = {
    "first start": Scenario(an_empty_world, boot, cut=-1),
    "start that salvages a batch": Scenario(a_world, boot, cut=6),
    "start after a half-made restore": Scenario(a_world_in_the_middle_of_a_restore, boot, cut=6),
    "restore of a checkpoint": Scenario(a_world, boot, 1, a_restore(snapshot="checkpoint:1")),
    "restore of a savepoint": Scenario(a_world, boot, 5, a_restore(snapshot=SAVEPOINT)),
    "restore that claims a savepoint": Scenario(
        a_world, boot, 5, a_restore(snapshot=SAVEPOINT, claim_mode=ClaimMode.CLAIM)
    ),
    "restore in place": Scenario(
        a_world_at_its_savepoint, boot, 6, a_restore(snapshot=f"{ELSEWHERE}/default.flights-00000005")
    ),
    "fresh start": Scenario(a_world, boot, -1, a_restore(empty=True)),
    "checkpoint": Scenario(a_world, lambda job, query, _: job.checkpoint(query), cut=6),
    "savepoint": Scenario(a_world, lambda job, query, _: job.savepoint(query), cut=6),
    "disposal of a savepoint": Scenario(
        a_world_with_its_own_savepoint,
        lambda job, *_: savepoint.dispose(job.store, layout.savepoint(5)),
        cut=6,
        deletes=lambda uri: uri.endswith(layout.savepoint(5)),
    ),
    "prune": Scenario(a_world_with_files_to_delete, lambda job, *_: prune_once(job), cut=6),
    "upgrade that carries ahead": Scenario(a_world, upgrade, cut=6),
    "prune that closes off what a standby has carried ahead": Scenario(
        a_world_with_a_standby_that_is_gone,
        lambda job, *_: prune_once(job),
        cut=7,
        deletes=lambda uri: "/checkpoints/" in uri,
    ),
    "prune that deletes a claimed savepoint": Scenario(
        a_world_that_has_claimed_its_savepoint,
        lambda job, *_: prune_once(job),
        cut=7,
        deletes=lambda uri: uri == SAVEPOINT or "/checkpoints/" in uri,
    ),
}
DEATHS = {
    "dies before": lambda number: stores.Plan(crash_before=number, only=WRITES),
    "dies after": lambda number: stores.Plan(crash_after=number, only=WRITES),
    "loses the answer to": lambda number: stores.Plan(fail_after=frozenset({number}), only=WRITES),
}


@functools.cache
def _template(name: str) -> World:
    return SCENARIOS[name].prepare()


def prepared(name: str) -> World:
    """Return a scenario's world before its operation."""
    return _template(name).copy()


def perform(scenario: Scenario, world: World, plan: stores.Plan) -> stores.FaultyStore:
    """Run a scenario's operation on a store with a plan; return the store."""
    breaking = stores.FaultyStore(world.job.bucket, plan)
    with contextlib.suppress(stores.CrashPoint, errors.TransientError):
        scenario.act(world.job.on(breaking), world.query, scenario.wish)
    return breaking


def crash_points() -> list[ParameterSet]:
    """Return every way to die, from a dry run of each scenario that counts its writes."""
    found = []
    for name, scenario in SCENARIOS.items():
        writes = perform(scenario, prepared(name), stores.Plan(only=WRITES)).operations
        assert writes, f"{name} writes nothing"
        for operation in writes:
            for death in DEATHS:
                label = f"{name} {death} {operation.name} {operation.number} of {len(writes)}"
                found.append(pytest.param(name, DEATHS[death](operation.number), id=label))
    return found


CRASH_POINTS = crash_points()


@pytest.mark.parametrize(("name", "plan"), CRASH_POINTS)
def test_a_successor_finds_the_right_cut_loses_nothing_and_cleans_up(name: str, plan: stores.Plan) -> None:
    scenario, world = SCENARIOS[name], prepared(name)
    before = world.snapshots
    perform(scenario, world, plan)

    started = world.job.boot(scenario.wish)
    again = world.job.boot(scenario.wish)

    assert started.start_batches.get("delays", -1) == again.start_batches.get("delays", -1) == scenario.cut
    assert (again.mode, again.generation) == (StartMode.CONTINUE, started.generation)
    assert verify.verify_queries(world.job.store, again.queries, deep=True).ok
    after = world.snapshots
    assert {uri for uri in before.keys() - after.keys() if not scenario.deletes(uri)} == set()
    assert {uri: world.problem(uri, manifest) for uri, manifest in after.items()} == dict.fromkeys(after)
    assert len(files_in_the_end(world, scenario)) <= undisturbed(name) + SMALL_RECORDS


SMALL_RECORDS = 4
"""What a dead driver may leave for ever: numbers of generations, and the checkpoint it completed."""


@functools.cache
def undisturbed(name: str) -> int:
    """Count what is there in the end if nobody dies."""
    world = prepared(name)
    perform(SCENARIOS[name], world, stores.Plan())
    return len(files_in_the_end(world, SCENARIOS[name]))


def files_in_the_end(world: World, scenario: Scenario) -> list[str]:
    """Go on for a while after a start: some batches, checkpoints, prunings; return every key but users' and epochs'."""
    world.job.clock.forward(1)
    plan = world.job.boot(scenario.wish)
    query = world.query.continue_in(plan.generation, plan.start_batches.get("delays", -1))
    for _ in range(4):
        query.run_batch()
        query.upload_snapshots()
        world.job.checkpoint(query)
        world.job.clock.forward(2 * GRACE_S)
        prune_once(world.job)
    savepoints = [uri.removeprefix("memory://bucket/") for uri in world.snapshots if "/checkpoints/" not in uri]
    kept = tuple(f"{folder}/" for folder in [*savepoints, "default/flights/epochs"])
    return [info.key for info in world.job.bucket.list("") if not info.key.startswith(kept)]
