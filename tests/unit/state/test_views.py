"""Views of key groups: a batch reads the rows of its keys, and no disk, lost attempt or restart ever changes a result."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Iterator
from multiprocessing import synchronize
from pathlib import Path

import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import cache, columns, functions, heads, store, ttl, valuestate

KEYS = 2000
ALL: list[object] = list(range(KEYS))
NEVER_MERGE = heads.Policy(fan_in=1000, max_size_amplification=1000.0)
ALWAYS_FULL = heads.Policy(fan_in=2, max_size_amplification=0.0)
MEMORY_BYTES = cache.DEFAULT_LIMIT_BYTES
Work = Callable[[functions.BatchContext], None]


class Values:
    """A function with one value state, and what it does to keys."""

    def __init__(self, kind: object = int, life: ttl.Ttl | None = None) -> None:
        self._descriptor = valuestate.ValueStateDescriptor("value", kind, life)

    def declare(self, context: functions.BatchContext) -> None:
        self.state = context.declare(self._descriptor)

    def set(self, values: dict[object, object]) -> Work:
        def work(context: functions.BatchContext) -> None:
            for key, value in values.items():
                context.enter(key)
                self.state.update(value)

        return work

    def get(self, keys: list[object], found: dict[object, object]) -> Work:
        def work(context: functions.BatchContext) -> None:
            for key in keys:
                context.enter(key)
                found[key] = self.state.get()

        return work


class World:
    """A key group in the engine's state, and workers that share a disk. Without memory all views are on it."""

    def __init__(self, folder: Path, values: Values | None = None, memory_bytes: int = 0) -> None:
        self.values = values or Values()
        self.ids = new_ids()
        self.log = MemoryLog()
        self.disk = cache.DiskViews(folder)
        self.chunks_read = 0
        self._memory_bytes = memory_bytes
        self._worker = self.worker()

    def worker(self, **options: object) -> Worker:
        return Worker(self.values.declare, self.ids, disk=self.disk, memory_bytes=self._memory_bytes, **options)  # type: ignore[arg-type]

    def restart(self) -> None:
        """Go on in a new process."""
        self.disk = cache.DiskViews(self.disk.folder)
        self._worker = self.worker()

    def write(self, values: dict[object, object], policy: heads.Policy = NEVER_MERGE, now_ms: int = 0) -> None:
        self._worker.run(self.log, self.values.set(values), policy=policy, keys=list(values), now_ms=now_ms)

    def write_elsewhere(self, values: dict[object, object], policy: heads.Policy = NEVER_MERGE) -> None:
        """Write a batch in another process."""
        Worker(self.values.declare, self.ids).run(self.log, self.values.set(values), policy=policy, keys=list(values))

    def lose(self, values: dict[object, object], policy: heads.Policy = NEVER_MERGE) -> None:
        """Run an attempt of a batch that is never committed."""
        self._worker.run(self.log.attempt(), self.values.set(values), policy=policy, keys=list(values))

    def read(self, keys: list[object], now_ms: int = 0) -> dict[object, object]:
        found: dict[object, object] = {}
        attempt = self.log.attempt()
        self._worker.run(attempt, self.values.get(keys, found), keys=keys, now_ms=now_ms)
        self.chunks_read = attempt.reads
        return found

    def load(self, *keys: object) -> store.KeyGroup:
        return store.load(self.log, self._worker.cache.for_operator("test", self.disk), 0, keys=lambda: keys)


