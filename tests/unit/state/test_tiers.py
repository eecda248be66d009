"""Key groups beyond the worker's memory: a disk that is slow, full, missing, damaged or old never changes a result."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark.state import functions, timers
from statefulspark.state.caching import tiers
from statefulspark.state.handles import descriptors
from statefulspark.state.memory import ttl
from statefulspark.state.stored import chunks, compaction, store

KEYS = 2000
ALL = list(range(KEYS))
NEVER_MERGE = compaction.Policy(fan_in=1000, max_size_amplification=1000.0)
ALWAYS_FULL = compaction.Policy(fan_in=2, max_size_amplification=0.0)


class Values:
    """A function with one value state, and what it does to keys."""

    def __init__(self, kind: object = int, life: ttl.Ttl | None = None) -> None:
        self._descriptor = descriptors.ValueState[object]("value", kind, life)

    def declare(self, context: functions.KeyedContext) -> None:
        self.state = context.state(self._descriptor)

    def set(self, values: dict[object, object]) -> Callable[[functions.KeyedContext], None]:
        def work(context: functions.KeyedContext) -> None:
            for key, value in values.items():
                context.enter(key)
                self.state.update(value)

        return work

    def get(self, keys: list[object], found: dict[object, object]) -> Callable[[functions.KeyedContext], None]:
        def work(context: functions.KeyedContext) -> None:
            for key in keys:
                context.enter(key)
                found[key] = self.state.value()

        return work


class World:
    """A key group in the engine's state, and workers without memory that share a disk."""

    def __init__(self, folder: Path, values: Values | None = None) -> None:
        self.values = values or Values()
        self.ids = new_ids()
        self.log = MemoryLog()
        self.disk = tiers.DiskTier(folder)
        self.file = folder / "0" / "data.mdb"
        self.chunks_read = 0

    def worker(self, values: Values | None = None, **options: object) -> Worker:
        declared = values or self.values
        return Worker(declared.declare, self.ids, tier=self.disk, memory_bytes=0, **options)  # type: ignore[arg-type]

    def write(self, values: dict[object, object], policy: compaction.Policy = NEVER_MERGE) -> store.Written:
        return self.worker().run(self.log, self.values.set(values), policy=policy, keys=list(values))

    def read(self, keys: list[object], now_ms: int = 0) -> dict[object, object]:
        found: dict[object, object] = {}
        attempt = self.log.attempt()
        self.worker().run(attempt, self.values.get(keys, found), keys=keys, now_ms=now_ms)
        self.chunks_read = attempt.reads
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    filled = World(tmp_path / "tier")
    filled.write({key: key for key in ALL})
    return filled


def test_a_batch_gets_the_rows_of_its_keys_and_no_others(world: World) -> None:
    loaded = store.load(world.log, world.worker().cache.of("test", world.disk), 0, keys=lambda: [3, 5, "absent"])
    assert loaded.tables.tables["value"].rows == {3: 3, 5: 5}


def test_what_is_on_disk_is_brought_up_to_date_with_the_chunks_that_it_lacks(world: World) -> None:
    world.read([1])
    world.write({1: 11, 7: None})
    assert world.read([1, 2, 7]) == {1: 11, 2: 2, 7: None}
    assert (world.chunks_read, world.disk.counters.rebuilds) == (1, 1)


def test_a_second_reader_of_a_version_reads_no_chunk(world: World) -> None:
    world.read([1])
    assert world.read([2]) == {2: 2}
    assert world.chunks_read == 0


def test_the_disk_follows_a_version_that_was_written_in_full(world: World) -> None:
    world.read([1])
    world.write({1: 11, 2: None}, ALWAYS_FULL)
    assert len(world.log.head().runs) == 1
    assert world.read([1, 2, 3]) == {1: 11, 2: None, 3: 3}
    assert world.disk.counters.rebuilds == 1


def test_a_full_version_that_was_not_committed_is_not_followed(world: World) -> None:
    world.read([1])
    lost = world.log.attempt()
    world.worker().run(lost, world.values.set({1: 666}), policy=ALWAYS_FULL, keys=[1])
    world.write({2: 22}, ALWAYS_FULL)
    assert world.read([1, 2]) == {1: 1, 2: 22}


def test_a_restart_from_an_older_checkpoint_does_not_see_what_came_after_it(world: World) -> None:
    older = world.log.attempt()
    world.write({1: 11})
    world.read([1])
    world.log = older
    assert world.read([1]) == {1: 1}
    world.write({2: 22})
    assert world.read([1, 2]) == {1: 1, 2: 22}


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


def test_values_with_a_time_to_live_expire_on_disk_and_are_left_out_when_all_is_written(tmp_path: Path) -> None:
    world = World(tmp_path, Values(int, ttl.Ttl(milliseconds=10)))
    world.write({1: 1, 2: 2})
    assert world.read([1], now_ms=9) == {1: 1}
    world.worker().run(world.log, world.values.set({3: 3}), now_ms=10, policy=ALWAYS_FULL, keys=[3])
    assert world.log.head().runs[0].count == 1
    assert world.read([1, 3], now_ms=11) == {1: None, 3: 3}


def test_a_migration_reaches_the_keys_that_the_batch_does_not_have(world: World) -> None:
    world.read([1])
    changed = World(world.disk.folder, Values("double"))
    changed.log = world.log
    changed.write({1: 1.5})
    found: dict[object, object] = {}
    Worker(changed.values.declare, world.ids).run(changed.log, changed.values.get([1, 2], found))
    assert found == {1: 1.5, 2: 2.0}
    assert isinstance(found[2], float)
    assert changed.read([1, 2]) == found


