"""The store of a key group equals a dict, whatever happens to batches, workers and caches."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import (
    cache,
    chunks,
    columns,
    functions,
    heads,
    liststate,
    store,
    ttl,
    valuestate,
)

Model = dict[str, dict[object, object]]
BASE: list[object] = [f"base {number}" for number in range(300)]
"""Keys that are there before the first batch, in some examples: enough that their lists and maps are stored as columns."""
LARGE = 2**40
SOME: list[object] = [None, "a", "b", ("c", 1), 7, *BASE[:3]]
KEYS = st.sampled_from(SOME)
NUMBERS = st.integers(-5, 5)


class States:
    """A function's states, and the same operations on handles and on plain dicts."""

    def __init__(self) -> None:
        self.context: functions.BatchContext | None = None

    def declare(self, context: functions.BatchContext) -> None:
        self.context = context
        self.value = context.value_state("value", "bigint")
        self.total = context.reducing_state("total", lambda one, two: one + two)
        self.list = context.list_state("list", int)
        self.map = context.map_state("map")

    def read(self, keys: list[object]) -> Model:
        found: Model = {"value": {}, "total": {}, "list": {}, "map": {}}
        for key in keys:
            self.context.enter(key)
            for name, read in (
                ("value", self.value.get()),
                ("total", self.total.get()),
                ("list", self.list.get()),
                ("map", dict(self.map.items())),
            ):
                if read not in (None, [], {}):
                    found[name][key] = read
        return found


@dataclass(frozen=True)
class Operation:
    name: str
    key: object
    number: int
    other: int

    def on_state(self, states: States) -> None:
        states.context.enter(self.key)
        match self.name:
            case "update":
                states.value.update(self.number)
            case "clear":
                states.value.clear()
            case "reduce":
                states.total.add(self.number)
            case "append":
                states.list.add(self.number)
            case "replace":
                states.list.update([self.number] * (self.other % 3))
            case "put":
                states.map.put(self.number, self.other)
            case "remove":
                states.map.remove(self.number)
            case "clear map":
                states.map.clear()

    def on_model(self, model: Model) -> None:
        match self.name:
            case "update":
                model["value"][self.key] = self.number
            case "clear":
                model["value"].pop(self.key, None)
            case "reduce":
                model["total"][self.key] = model["total"].get(self.key, 0) + self.number
            case "append":
                model["list"][self.key] = [*model["list"].get(self.key, []), self.number]
            case "replace":
                model["list"][self.key] = [self.number] * (self.other % 3)
            case "put":
                model["map"].setdefault(self.key, {})[self.number] = self.other
            case "remove":
                model["map"].get(self.key, {}).pop(self.number, None)
            case "clear map":
                model["map"].pop(self.key, None)
        for name in ("list", "map"):
            if not model[name].get(self.key, True):
                del model[name][self.key]


OPERATIONS = st.builds(
    Operation,
    name=st.sampled_from(["update", "clear", "reduce", "append", "replace", "put", "remove", "clear map"]),
    key=KEYS,
    number=NUMBERS,
    other=NUMBERS,
)


@dataclass(frozen=True)
class Step:
    """A batch: which workers try it, and whether the last of them commits."""

    operations: list[Operation]
    workers: list[int]
    commits: bool


STEPS = st.builds(
    Step,
    operations=st.lists(OPERATIONS, max_size=6),
    workers=st.lists(st.integers(0, 2), min_size=1, max_size=3),
    commits=st.sampled_from([True, True, True, False]),
)
POLICIES = st.sampled_from(
    [
        heads.Policy(fan_in=2, max_size_amplification=1000.0, small_run_bytes=64),
        heads.Policy(fan_in=3, max_size_amplification=1000.0, small_run_bytes=64),
        heads.Policy(fan_in=3, max_size_amplification=2.0, small_run_bytes=1),
        heads.Policy(fan_in=1000, max_size_amplification=1000.0),
        heads.Policy(fan_in=2, max_size_amplification=0.0),
    ]
)