@pytest.fixture(params=[MEMORY_BYTES, 0], ids=["in memory", "on disk"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    """A world with a key group of many keys, and small rows, which are stored as objects."""
    return _filled(World(tmp_path / "views", memory_bytes=request.param))


@pytest.fixture(params=[MEMORY_BYTES, 0], ids=["in memory", "on disk"])
def wide(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    """A world with rows that are stored as columns."""
    world = World(tmp_path / "views", Values("any"), request.param)
    world.write_elsewhere({key: _row(key) for key in ALL})
    return world


@pytest.fixture
def small(tmp_path: Path) -> World:
    """A world without memory."""
    return _filled(World(tmp_path / "views"))


def _filled(world: World) -> World:
    world.write_elsewhere({key: key for key in ALL})
    return world


def _row(key: object) -> str:
    return f"a row of some length, {key:08}"


def test_a_batch_gets_the_rows_of_its_keys_and_no_others(world: World) -> None:
    assert world.load(3, 5, "absent").tables.tables["value"].rows == {3: 3, 5: 5}


@pytest.mark.parametrize(
    ("count", "has_view"), [(1, True), (KEYS // 8, True), (KEYS // 8 + 1, False), (KEYS, False)], ids=str
)
def test_with_memory_few_keys_are_read_from_a_view_and_many_from_tables(
    tmp_path: Path, count: int, has_view: bool
) -> None:
    world = _filled(World(tmp_path, memory_bytes=MEMORY_BYTES))

    loaded = world.load(*range(count))

    assert (loaded.view is not None) == has_view
    assert len(loaded.tables.tables["value"].rows) == (count if has_view else KEYS)


def test_without_memory_many_keys_are_read_from_a_view_too(small: World) -> None:
    loaded = small.load(*ALL)

    assert loaded.view is not None
    assert loaded.tables.tables["value"].rows == {key: key for key in ALL}


def test_a_view_for_which_there_is_memory_takes_no_disk(tmp_path: Path) -> None:
    world = _filled(World(tmp_path / "views", memory_bytes=MEMORY_BYTES))

    world.read([1])

    assert world._worker.cache.held_bytes > 0
    assert world.disk.used_bytes == 0
    assert not world.disk.folder.exists()


def test_a_view_for_which_there_is_no_memory_is_on_disk_in_files_without_names(small: World) -> None:
    small.read([1])

    assert small._worker.cache.held_bytes == 0
    assert small.disk.used_bytes > KEYS
    assert list(small.disk.folder.iterdir()) == []


@pytest.mark.parametrize("count", [1, 2, 33, 40])
def test_nothing_of_a_view_on_disk_stays_in_memory(small: World, count: int) -> None:
    for number in range(count):
        small.write({1: number})
    view = small.load(1).view
    assert view is not None
    assert (view.size_bytes, view.disk_bytes) == (0, small.disk.used_bytes)


def test_a_view_on_disk_takes_disk_for_what_it_has_and_not_for_what_it_had(tmp_path: Path) -> None:
    world = World(tmp_path / "views", Values("any"))
    world.write_elsewhere({key: _row(key) for key in ALL})
    world.read([1])
    base_bytes = world.disk.used_bytes
    for number in range(400):
        world.write({number: _row(number), number + 400: _row(number)})
    world.read([1])
    assert world.disk.used_bytes < 3 * base_bytes


def test_a_view_on_disk_needs_few_open_files_however_many_batches_it_has(small: World) -> None:
    """A worker has a view for each of hundreds of key groups, and often 1,024 files."""
    small.read([1])
    before = len(os.listdir("/proc/self/fd"))
    for number in range(30):
        small.write({1: number})
    small.read([1])
    assert len(os.listdir("/proc/self/fd")) - before < 8


def test_without_disk_and_memory_the_chunks_are_read_in_each_batch(tmp_path: Path) -> None:
    world = _filled(World(tmp_path))
    worker = Worker(world.values.declare, world.ids, memory_bytes=0)
    for _ in range(2):
        attempt, found = world.log.attempt(), {}
        worker.run(attempt, world.values.get([1], found), keys=[1])
        assert (found, attempt.reads) == ({1: 1}, 1)


def test_a_view_is_brought_up_to_date_with_the_chunks_that_it_lacks(world: World) -> None:
    world.read([1])
    world.write_elsewhere({1: 11, 7: None})
    assert world.read([1, 2, 7]) == {1: 11, 2: 2, 7: None}
    assert world.chunks_read == 1


def test_a_second_batch_on_a_version_reads_no_chunk(world: World) -> None:
    world.read([1])
    assert world.read([2]) == {2: 2}
    assert world.chunks_read == 0


def test_what_a_batch_wrote_itself_is_not_read_again(world: World) -> None:
    world.read([1])
    world.write({1: 11, 7: None})
    assert world.read([1, 2, 7]) == {1: 11, 2: 2, 7: None}
    assert world.chunks_read == 0


def test_a_view_follows_a_version_that_was_written_in_full(world: World) -> None:
    _check_full_version(world)


def test_a_view_of_columns_follows_a_version_that_was_written_in_full(wide: World) -> None:
    _check_full_version(wide)


def _check_full_version(world: World) -> None:
    before = world.read([1, 3])
    world.write({1: 11, 2: None}, ALWAYS_FULL)
    assert len(world.log.head().runs) == 1
    assert world.read([1, 2, 3]) == {1: 11, 2: None, 3: before[3]}
    assert world.chunks_read == 0


def test_a_full_version_of_another_worker_is_read_once(world: World) -> None:
    world.read([1])
    world.write_elsewhere({1: 11, 2: None}, ALWAYS_FULL)
    for chunks_read in (1, 0):
        assert world.read([1, 2, 3]) == {1: 11, 2: None, 3: 3}
        assert world.chunks_read == chunks_read


def test_state_that_is_stored_as_columns_is_written_in_full_as_columns(wide: World) -> None:
    wide.write({1: "one", "new": "two", 2: None}, ALWAYS_FULL)

    (run,) = wide.log.head().runs
    (section,) = store.read_chunk(wide.log, 0, run).sections
    assert isinstance(section.content, columns.Columns)
    assert section.changes == {key: _row(key) for key in ALL if key not in (1, 2)} | {1: "one", "new": "two"}
    assert run.count == KEYS


def test_state_of_small_rows_does_not_grow_in_storage_because_it_was_read_from_a_view(world: World) -> None:
    before = world.log.head().size_bytes
    world.read([1])
    world.write({1: 11}, ALWAYS_FULL)
    assert world.log.head().count == KEYS
    assert world.log.head().size_bytes < before * 1.1


def test_a_full_version_that_was_not_committed_is_not_followed(world: World) -> None:
    world.read([1])
    world.lose({1: 666}, ALWAYS_FULL)
    world.write({2: 22}, ALWAYS_FULL)
    assert world.read([1, 2]) == {1: 1, 2: 22}


@pytest.mark.parametrize("policy", [NEVER_MERGE, ALWAYS_FULL], ids=["changes", "in full"])
def test_a_lost_attempt_of_the_same_version_as_that_of_another_worker_leaves_nothing(
    world: World, policy: heads.Policy
) -> None:
    world.read([1])
    world.lose({1: 666, 3: 666}, policy)
    world.write_elsewhere({2: 22}, policy)
    assert world.read([1, 2, 3]) == {1: 1, 2: 22, 3: 3}
    world.lose({1: 666}, policy)
    world.lose({2: 666}, policy)
    world.write_elsewhere({3: 33}, policy)
    world.write_elsewhere({4: 44}, policy)
    assert world.read([1, 2, 3, 4]) == {1: 1, 2: 22, 3: 33, 4: 44}


def test_a_restart_from_an_older_checkpoint_does_not_see_what_came_after_it(world: World) -> None:
    older = world.log.attempt()
    world.write({1: 11})
    world.read([1])
    world.log = older
    assert world.read([1]) == {1: 1}
    world.write({2: 22})
    assert world.read([1, 2]) == {1: 1, 2: 22}


def test_a_version_that_is_too_old_for_the_head_is_built_anew(world: World) -> None:
    world.read([1])
    for number in range(heads.LINEAGE_LENGTH):
        world.write_elsewhere({1: number})
    assert world.read([1, 2]) == {1: heads.LINEAGE_LENGTH - 1, 2: 2}
    assert world.chunks_read == heads.LINEAGE_LENGTH + 1


def test_a_batch_that_fails_leaves_the_view_as_it_was(world: World) -> None:
    world.read([1])

    def fail(context: functions.BatchContext) -> None:
        world.values.set({1: 666, "new": 666})(context)
        raise RuntimeError("a row of the user's cannot be read")

    with pytest.raises(RuntimeError):
        world._worker.run(world.log.attempt(), fail, keys=[1, "new"])

    assert world.read([1, "new"]) == {1: 1, "new": None}
    assert world.chunks_read == 0


def test_a_view_has_the_changes_of_more_batches_than_it_keeps_apart(world: World) -> None:
    _check_many_batches(world)


def test_a_view_of_columns_has_the_changes_of_more_batches_than_it_keeps_apart(wide: World) -> None:
    _check_many_batches(wide)


def _check_many_batches(world: World) -> None:
    expected = world.read(ALL[:50])
    for number in range(80):
        changed: dict[object, object] = {number % 50: number, (number * 7) % 50: None}
        world.write(changed)
        expected.update(changed)
    assert world.read(ALL[:50]) == expected
    assert world.chunks_read == 0
    world.write({0: 7}, ALWAYS_FULL)
    expected[0] = 7
    assert world.read(ALL[:50]) == expected
    world.restart()
    assert world.read(ALL[:50]) == expected


def test_tables_of_all_keys_are_built_of_a_view_that_is_there(world: World) -> None:
    world.read([1])
    world.write({1: 11, 2: None})
    attempt, found = world.log.attempt(), dict[object, object]()
    world._worker.run(attempt, world.values.get([1, 2, 3], found), keys=None)
    assert (found, attempt.reads) == ({1: 11, 2: None, 3: 3}, 0)


def test_tables_in_memory_are_used_for_few_keys_too(tmp_path: Path) -> None:
    world = _filled(World(tmp_path, memory_bytes=MEMORY_BYTES))
    world.read(ALL)
    assert world.load(1).view is None
    world.restart()
    world.read(ALL)
    assert world.read([1]) == {1: 1}
    assert world.chunks_read == 0


def test_tables_that_were_written_in_full_become_a_view_where_a_batch_had_few_keys(tmp_path: Path) -> None:
    world = World(tmp_path / "views", Values("any"), MEMORY_BYTES)
    world.write_elsewhere({key: _row(key) for key in ALL})
    world.read(ALL)
    assert world.load(1).view is None
    world.read(ALL)
    world.write({1: "one"}, ALWAYS_FULL)
    reads = world.log.reads
    loaded = world.load(1, 2)
    assert loaded.view is not None
    assert loaded.tables.tables["value"].rows == {1: "one", 2: _row(2)}
    assert world.log.reads == reads


def test_keys_of_any_length_and_values_of_any_type_come_back_the_same(tmp_path: Path) -> None:
    values: dict[object, object] = {
        "x" * 500: 1,
        ("a" * 300, "b" * 300): (1, 2),
        None: (1, [2, (3, 4)]),
        b"\xc1" + b"y" * 40: {"a": (1,)},
        7: 2**80,
        -7: [],
    }
    world = World(tmp_path, Values("any"))
    world.write(dict.fromkeys(values))
    world.write(values)
    assert world.read(list(values)) == values
    world.write({7: 1}, ALWAYS_FULL)
    assert world.read(list(values)) == {**values, 7: 1}


@pytest.mark.parametrize("memory_bytes", [MEMORY_BYTES, 0], ids=["in memory", "on disk"])
def test_values_with_a_time_to_live_expire_and_are_left_out_when_all_is_written(
    tmp_path: Path, memory_bytes: int
) -> None:
    world = World(tmp_path, Values(int, ttl.Ttl("10ms")), memory_bytes)
    world.write_elsewhere(dict.fromkeys(range(100), 1))
    assert world.read([1], now_ms=9) == {1: 1}
    world.write({3: 3}, ALWAYS_FULL, now_ms=10)
    assert world.log.head().runs[0].count == 1
    assert world.read([1, 3], now_ms=11) == {1: None, 3: 3}


def test_a_migration_reaches_the_keys_that_the_batch_does_not_have(world: World) -> None:
    world.read([1])
    world.values = Values("double")
    world._worker = world.worker()
    world.write({1: 1.5})
    found: dict[object, object] = {}
    Worker(world.values.declare, world.ids).run(world.log, world.values.get([1, 2], found))
    assert found == {1: 1.5, 2: 2.0}
    assert isinstance(found[2], float)
    assert world.read([1, 2]) == found
    assert (len(world.log.head().runs), world.log.head().count) == (1, KEYS)


def test_a_migration_that_a_batch_only_reads_is_done_for_all_keys(world: World) -> None:
    world.read([1])
    world.values = Values("double")
    world._worker = world.worker()
    found: dict[object, object] = {}
    world._worker.run(world.log, world.values.get([1], found), keys=[1])
    assert isinstance(world.read([2])[2], float)
    assert world.load(2).tables.metas["value"].type_text == "double"


def test_a_stored_state_of_another_type_is_refused_by_a_view_too(world: World) -> None:
    world.read([1])
    world.values = Values(str)
    world._worker = world.worker()
    with pytest.raises(errors.SpecRejectedError, match="Incompatible key/value state types"):
        world.read([1])


def test_a_state_that_is_dropped_is_in_no_view_afterwards(world: World) -> None:
    world.read([1])
    tables = world._worker.cache.for_operator("test", world.disk)
    loaded = store.load(world.log, tables, 0)
    loaded.tables.drop(["value"])
    loaded.commit(new_id=world.ids)
    assert world.read([1, 2]) == {1: None, 2: None}
    world.write({1: 11})
    assert world.read([1, 2]) == {1: 11, 2: None}


def test_a_state_that_the_function_does_not_declare_stays(world: World) -> None:
    without = Worker(
        lambda context: context.value_state("other") and None,
        world.ids,
        disk=world.disk,
        memory_bytes=world._memory_bytes,
    )
    for policy in (NEVER_MERGE, ALWAYS_FULL):
        without.run(world.log, lambda context: context.enter(1), policy=policy, keys=[1])
    assert world.read([1, 2]) == {1: 1, 2: 2}


@contextlib.contextmanager
def no_space() -> Iterator[None]:
    """Let no file become larger than 16 KiB, as a disk that fills up in the middle of a file would.

    It holds for the whole process, so for what pytest prints into a file, too: not longer than it must.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_and_the_slower_way_is_taken(small: World, caplog: pytest.LogCaptureFixture) -> None:
    with no_space():
        assert small.read(ALL) == {key: key for key in ALL}
        assert small.read(ALL) == {key: key for key in ALL}
    assert (small.disk.failures, small.disk.used_bytes) == (1, 0)
    assert list(small.disk.folder.iterdir()) == []
    (record,) = caplog.records
    assert (record.reason, record.key_group) == ("StateDiskUnusable", 0)  # type: ignore[attr-defined]


def test_a_batch_on_a_full_disk_is_written_like_any_other(small: World) -> None:
    with no_space():
        small.write({1: 11, 2: None})
    assert small.read([1, 2, 3]) == {1: 11, 2: None, 3: 3}


@pytest.mark.parametrize("limit_bytes", [None, 1 << 30], ids=["all space", "limited"])
def test_a_disk_that_failed_is_left_alone_for_a_minute(tmp_path: Path, limit_bytes: int | None) -> None:
    (tmp_path / "file").touch()
    world, now_s = World(tmp_path / "file" / "views"), [0.0]
    world.disk.clock, world.disk.limit_bytes = lambda: now_s[0], limit_bytes
    world.write_elsewhere({1: 1})
    for now_s[0], failures in ((0.0, 1), (59.9, 1), (60.0, 2)):
        assert world.read([1]) == {1: 1}
        assert world.disk.failures == failures


def test_a_disk_that_works_again_is_used_again(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    world, now_s = _filled(World(blocked / "views")), [0.0]
    world.disk.clock = lambda: now_s[0]
    world.read([1])
    blocked.unlink()
    now_s[0] = 60.0
    assert world.read([1]) == {1: 1}
    assert (world.disk.failures, world.disk.used_bytes > 0) == (1, True)


def test_no_more_disk_is_taken_than_allowed(small: World, caplog: pytest.LogCaptureFixture) -> None:
    small.disk.limit_bytes = 10_000
    assert small.read([1]) == {1: 1}
    assert (small.disk.failures, small.disk.used_bytes) == (1, 0)
    (record,) = caplog.records
    assert "of the 10000 bytes (disk_bytes) that they may use" in record.why  # type: ignore[attr-defined]


def test_no_more_disk_is_taken_than_allowed_by_what_comes_later(small: World) -> None:
    small.read([1])
    small.disk.limit_bytes = small.disk.used_bytes + 2000
    for number in range(50):
        small.write(dict.fromkeys(range(20), number))
        assert small.read([1, 50]) == {1: number, 50: 50}
        assert small.disk.used_bytes <= small.disk.limit_bytes
    assert small.disk.failures == 1


def _hold(world: World, holds: synchronize.Event, ends: synchronize.Event) -> None:
    world.disk = cache.DiskViews(world.disk.folder, world.disk.limit_bytes)
    world._worker = world.worker()
    world.read([1])
    holds.set()
    ends.wait(30)


def test_two_processes_take_no_more_disk_together_than_allowed(small: World) -> None:
    small.read([1])
    small.disk.limit_bytes = small.disk.used_bytes * 3 // 2
    context = multiprocessing.get_context("fork")
    holds, ends = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(small, holds, ends))
    small.disk = cache.DiskViews(small.disk.folder, small.disk.limit_bytes)
    small._worker = small.worker()
    other.start()
    try:
        assert holds.wait(30)
        assert small.read([1]) == {1: 1}
        assert (small.disk.failures, small.disk.used_bytes) == (1, 0)
    finally:
        ends.set()
        other.join(30)
    small.disk = cache.DiskViews(small.disk.folder, small.disk.limit_bytes)
    small._worker = small.worker()
    assert small.read([1]) == {1: 1}
    assert (small.disk.failures, small.disk.used_bytes > 0) == (0, True)


def _run_and_die(world: World, where: str, attempt: MemoryLog) -> None:
    """Work on a batch, and be killed at a point of it."""

    def die() -> float:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0.0

    def work(context: functions.BatchContext) -> None:
        world.values.set({1: -1, "new": -1})(context)
        if where == "in the function":
            die()

    if where == "when the view goes to disk":
        world.disk.clock = die
    world._worker.run(attempt, work, policy=ALWAYS_FULL, keys=[1, "new"])
    die()


@pytest.mark.parametrize(
    "where", ["when the view goes to disk", "in the function", "after the batch is written, before it is committed"]
)
@pytest.mark.parametrize("is_built", [True, False], ids=["the view was there", "the view was not there"])
def test_a_killed_worker_leaves_nothing_that_another_takes_for_state(small: World, where: str, is_built: bool) -> None:
    small.disk.limit_bytes = 1 << 30
    if is_built:
        small.read([1])
        small.write({2: 22})
    doomed = multiprocessing.get_context("fork").Process(target=_run_and_die, args=(small, where, small.log.attempt()))
    doomed.start()
    doomed.join(30)
    assert doomed.exitcode == -signal.SIGKILL
    left = list(small.disk.folder.iterdir()) if small.disk.folder.exists() else []
    assert all(path.name.startswith("used-") and path.stat().st_size < 20 for path in left)
    expected: dict[object, object] = {**{key: key for key in ALL}, "new": None, 2: 22 if is_built else 2}
    assert small.read(list(expected)) == expected
    small.write({1: 11})
    assert small.read(list(expected)) == {**expected, 1: 11}


def test_what_a_process_that_has_ended_used_is_not_counted(small: World) -> None:
    small.disk.limit_bytes = 1 << 30
    doomed = multiprocessing.get_context("fork").Process(target=_run_and_die, args=(small, "", small.log.attempt()))
    doomed.start()
    doomed.join(30)
    (told,) = small.disk.folder.iterdir()
    small.disk.limit_bytes = int(told.read_text()) + 1000
    small.read([1])
    assert small.disk.failures == 0
    assert not told.exists()


def test_what_another_history_noted_is_not_taken(world: World) -> None:
    """Both histories have a version 2 and a version 3, of other attempts."""
    world.read([1])
    fork = world.log.attempt()
    world.write({1: 666})
    world.write({2: 666}, ALWAYS_FULL)
    world.log = fork
    world.write_elsewhere({3: 33})
    world.write_elsewhere({4: 44})
    assert world.read([1, 2, 3, 4]) == {1: 1, 2: 2, 3: 33, 4: 44}
