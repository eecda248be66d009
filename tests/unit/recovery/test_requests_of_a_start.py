"""What a start asks of storage: each document and each listing once, and handed on from there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import closure, read_cache
from statefulspark.contract.config import ClaimMode, RestoreConfig
from statefulspark.contract.manifest import QueryEntry
from statefulspark.recovery import recovery, restore
from statefulspark.testing import stores

LISTS = ("list", "list_names")


@dataclass
class World:
    """A job with one query, and what was asked for."""

    job: Job
    query: FakeQuery
    wish: RestoreConfig | None = None


def without_a_checkpoint(*, batches: int = 3) -> World:
    job = Job()
    plan = job.boot()
    query = FakeQuery(job.store, plan.generation)
    for _ in range(batches):
        query.run_batch()
    return World(job, query)


def at_its_checkpoint() -> World:
    world = without_a_checkpoint()
    world.query.upload_snapshots(1)
    world.job.checkpoint(world.query)
    return world


def past_its_checkpoint() -> World:
    world = at_its_checkpoint()
    world.query.run_batch()
    return world


def with_a_damaged_head() -> World:
    world = past_its_checkpoint()
    world.job.store.write(f"{world.query.path}/offsets/{world.query.batch}", b"not Spark's")
    return world


def with_damaged_checkpoints() -> World:
    """Three checkpoints of one generation, of which the oldest verifies."""
    world = at_its_checkpoint()
    for _ in range(2):
        world.query.run_batch()
        world.job.checkpoint(world.query)
    world.job.store.delete_many([f"{world.query.path}/offsets/3", f"{world.query.path}/offsets/4"])
    return world


def asked_for_a_checkpoint() -> World:
    world = at_its_checkpoint()
    world.query.run_batch()
    world.job.checkpoint(world.query)
    world.wish = a_restore(snapshot="checkpoint:1", nonce="wish")
    return world


def asked_for_the_folder_of_a_checkpoint() -> World:
    world = asked_for_a_checkpoint()
    world.wish = a_restore(snapshot=f"{world.job.store.uri}/checkpoints/00000001", nonce="wish")
    return world


def asked_for_a_savepoint() -> World:
    world = without_a_checkpoint()
    place = world.job.savepoint(world.query)
    world.query.run_batch()
    world.wish = a_restore(snapshot=f"{place.store.uri}/{place.folder}", nonce="wish", claim_mode=ClaimMode.CLAIM)
    return world


def asked_for_a_savepoint_elsewhere() -> World:
    world = without_a_checkpoint()
    place = world.job.savepoint(world.query, location="memory://bucket/elsewhere")
    world.query.run_batch()
    world.wish = a_restore(snapshot=f"{place.store.uri}/{place.folder}", nonce="wish")
    return world


def asked_for_the_savepoint_where_it_stands() -> World:
    world = without_a_checkpoint()
    place = world.job.savepoint(world.query)
    world.wish = a_restore(snapshot=f"{place.store.uri}/{place.folder}", nonce="wish")
    return world


OF_THE_CLAIM = {"list epochs", "read epochs/00000001.json"}
"""What a start reads before it claims its epoch, and again behind the claim."""
STARTS = {
    "at its checkpoint": at_its_checkpoint,
    "past its checkpoint": past_its_checkpoint,
    "without a checkpoint": without_a_checkpoint,
    "with a damaged head": with_a_damaged_head,
    "with damaged checkpoints": with_damaged_checkpoints,
    "that was asked for a checkpoint": asked_for_a_checkpoint,
    "that was asked for the folder of a checkpoint": asked_for_the_folder_of_a_checkpoint,
    "that was asked for a savepoint": asked_for_a_savepoint,
    "that was asked for a savepoint elsewhere": asked_for_a_savepoint_elsewhere,
}


def requests(world: World, work: Callable[[Job], object]) -> tuple[stores.StoreOperation, ...]:
    """Return what was asked of storage meanwhile."""
    counting = stores.FaultyStore(world.job.bucket)
    work(world.job.on(counting))
    return counting.operations


def repeated(operations: tuple[stores.StoreOperation, ...]) -> set[str]:
    """Return every key that was read, and every folder that was listed, more than once."""
    asked = Counter(
        ("list" if one.name in LISTS else one.name, one.key.removeprefix("default/flights/"))
        for one in operations
        if one.name in (*LISTS, "read")
    )
    return {f"{name} {key}" for (name, key), times in asked.items() if times > 1}


@pytest.mark.parametrize("built", STARTS.values(), ids=STARTS.keys())
def test_behind_its_claim_a_start_reads_no_document_twice_and_lists_no_folder_twice(built: Callable[[], World]) -> None:
    world = built()

    assert repeated(requests(world, lambda job: job.boot(world.wish))) == OF_THE_CLAIM


@pytest.mark.parametrize("built", STARTS.values(), ids=STARTS.keys())
def test_nor_does_a_check(built: Callable[[], World]) -> None:
    world = built()

    assert repeated(requests(world, lambda job: job.plan(world.wish))) == set()


def test_the_first_start_of_all_looks_for_epochs_again_since_nothing_counts_that_was_read_before_the_claim() -> None:
    world = World(Job(), FakeQuery(Job().store))

    assert repeated(requests(world, lambda job: job.boot())) == {"list epochs"}


def test_a_restore_in_place_reads_the_record_again_that_it_replaces() -> None:
    """The record is replaced on the condition that it is what the plan saw: another driver may have noted something."""
    world = asked_for_the_savepoint_where_it_stands()

    asked = requests(world, lambda job: job.boot(world.wish))

    assert repeated(asked) == {"read generations/00000001/generation.json", *OF_THE_CLAIM}


@pytest.mark.parametrize(
    ("built", "start", "check"),
    [
        pytest.param(at_its_checkpoint, 41, 31, id="at its checkpoint"),
        pytest.param(past_its_checkpoint, 52, 41, id="past its checkpoint"),
        pytest.param(with_damaged_checkpoints, 72, 38, id="with damaged checkpoints"),
        pytest.param(asked_for_the_savepoint_where_it_stands, 54, 41, id="in place at the savepoint of its stop"),
    ],
)
def test_the_requests_are_so_many(built: Callable[[], World], start: int, check: int) -> None:
    """Nine are listings; the rest are a GET per document and small file, a HEAD per log entry and number, and writes."""
    of_check, of_start = built(), built()

    assert len(requests(of_check, lambda job: job.plan(of_check.wish))) == check
    assert len(requests(of_start, lambda job: job.boot(of_start.wish))) == start


def test_each_look_of_a_start_that_was_overtaken_reads_everything_anew() -> None:
    """What the first look saw is what the other driver has changed."""
    world = past_its_checkpoint()
    job = world.job
    job.epoch += 1
    job.hold_epoch()
    cache = read_cache.ReadCache(job.store)
    recovery.plan_recovery(job.store, restore=RestoreConfig(), cache=cache)
    world.query.run_batch()
    late = job.checkpoint(world.query)

    plan = recovery.find_start(job.store, job.author(), restore=RestoreConfig(), cache=cache)

    assert (plan.restored_from, plan.checkpoint_ids) == (late.label, (1, 2))


def test_a_read_cache_writes_nothing() -> None:
    store = stores.MemoryStore()
    cache = read_cache.ReadCache(store)
    writes: tuple[Callable[[], object], ...] = (
        lambda: cache.write("a", b""),
        lambda: cache.create("a", b""),
        lambda: cache.replace("a", b"", etag=""),
        lambda: cache.copy_many([("a", "b")]),
        lambda: cache.copy_from(store, [("a", "b")]),
        lambda: cache.delete_many(["a"]),
        lambda: cache.delete_unchanged("a", etag=""),
    )

    for write in writes:
        with pytest.raises(errors.InternalError, match="which cannot write"):
            write()
    assert store.list("") == ()
    assert not cache.can_copy_from(store)


def test_a_read_cache_answers_a_listing_below_a_cached_one() -> None:
    counting = stores.FaultyStore(stores.MemoryStore())
    for key in ("a/b/1", "a/b/2", "a/bc/3", "d"):
        counting.wrapped.write(key, b"x")
    cache = read_cache.ReadCache(counting)

    cache.list("a")

    assert [info.key for info in cache.list("a/b")] == ["a/b/1", "a/b/2"]
    assert (cache.list_names("a"), cache.list_names("a/b"), cache.list_names("")) == (
        ("b/", "bc/"),
        ("1", "2"),
        ("a/", "d"),
    )
    assert [one.key for one in counting.operations] == ["a", ""]


def test_a_read_cache_remembers_documents_and_no_state() -> None:
    """Small files of state are many, and none of them is read twice."""
    counting = stores.FaultyStore(stores.MemoryStore())
    for key in ("q/commits/1", "q/state/0/1/2_x.changelog", "q/state/0/1/2_x.zip", "q/state/0/_metadata/v2/0"):
        counting.wrapped.write(key, b"x")
    counting.wrapped.write("q/sources/0/9.compact", bytes(2**20 + 1))
    cache = read_cache.ReadCache(counting)

    for _ in range(2):
        cache.read_many([info.key for info in counting.wrapped.list("q")])

    again = Counter(one.key for one in counting.operations if one.name == "read")
    assert {key for key, times in again.items() if times > 1} == {"q/state/0/1/2_x.changelog", "q/sources/0/9.compact"}


def test_what_was_verified_is_what_the_new_generation_is_made_of() -> None:
    """A file that is rewritten on the way is not read again after it was verified."""
    world = asked_for_a_checkpoint()
    plan = recovery.find_start(world.job.store, world.job.author(), restore=world.wish or RestoreConfig())
    metadata = next(
        file.path for file in closure.close_over(world.job.store, world.query.path, 2).files if "/v2/" in file.path
    )
    world.job.store.write(f"{world.query.path}/{metadata}", b"rotten")

    made = restore.carry_out(world.job.store, plan, world.job.author())

    assert isinstance(made.queries[0], QueryEntry)
    assert b"rotten" not in world.job.store.read(f"{made.queries[0].path}/{metadata}")