def test_a_key_group_with_timers_is_loaded_as_a_whole(tmp_path: Path) -> None:
    world = World(tmp_path)
    worker = world.worker(domains=frozenset({timers.TimeDomain.EVENT_TIME}))

    def remind(context: functions.KeyedContext) -> None:
        context.enter("a")
        context.timer_service.register_event_time_timer(100)

    worker.run(world.log, remind)
    loaded = store.load(world.log, worker.cache.of("test", world.disk), 0, keys=lambda: ["b"])
    assert [name for name, table in loaded.tables.tables.items() if table.rows] == ["_timer_state/event_user-timers"]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "it is empty": lambda file: file.write_bytes(b""),
    "it is something else": lambda file: file.write_bytes(b"PK\x03\x04" * 5000),
    "it is cut off": lambda file: os.truncate(file, 3 * 4096),
    "its head is gone": lambda file: file.write_bytes(b"\0" * file.stat().st_size),
    "it is gone": lambda file: file.unlink(),
    "a process has died of it": lambda file: (file.parent / f"open-{_dead_process()}").touch(),
}


def _dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_discarded_and_built_anew(world: World, damage: Callable[[Path], object]) -> None:
    world.read([1])
    damage(world.file)
    assert world.read(ALL) == {key: key for key in ALL}
    assert world.disk.counters.rebuilds == 2


def test_a_record_that_is_not_what_was_written_is_noticed(tmp_path: Path) -> None:
    world = World(tmp_path, Values(bytes))
    expected: dict[object, object] = {key: b"%06d" % key * 9 for key in range(100)}
    world.write(expected)
    world.read([1])
    body = world.file.read_bytes()
    assert body.count(b"000042" * 9) >= 1
    world.file.write_bytes(body.replace(b"000042" * 9, b"000043" * 9))
    assert world.read(list(expected)) == expected
    assert world.disk.counters.rebuilds == 2


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


def test_a_full_disk_is_told_and_the_slower_way_is_taken(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with no_space():
        assert world.read(ALL) == {key: key for key in ALL}
    assert world.disk.counters.failures == 1
    assert not world.file.exists()
    (record,) = caplog.records
    assert (record.reason, record.key_group) == ("StateDiskUnusable", 0)  # type: ignore[attr-defined]


def test_a_disk_that_failed_is_left_alone_for_a_minute(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    world, now_s = World(tmp_path / "file" / "tier"), [0.0]
    world.disk.clock = lambda: now_s[0]
    world.write({1: 1})
    for now_s[0], failures in ((0.0, 1), (59.9, 1), (60.0, 2)):
        assert world.read([1]) == {1: 1}
        assert world.disk.counters.failures == failures


def test_no_more_disk_is_taken_than_allowed(world: World) -> None:
    world.disk.limit_bytes = 10_000
    assert world.read([1]) == {1: 1}
    assert world.disk.counters.failures == 1
    world.disk.limit_bytes = None
    assert world.disk.used_bytes() == 0


def _run_and_die(folder: Path, where: str, attempt: MemoryLog) -> None:
    """Work on a batch, and be killed at a point of it."""
    world = World(folder)
    if where == "while the file is written":
        real = tiers._apply_section

        def killed(*arguments: object, **options: object) -> None:
            real(*arguments, **options)  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGKILL)

        tiers._apply_section = killed  # type: ignore[assignment]

    def work(context: functions.KeyedContext) -> None:
        world.values.set({1: -1, "new": -1})(context)
        if where == "in the function":
            os.kill(os.getpid(), signal.SIGKILL)

    world.worker().run(attempt, work, policy=ALWAYS_FULL, keys=[1, "new"])
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    "where", ["while the file is written", "in the function", "after the batch is written, before it is committed"]
)
@pytest.mark.parametrize("is_built", [True, False], ids=["the file was there", "the file was not there"])
def test_a_killed_worker_leaves_nothing_that_another_takes_for_state(world: World, where: str, is_built: bool) -> None:
    if is_built:
        world.read([1])
        world.write({2: 22})
    doomed = multiprocessing.get_context("fork").Process(
        target=_run_and_die, args=(world.disk.folder, where, world.log.attempt())
    )
    doomed.start()
    doomed.join(30)
    assert doomed.exitcode == -signal.SIGKILL
    expected: dict[object, object] = {**{key: key for key in ALL}, "new": None, 2: 22 if is_built else 2}
    assert world.read(list(expected)) == expected
    world.write({1: 11})
    assert world.read(list(expected)) == {**expected, 1: 11}


def test_a_step_that_does_not_begin_at_what_is_on_disk_is_not_taken(world: World) -> None:
    """The file has version 1; what leads from version 2 to 3 lacks what happened between."""
    world.read([1])
    elsewhere = Worker(world.values.declare, world.ids)
    elsewhere.run(world.log, world.values.set({1: 11}), policy=NEVER_MERGE)
    before = world.log.head()
    elsewhere.run(world.log, world.values.set({2: 22}), policy=ALWAYS_FULL)
    delta = {2: 22}
    meta = chunks.decode(world.log.chunks[3][1], "3").sections[0].meta
    step = chunks.encode(chunks.Chunk(chunks.ChunkKind.DELTA, (chunks.Section(meta, delta),)))
    world.disk.record_delta(0, before, world.log.head(), step)
    assert world.read([1, 2]) == {1: 11, 2: 22}
