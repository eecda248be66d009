"""Timers of key groups of which a batch has few keys: found when they are due, whatever happened to batches and workers."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection
from pathlib import Path

import collidingkeys
import columnchunk
import numpy as np
import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import (
    cache,
    chunks,
    columns,
    functions,
    heads,
    mapstate,
    store,
    tables,
    timerindex,
    timers,
    views,
)

EVENT, PROCESSING = timers.TimeDomain.EVENT_TIME, timers.TimeDomain.PROCESSING_TIME
BOTH = frozenset(timers.TimeDomain)
STATE = timers.meta_of(EVENT).name
KEYS = 1200
LATER_MS = 1 << 40
NEVER_MERGE = heads.Policy(fan_in=1000, max_size_amplification=1000.0)
ALWAYS_FULL = heads.Policy(fan_in=2, max_size_amplification=0.0)
SOMETIMES = heads.Policy(fan_in=4, max_size_amplification=0.5, small_run_bytes=64)
COLLIDING: list[object] = [collidingkeys.with_hash(9, b"%d" % one) for one in range(8)]
Truth = dict[tuple[object, timers.TimeDomain], set[int]]


class Job:
    """A key group with a text and timers for each key, the worker that has it, and what should be in it."""

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        self.log, self.ids = MemoryLog(), new_ids()
        self.folder, self.memory_bytes = folder, memory_bytes
        self.truth: Truth = {}
        self.texts: dict[object, str] = {}
        self.now_ms = {EVENT: timers.NO_WATERMARK_MS, PROCESSING: 0}
        self.policy = NEVER_MERGE
        self.restart()

    def declare(self, context: functions.BatchContext) -> None:
        self.text = context.value_state("text", str)

    def restart(self) -> None:
        """Go on in a new process."""
        self.disk = cache.DiskViews(self.folder)
        self.worker = Worker(self.declare, self.ids, domains=BOTH, disk=self.disk, memory_bytes=self.memory_bytes)

    def fill(self, keys: Collection[object], at_ms: int = LATER_MS) -> None:
        """Let another worker write many keys with a timer each."""
        elsewhere = Worker(self.declare, self.ids, domains=BOTH)

        def work(context: functions.BatchContext) -> None:
            for key in keys:
                context.enter(key)
                self.text.update(f"a text of some length for {key}")
                context.timers.set(timers.moment(at_ms), domain="event-time")

        elsewhere.run(self.log, work, policy=self.policy)
        self.truth |= {(key, EVENT): {at_ms} for key in keys}
        self.texts |= {key: f"a text of some length for {key}" for key in keys}

    def load(self, *keys: object) -> store.KeyGroup:
        """Load the rows of keys, and of those with due timers."""
        due_ms = {timers.meta_of(domain).name: now_ms for domain, now_ms in self.now_ms.items()}
        return store.load(
            self.log, self.worker.cache.for_operator("test", self.disk), 0, keys=lambda: keys, due_ms=due_ms
        )

    def batch(self, changes: Truth, *, is_lost: bool = False, again: Collection[int] = ()) -> None:
        """Set the timers of keys as given, fire what is due, and compare both and the next wake with the truth.

        Args:
            changes: The timers that keys have then.
            is_lost: Whether the attempt is never committed.
            again: Moments that a callback sets for its key, the first time it is called in the batch.
        """
        truth, texts = {key: set(of_key) for key, of_key in self.truth.items()} | changes, dict(self.texts)
        fired: list[tuple[int, object, timers.TimeDomain | None]] = []

        def work(context: functions.BatchContext) -> None:
            self._set(context, changes, texts)
            called: set[object] = set()
            for at_ms in context.due():
                fired.append((at_ms, context.key, timers.TimeDomain(context.time_domain)))
                assert self.text.get() == texts.get(context.key)
                texts[context.key] = f"a text that is long enough, at {at_ms}"
                self.text.update(texts[context.key])
                if context.key not in called:
                    called.add(context.key)
                    for moment_ms in again:
                        context.timers.set(timers.moment(moment_ms), domain="event-time")
            wakes.append(context.next_wake_ms(EVENT))

        wakes: list[int | None] = []
        attempt = self.log.attempt()
        self.worker.run(
            attempt,
            work,
            now_ms=self.now_ms[PROCESSING],
            watermark_ms=self.now_ms[EVENT],
            policy=self.policy,
            keys={key for key, _ in changes},
        )
        expected = _fire(truth, self.now_ms, again)
        assert sorted(map(repr, fired)) == sorted(map(repr, expected))
        assert wakes == [_next_wake_ms(truth, self.now_ms)]
        if not is_lost:
            self.log.adopt(attempt)
            self.truth, self.texts = truth, texts

    def _set(self, context: functions.BatchContext, changes: Truth, texts: dict[object, str]) -> None:
        for (key, domain), of_key in changes.items():
            context.enter(key)
            assert self.text.get() == texts.get(key)
            (of_domain,) = [one for one in context.timer_domains if one.domain is domain]
            assert set(of_domain.moments()) == self.truth.get((key, domain), set())
            for at_ms in set(of_domain.moments()) - of_key:
                of_domain.delete(at_ms)
            for at_ms in of_key:
                of_domain.register(at_ms)
        context.leave()


def _fire(truth: Truth, now_ms: dict[timers.TimeDomain, int], again: Collection[int]) -> list[object]:
    """Take what is due out of the truth and return it."""
    fired: list[object] = []
    called: set[object] = set()
    while due := [
        (key, domain, at) for (key, domain), of_key in truth.items() for at in of_key if at <= now_ms[domain]
    ]:
        for key, domain, at_ms in due:
            truth[key, domain] = truth[key, domain] - {at_ms}
            fired.append((at_ms, key, domain))
            if key not in called:
                called.add(key)
                truth[key, EVENT] = truth.get((key, EVENT), set()) | set(again)
    return fired


def _next_wake_ms(truth: Truth, now_ms: dict[timers.TimeDomain, int]) -> int | None:
    moments_ms = [at_ms for (_, domain), of_key in truth.items() if domain is EVENT for at_ms in of_key]
    if any(of_key for (_, domain), of_key in truth.items() if domain is PROCESSING):
        moments_ms.append(now_ms[EVENT] + 1)
    return min(moments_ms, default=None)


@pytest.fixture(params=[cache.DEFAULT_LIMIT_BYTES, 0], ids=["in memory", "on disk"])
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Job:
    """A key group of many keys that each have a timer a long time from now."""
    job = Job(tmp_path / "views", request.param)
    job.fill([*range(KEYS), *COLLIDING])
    return job


def test_a_batch_gets_its_keys_and_those_with_due_timers_and_no_others(job: Job) -> None:
    job.batch({(5, EVENT): {100}, (7, PROCESSING): {50}, (9, EVENT): {100, 200}})
    job.now_ms = {EVENT: 100, PROCESSING: 49}

    loaded = job.load(3)

    assert loaded.view is not None
    assert set(loaded.tables.tables["text"].rows) == {3, 5, 9}
    assert loaded.tables.tables[STATE].rows == {3: {LATER_MS: None}, 5: {100: None}, 9: {100: None, 200: None}}
    assert loaded.tables.next_ms == {STATE: LATER_MS, timers.meta_of(PROCESSING).name: 50}


def test_a_batch_without_rows_gets_the_keys_with_due_timers(job: Job) -> None:
    job.batch({(5, EVENT): {100}})
    job.now_ms[EVENT] = 100

    loaded = job.load()

    assert loaded.view is not None
    assert loaded.tables.tables[STATE].rows == {5: {100: None}}
    job.batch({})
    assert job.load().tables.tables[STATE].rows == {}


def test_a_timer_that_fired_is_looked_for_no_more(job: Job) -> None:
    job.batch({(5, EVENT): {100}})
    for at_ms in (100, 200):
        job.now_ms[EVENT] = at_ms
        job.batch({}, again=[at_ms + 50])
        assert set(job.load().tables.tables[STATE].rows) == set()


def test_with_memory_many_due_timers_bring_the_whole_key_group(tmp_path: Path) -> None:
    job = Job(tmp_path, cache.DEFAULT_LIMIT_BYTES)
    job.fill(range(KEYS), at_ms=100)
    job.now_ms[EVENT] = 100

    assert job.load(1).view is None
    job.batch({})
    assert job.truth[1, EVENT] == set()


def test_all_timers_are_due_at_the_end_of_event_time(job: Job) -> None:
    job.batch({(5, EVENT): {timers.MAX_WATERMARK_MS}, (6, EVENT): set()})
    job.now_ms[EVENT] = timers.MAX_WATERMARK_MS
    job.batch({})
    assert not any(job.truth.values())
    assert _next_wake_ms(job.truth, job.now_ms) is None


def test_a_key_with_many_timers_is_told_by_its_earliest(job: Job) -> None:
    many = set(range(1000, 1100))
    job.batch({(5, EVENT): many})
    job.batch({(5, EVENT): many - {1000, 1001}})
    job.batch({(5, EVENT): many - {1000, 1001} | {900}})
    for now_ms in (899, 900, 1003, 1050, 1200):
        job.now_ms[EVENT] = now_ms
        job.batch({})
    assert job.truth[5, EVENT] == set()


def test_timers_of_more_batches_than_a_view_keeps_apart_fire_when_they_are_due(job: Job) -> None:
    for number in range(80):
        job.batch({(number % 50, EVENT): {1000 + number}, (50 + number, EVENT): {5000 + number % 3}})
    loaded = job.load(1)
    assert loaded.view is not None
    assert loaded.tables.next_ms[STATE] == 1030
    for now_ms in (1029, 1030, 1078, 1079, 5000, 5001, 5002):
        job.now_ms[EVENT] = now_ms
        job.batch({})
    assert job.truth[129, EVENT] == set()


def test_a_state_without_timers_has_no_keys_with_due_ones(job: Job) -> None:
    view = job.load(1).view
    assert view is not None
    asked = columns.PackedKeys.pack([1])
    assert view.add_due(asked, {"text": LATER_MS, "unknown": LATER_MS}).keys == [1]


def test_timers_of_many_keys_are_stored_as_columns_beside_other_columns(job: Job) -> None:
    _, blob = job.log.chunk(1) or (None, b"")
    chunk = chunks.decode(blob, "a test")
    assert {section.meta.name: type(section.content) for section in chunk.sections} == dict.fromkeys(
        ("text", STATE), columns.Columns
    )


def test_timers_alone_are_stored_as_objects() -> None:
    log, worker = MemoryLog(), Worker(lambda _: None, new_ids(), domains=BOTH)

    def work(context: functions.BatchContext) -> None:
        for key in range(KEYS):
            context.enter(key)
            context.timers.set(timers.moment(key), domain="event-time")

    worker.run(log, work)
    _, blob = log.chunk(1) or (None, b"")
    (section,) = chunks.decode(blob, "a test").sections
    assert isinstance(section.content, dict)


def test_timers_of_a_domain_that_is_not_declared_any_more_are_refused_from_a_view_too(job: Job) -> None:
    without = Worker(
        job.declare, job.ids, domains=frozenset({PROCESSING}), disk=job.disk, memory_bytes=job.memory_bytes
    )
    with pytest.raises(errors.SpecRejectedError, match="has event-time timers, which would not fire"):
        without.run(job.log, lambda _: None, keys=["a stranger"])


@pytest.mark.parametrize("seed", range(6))
def test_random_batches_fire_what_is_due_and_nothing_else(job: Job, seed: int) -> None:
    chance = random.Random(seed)
    keys: list[object] = [*chance.sample(range(KEYS), 20), *COLLIDING, "new", ("new", 1)]
    for _ in range(60):
        job.policy = chance.choice([NEVER_MERGE, NEVER_MERGE, SOMETIMES, ALWAYS_FULL])
        if chance.random() < 0.1:
            job.restart()
        if chance.random() < 0.1:
            job.fill([("filled", number) for number in range(30)], at_ms=LATER_MS + 1)
        job.now_ms = {domain: max(now_ms, 0) + chance.randrange(8) for domain, now_ms in job.now_ms.items()}
        changes = {
            (key, chance.choice([EVENT, EVENT, PROCESSING])): {
                job.now_ms[EVENT] + chance.randrange(-2, 40) for _ in range(chance.choice([0, 1, 1, 2, 12]))
            }
            for key in chance.sample(keys, chance.randrange(6))
        }
        job.batch(changes, is_lost=chance.random() < 0.2, again=chance.choice([[], [job.now_ms[EVENT] + 5]]))


def _columns(changes: tables.Changes) -> columns.Columns:
    return columnchunk.columns_of(changes, timers.TIMERS)


@pytest.mark.parametrize(
    ("change", "earliest_ms", "is_whole"),
    [
        (mapstate.MapChange(replaced=True, puts={7: None, 5: None, 9: None}), 5, True),
        (mapstate.MapChange(replaced=True, puts={-(2**63) + 1: None}), -(2**63) + 1, True),
        (mapstate.MapChange(replaced=True, puts={2**63 - 1: None}), timerindex.NEVER - 1, True),
        (mapstate.MapChange(replaced=True, puts=dict.fromkeys(range(3, 100))), 3, True),
        (mapstate.MapChange(replaced=True, puts=dict.fromkeys(range(4, 20_000))), 4, True),
        (mapstate.MapChange(replaced=False, puts={7: None}, removed={5}), 7, False),
        (mapstate.MapChange(replaced=False, puts={}, removed={5}), timerindex.NEVER, False),
        (tables.DELETED, timerindex.NEVER, True),
    ],
    ids=["several", "first", "last", "bytes of medium length", "long bytes", "some", "only removed", "deleted"],
)
def test_the_earliest_moment_of_a_row_is_read_without_unpacking_it(
    change: object, earliest_ms: int, is_whole: bool
) -> None:
    others: tables.Changes = {key: mapstate.MapChange(replaced=True, puts={1: None}) for key in ("a", "b")}
    made = _columns({**others, "c": change})

    earliest, are_whole = timerindex.read_moments(made)

    position = made.keys.to_pylist().index(columns.pack_keys(["c"])[0])
    assert (int(earliest[position]), bool(are_whole[position])) == (earliest_ms, is_whole)
    assert sorted(np.delete(earliest, position).tolist()) == [1, 1]


def test_no_rows_have_no_moments() -> None:
    earliest, are_whole = timerindex.read_moments(_columns({}))
    assert (len(earliest), len(are_whole)) == (0, 0)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (b"\x01\x02", "a row of timers has no flags"),
        (b"\xc4\x01", "a row of timers has no flags"),
        (b"\xc4\x05\x03\x01\x02\x03\x04", "a row of timers ends within a timer"),
        (b"\xc4\x08\x03\x01\x02\x03\x04\x05\x06\x07", "a row of timers ends within a timer"),
    ],
    ids=["no bytes", "no flags", "half a moment", "seven bytes of a moment"],
)
def test_a_row_of_timers_that_is_cut_short_is_told_with_its_chunk(row: bytes, why: str) -> None:
    made = _columns({key: mapstate.MapChange(replaced=True, puts={1: None}) for key in ("a", "b", "c")})
    cut = dataclasses.replace(
        made, rows=columns.pack_array([row, *made.rows.to_pylist()[1:]]), source="chunk 7 of group 3"
    )

    with pytest.raises(
        errors.SnapshotCorruptError, match=rf"chunk 7 of group 3 of keyed state cannot be read: {why}\."
    ):
        timerindex.read_moments(cut)


def test_a_damaged_row_of_timers_is_told_or_read_and_never_breaks_anything_else() -> None:
    changes: tables.Changes = {
        "a": mapstate.MapChange(replaced=True, puts={1: None, 2: None}),
        "b": mapstate.MapChange(replaced=False, puts={3: None}, removed={4}),
    }
    section = chunks.Section(timers.meta_of(EVENT), _columns(changes))
    blob = chunks.encode(chunks.Chunk(chunks.ChunkKind.FULL, (section,)))
    keys, outcomes = columns.PackedKeys.pack(["a", "b"]), set()
    for position in range(blob.index(b"\xc4"), len(blob)):
        for flip in (0x01, 0x02, 0x10, 0xFF):
            damaged = bytearray(blob)
            damaged[position] ^= flip
            try:
                view = views.GroupView()
                view.apply(chunks.decode(bytes(damaged), "a test"))
                view.part(keys)
                outcomes.add("read")
            except errors.SnapshotCorruptError as error:
                outcomes.add(error.reason)
    assert outcomes == {"read", "ChunkUnreadable"}


def test_an_index_tells_the_earliest_of_all_other_rows() -> None:
    index = timerindex.TimerIndex()
    index.add(np.array([5, 7, timerindex.NEVER]))
    index.add(np.array([6]))
    none = np.zeros(0, np.int64)

    assert index.next_ms(none, none) == 5
    assert index.next_ms(np.array([0]), np.array([0])) == 6
    assert index.next_ms(np.array([0, 1]), np.array([0, 0])) == 7
    assert index.next_ms(np.array([0, 1, 0]), np.array([0, 0, 1])) is None
    assert [(number, positions.tolist()) for number, positions in index.due(6)] == [(0, [0]), (1, [0])]
    assert list(index.due(4)) == []
    assert [(number, positions.tolist()) for number, positions in index.due(timerindex.NEVER)] == [
        (0, [0, 1]),
        (1, [0]),
    ]
    assert index.size_bytes == 4 * 8