@settings(max_examples=50)
@given(steps=st.lists(STEPS, max_size=15), policy=POLICIES, disk=st.booleans(), has_base=st.booleans())
def test_any_interleaving_of_batches_retries_and_workers_equals_a_dict(
    steps: list[Step], policy: heads.Policy, disk: bool, has_base: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disks = [cache.DiskViews(Path(folder)) if disk else None] * 2
        _check_interleaving(steps, policy, disks, BASE if has_base else [])


def _check_interleaving(
    steps: list[Step], policy: heads.Policy, disks: list[cache.DiskViews | None], base: list[object]
) -> None:
    """Two workers share a disk, if there is one, and have no memory; the third has memory and no disk."""
    states, ids = States(), new_ids()
    workers = [Worker(states.declare, ids, disk=disk, memory_bytes=0 if disk else 1 << 30) for disk in [*disks, None]]
    log = MemoryLog()
    model: Model = {"value": {}, "total": {}, "list": {}, "map": {}}
    if base:
        _begin_with(base, states, log)
        model["list"] = {key: [LARGE] * 3 for key in base}
        model["map"] = {key: dict.fromkeys(range(3), LARGE) for key in base}

    for step in steps:
        after = copy.deepcopy(model)
        for operation in step.operations:
            operation.on_model(after)

        touched = list(dict.fromkeys(operation.key for operation in step.operations))

        def work(
            _: functions.BatchContext,
            step: Step = step,
            before: Model = model,
            after: Model = after,
            touched: list[object] = touched,
        ) -> None:
            assert states.read(touched) == _only(before, touched)
            for operation in step.operations:
                operation.on_state(states)
            assert states.read(touched) == _only(after, touched)

        for worker in step.workers:
            attempt = log.attempt()
            workers[worker].run(attempt, work, policy=policy, keys=touched)
        if step.commits:
            log.adopt(attempt)
            model = after

    keys = list(dict.fromkeys([*SOME, *base]))

    def check(_: functions.BatchContext) -> None:
        assert states.read(keys) == model

    def check_some(_: functions.BatchContext) -> None:
        assert states.read(SOME) == _only(model, SOME)

    for worker in [*workers, Worker(states.declare, ids)]:
        worker.run(log.attempt(), check_some, keys=SOME)
        worker.run(log.attempt(), check)
        worker.run(log.attempt(), check, keys=keys)
        worker.run(log.attempt(), check_some, keys=SOME)


def _begin_with(keys: list[object], states: States, log: MemoryLog) -> None:
    """Write lists and maps of keys, which are stored as columns."""

    def work(context: functions.BatchContext) -> None:
        for key in keys:
            context.enter(key)
            states.list.update([LARGE] * 3)
            states.map.put_all(dict.fromkeys(range(3), LARGE))

    Worker(states.declare, lambda: "the first").run(log, work)
    stored = {section.meta.name: section.content for section in chunks.decode(log.chunks[1][1], "1").sections}
    assert {name: type(content) for name, content in stored.items()} == dict.fromkeys(["list", "map"], columns.Columns)


def _only(model: Model, keys: list[object]) -> Model:
    return {name: {key: rows[key] for key in keys if key in rows} for name, rows in model.items()}


def _counter() -> tuple[States, Worker, MemoryLog]:
    states = States()
    return states, Worker(states.declare, new_ids()), MemoryLog()


def _update(states: States, key: object, value: int) -> Callable[[functions.BatchContext], None]:
    def work(context: functions.BatchContext) -> None:
        context.enter(key)
        states.value.update(value)

    return work


NEVER_MERGE = heads.Policy(fan_in=1000, max_size_amplification=1000.0)


def test_a_worker_that_has_the_latest_version_reads_no_chunk() -> None:
    states, worker, log = _counter()
    for number in range(5):
        worker.run(log, _update(states, "a", number), policy=NEVER_MERGE)
    assert log.reads == 0


def test_a_worker_that_is_behind_reads_only_what_it_missed() -> None:
    states, worker, log = _counter()
    other = Worker(states.declare, lambda: "other")
    worker.run(log, _update(states, "a", 0), policy=NEVER_MERGE)
    other.run(log, _update(states, "a", 1), policy=NEVER_MERGE)
    log.reads = 0
    worker.run(log, _update(states, "a", 2), policy=NEVER_MERGE)
    assert log.reads == 1


def test_a_copy_of_the_same_version_from_another_attempt_is_thrown_away() -> None:
    states, worker, log = _counter()
    worker.run(log, _update(states, "a", 1))
    lost, won = log.attempt(), log.attempt()
    worker.run(lost, _update(states, "a", 666))
    Worker(states.declare, lambda: "winner").run(won, _update(states, "a", 2))
    log.adopt(won)
    seen: list[object] = []
    worker.run(log, lambda context: (context.enter("a"), seen.append(states.value.get()))[1])
    assert seen == [2]


def test_a_batch_that_changes_nothing_writes_nothing() -> None:
    states, worker, log = _counter()
    worker.run(log, _update(states, "a", 1))
    head = log.head()
    assert worker.run(log, lambda context: context.enter("a")) == store.Written(0, 0)
    assert log.head() == head


def test_a_chunk_that_the_head_names_and_is_gone_is_an_error_that_says_so() -> None:
    states, worker, log = _counter()
    worker.run(log, _update(states, "a", 1))
    log.chunks.clear()
    with pytest.raises(errors.SnapshotCorruptError, match="Chunk 1 of key group 0 is missing"):
        Worker(states.declare, new_ids()).run(log, lambda _: None)


def test_state_that_the_function_no_longer_declares_is_kept() -> None:
    states, worker, log = _counter()
    worker.run(log, _update(states, "a", 1))
    without = Worker(lambda context: context.value_state("new") and None, new_ids())
    full = heads.Policy(fan_in=2, max_size_amplification=0.0)
    without.run(log, lambda context: context.enter("a"), policy=full)
    seen: list[object] = []
    Worker(states.declare, new_ids()).run(log, lambda context: (context.enter("a"), seen.append(states.value.get()))[1])
    assert seen == [1]


@pytest.mark.parametrize(
    ("descriptor", "sentence"),
    [
        (
            valuestate.ValueStateDescriptor("value", str),
            r"Incompatible key/value state types. Was \[ValueState<bigint>\], registered with \[ValueState<str>\]",
        ),
        (
            liststate.ListStateDescriptor("value"),
            r"Incompatible key/value state types. Was \[ValueState<bigint>\], registered with \[ListState<array<any>>\]",
        ),
        (
            valuestate.ValueStateDescriptor("value", "bigint", ttl=ttl.Ttl("1d")),
            "was written without a time to live and is declared with",
        ),
    ],
)
def test_a13_a_stored_state_of_another_type_is_refused_with_both_types(descriptor: object, sentence: str) -> None:
    states, worker, log = _counter()
    worker.run(log, _update(states, "a", 1))
    changed = Worker(lambda context: context.declare(descriptor) and None, new_ids())
    with pytest.raises(errors.SpecRejectedError, match=sentence):
        changed.run(log, lambda _: None)


def test_a_head_of_an_unknown_layout_is_refused() -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="layout version 9"):
        heads.GroupHead.from_layout(1, "id", b"\x93\x09\x90\x90")


def test_a_state_grows_with_logarithmic_write_amplification() -> None:
    """200,000 keys written once, in 400 batches of equal size: every byte is written a few times, not hundreds."""
    states, worker, log = _counter()
    delta_bytes = total_bytes = 0
    for batch in range(400):

        def work(context: functions.BatchContext, first: int = batch * 500) -> None:
            for key in range(first, first + 500):
                context.enter(key)
                states.value.update(key)

        written = worker.run(log, work)
        delta_bytes += written.delta_bytes
        total_bytes += written.total_bytes
    assert total_bytes / delta_bytes < 6
    assert len(log.chunks) == len(log.head().runs) < 64
