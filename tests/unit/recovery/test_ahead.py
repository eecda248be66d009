"""State that a standby carries ahead: the start copies what is missing, and nobody is harmed by what comes late."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import verify
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.recovery import ahead, generations
from statefulspark.recovery.plan import ReadyState
from statefulspark.testing import stores
from statefulspark.testing.holding import HoldingStore

CHANGED = ("The job has changed.",)


def never() -> bool:
    return False


@dataclass
class World:
    """A running job, and a standby with a changed plan.

    Attributes:
        job: The running driver's view of storage.
        query: Where Spark stands.
        seen: Storage as the standby reaches it.
    """

    job: Job
    query: FakeQuery
    seen: stores.FaultyStore

    def __post_init__(self) -> None:
        self.standby = self.job.on(self.seen)
        self.carrier = ahead.AheadCopier(self.standby.store, standby="standby 1", claim_id="one")

    def runs_on(self, batches: int = 2) -> None:
        """Let the driver go on, and take a checkpoint."""
        for _ in range(batches):
            self.query.run_batch()
        self.query.upload_snapshots()
        self.job.checkpoint(self.query)

    def follow(self, stops: Callable[[], bool] = never) -> bool:
        """Let the standby look at the newest checkpoint."""
        return self.carrier.follow(self.job.cargo(), self.job.clock.now, stops=stops)

    def take_over(self, restore: RestoreConfig | None = None, changes: tuple[str, ...] = CHANGED) -> ReadyState:
        """Make the standby the driver."""
        return self.standby.boot(restore, changes=changes, carried=self.carrier.end())

    def copied(self) -> list[str]:
        """Return what the standby has copied so far."""
        return [one.key for one in self.seen.operations if one.name == "copy"]


def a_running_world(seen: Callable[[stores.MemoryStore], stores.FaultyStore] = stores.FaultyStore) -> World:
    job = Job()
    assert isinstance(job.bucket, stores.MemoryStore)
    world = World(job, FakeQuery(job.store, job.boot().generation), seen(job.bucket))
    world.runs_on(3)
    return world


@pytest.fixture
def world() -> World:
    return a_running_world()


def is_bulk(key: str) -> bool:
    return key.endswith((".sst", ".zip"))


def is_whole(job: Job, plan: ReadyState) -> bool:
    return verify.verify_queries(job.store, plan.queries, deep=True).ok


def test_a_changed_plan_copies_only_what_came_since(world: World) -> None:
    whole = a_running_world()
    whole.runs_on()
    whole.take_over()
    world.follow()
    world.runs_on()
    world.follow()
    before = len(world.copied())
    world.query.run_batch()

    plan = world.take_over()

    assert (plan.generation, dict(plan.start_batches)) == (2, {"delays": 5})
    assert is_whole(world.job, plan)
    assert any(is_bulk(name) for name in whole.copied())
    assert not any(is_bulk(name) for name in world.copied()[before:])


def test_what_is_carried_ahead_is_the_same_as_what_is_copied_at_once() -> None:
    one, other = a_running_world(), a_running_world()
    for world in (one, other):
        world.follow() if world is one else None
        world.runs_on()
        world.query.run_batch()

    carried, copied = one.take_over(), other.take_over()

    of_one, of_other = (
        {file.path: world.job.store.read(f"{plan.queries[0].path}/{file.path}") for file in plan.queries[0].files}
        for world, plan in ((one, carried), (other, copied))
    )
    assert of_one.pop("metadata") != of_other.pop("metadata"), "each has an id of its own"
    assert of_one == of_other


def test_after_the_stop_of_an_upgrade_only_the_difference_is_copied(world: World) -> None:
    world.follow()
    world.query.run_batch()
    place = world.job.savepoint(world.query)
    before = len(world.copied())

    plan = world.take_over(a_restore(snapshot=place.uri, nonce="upgrade"))

    assert (plan.generation, dict(plan.start_batches)) == (2, {"delays": 3})
    assert not any(is_bulk(name) for name in world.copied()[before:])
    assert is_whole(world.job, plan)


def test_nothing_of_the_running_generation_is_changed_and_nothing_is_in_use_before_the_start(world: World) -> None:
    before = {info.key: info.etag for info in world.job.store.list("")}

    assert world.follow()

    after = {info.key: info.etag for info in world.job.store.list("")}
    new = {key for key in after if key not in before}
    assert {key: after[key] for key in before} == before
    assert {key.split("/")[1] for key in new} == {"00000002"}
    assert layout.generation_record(2) not in new
    assert world.job.boot().generation == 1


def test_a_look_without_news_only_shows_that_the_standby_lives(world: World) -> None:
    world.follow()
    before = len(world.seen.operations)
    world.job.clock.forward(60)

    assert world.follow()

    assert [one.name for one in world.seen.operations[before:]] == ["info", "info", "replace"]
    info = world.job.store.info(layout.generation_reservation(2))
    assert info is not None
    assert info.modified_at == world.job.clock.now


def test_an_activation_stops_it_between_a_few_copies(world: World) -> None:
    world.carrier = ahead.AheadCopier(world.standby.store, standby="standby 1", claim_id="one", at_once=2)
    answers = iter([False, False, True])

    assert not world.follow(stops=lambda: next(answers))
    assert len(world.copied()) == 4

    plan = world.take_over()
    assert is_whole(world.job, plan)


def test_a_copy_that_is_under_way_at_the_activation_does_not_count() -> None:
    world = a_running_world(lambda bucket: HoldingStore(bucket, "copy", "generations/00000002/delays/state"))
    answers: list[bool] = []
    late = world.seen.freeze(lambda: answers.append(world.follow()))  # type: ignore[attr-defined]
    carried = world.carrier.end()

    late.wake()

    assert answers == [False]
    assert carried is not None
    assert carried.files == {}


def test_a_query_whose_state_is_rewritten_is_not_carried(world: World) -> None:
    cargo = replace(world.job.cargo(), rewritten={"delays"})

    assert world.carrier.follow(cargo, world.job.clock.now, stops=never)

    assert world.copied() == []
    assert [query.files for query in world.carrier.carried_queries(cargo)] == [()]


def test_a_file_that_is_pruned_between_the_listing_and_its_copy_is_told_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger=ahead.__name__)
    world = a_running_world(lambda bucket: HoldingStore(bucket, "copy", "generations/00000002/delays/state"))
    query = world.job.cargo().queries[0]
    *_, gone = [f"{query.path}/{file.path}" for file in query.files if is_bulk(file.path)]
    answers: list[bool] = []
    copying = world.seen.freeze(lambda: answers.append(world.follow()))  # type: ignore[attr-defined]
    world.job.store.delete_many([gone])

    copying.wake()

    message, fields = said(caplog)[-1]
    assert (answers, message) == ([False], "a file was pruned before it was carried ahead")
    assert gone in str(fields["why"])


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    """Return what was logged: each message with its values."""
    names = ("generation", "files", "bytes", "why")
    return [
        (one.getMessage(), {name: vars(one)[name] for name in names if name in vars(one)}) for one in caplog.records
    ]


def test_another_driver_closes_the_generation_off_and_the_standby_begins_in_another(world: World) -> None:
    world.follow()
    plan = world.job.boot()
    world.runs_on()

    assert (plan.generation, generations.read_all(world.job.store).abandoned) == (1, {2})
    assert world.job.store.list(layout.query_root(2, "delays")) == ()
    assert world.follow()
    carried = world.carrier.end()
    assert carried is not None
    assert carried.generation == 3
    assert all(key.startswith("generations/00000003/") for key in carried.files)


def test_a_start_whose_generation_is_closed_off_at_the_last_moment_copies_everything() -> None:
    """A driver that was replaced has taken the standby for dead, and wakes in the request that says so."""
    world = a_running_world(lambda bucket: HoldingStore(bucket, "create", "generations/00000002/generation.json"))
    world.follow()
    plans: list[ReadyState] = []
    start = world.seen.freeze(lambda: plans.append(world.take_over()))  # type: ignore[attr-defined]
    generations.close_off(world.job.store, (2,), epoch=1, now=world.job.clock.now)

    assert start.wake() is None

    assert plans[0].generation == 3
    assert is_whole(world.job, plans[0])


def test_a_copy_that_is_gone_or_was_cut_short_is_made_again(world: World) -> None:
    world.follow()
    first, second, *_ = [info.key for info in world.job.store.list(layout.query_root(2, "delays"))]
    world.job.store.delete_many([first])
    world.job.store.write(second, b"")

    plan = world.take_over()

    assert plan.generation == 2
    assert is_whole(world.job, plan)


def test_a_file_that_was_damaged_while_it_was_carried_and_brought_back_is_copied_again(world: World) -> None:
    newest = world.job.cargo().queries[0]
    key = next(f"{newest.path}/{file.path}" for file in newest.files if file.path.endswith(".sst"))
    body = world.job.store.read(key)
    world.job.store.write(key, bytes(len(body)))
    world.follow()
    world.job.store.write(key, body)

    plan = world.take_over()

    assert is_whole(world.job, plan)
    assert world.job.store.read(key.replace("00000001", "00000002", 1)) == body


def test_what_a_long_wait_has_piled_up_is_left_behind_with_its_generation(world: World) -> None:
    world.query.sst_bytes = 2**20
    looks = []
    for _ in range(6):
        world.runs_on(1)
        looks.append(world.follow())
    known = generations.read_all(world.job.store)

    plan = world.take_over()

    assert len(known.abandoned) >= 1
    assert looks.count(False) == len(known.abandoned)
    assert is_whole(world.job, plan)


def test_a_generation_that_a_start_has_taken_is_not_left_behind() -> None:
    """It had piled up too much, and was told so in the request that came before it was left."""
    world = a_running_world(lambda bucket: HoldingStore(bucket, "replace", "reserved.json"))
    world.query.sst_bytes = 2**20
    world.runs_on(1)
    world.follow()
    for _ in range(3):
        world.runs_on(1)
    late = world.seen.freeze(world.follow)  # type: ignore[attr-defined]
    carried = world.carrier.end()

    late.wake()

    plan = world.job.on(world.job.bucket).boot(changes=CHANGED, carried=carried)
    assert plan.generation == 2
    assert is_whole(world.job, plan)


@pytest.mark.parametrize("name", ["create", "replace", "copy", "list", "info"])
@pytest.mark.parametrize("kind", ["fail_at", "fail_after"])
def test_a_standby_that_cannot_reach_storage_goes_on_at_its_next_look(name: str, kind: str) -> None:
    plan = stores.Plan(**{kind: frozenset({1}), "only": frozenset({name})})  # type: ignore[arg-type]
    world = a_running_world(lambda bucket: stores.FaultyStore(bucket, plan))
    failures = 0
    for _ in range(3):
        try:
            world.follow()
        except errors.TransientError:
            failures += 1

    assert failures == 1
    assert is_whole(world.job, world.take_over())


@pytest.mark.parametrize("moment", ["create", "replace", "copy"])
def test_a_standby_that_wakes_when_others_run_harms_nobody(moment: str) -> None:
    key = "reserved.json" if moment != "copy" else "generations/00000002/delays/state"
    world = a_running_world(lambda bucket: HoldingStore(bucket, moment, key))
    if moment == "replace":
        world.follow()
    zombie = world.seen.freeze(world.follow)  # type: ignore[attr-defined]
    world.runs_on()
    other = replace(world, seen=stores.FaultyStore(world.job.bucket))
    other.follow()
    plan = other.take_over()
    before = {info.key: info.etag for info in world.job.store.list(layout.generation(plan.generation))}

    zombie.wake()
    with contextlib.suppress(errors.ObjectExistsError):
        world.seen.repeat()  # type: ignore[attr-defined]

    after = {info.key: info.etag for info in world.job.store.list(layout.generation(plan.generation))}
    assert after == before
    assert is_whole(world.job, plan)
    assert world.job.boot().generation == plan.generation


def test_a_copy_that_arrives_when_its_generation_runs_is_the_same_file() -> None:
    world = a_running_world(lambda bucket: HoldingStore(bucket, "copy", "generations/00000002/delays/state"))
    late = world.seen.freeze(world.follow)  # type: ignore[attr-defined]
    plan = world.standby.on(world.job.bucket).boot(changes=CHANGED, carried=world.carrier.end())
    before = {info.key: info.etag for info in world.job.store.list(layout.generation(2))}

    late.wake()
    world.seen.repeat()  # type: ignore[attr-defined]

    after = {info.key: info.etag for info in world.job.store.list(layout.generation(2))}
    assert plan.generation == 2
    assert {key: after[key] for key in before} == before
    assert is_whole(world.job, plan)
