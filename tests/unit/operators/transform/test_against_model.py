# ruff: noqa: N802, N803, N815 - processors have Spark's names
"""Whatever a processor does with its states and timers, it sees what Spark's operator would show it.

The model is Spark's contract in a few lines: rows of a key before its timers, timers settled after the rows and gone
after their callback, an expiry per value, element and entry in the time of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming import stateful_processor
from statefulspark.operators.transform import modes
from transformworld import World, schema

KEYS = ("a", "b", "c")
TTL_MS = 50
Operation = tuple[str, int]


class Script(stateful_processor.StatefulProcessor):
    """Does what its rows say, and tells all it sees after each step."""

    def __init__(self, ttl_ms: int | None, on_timer: tuple[tuple[Operation, ...], ...], has_timers: bool) -> None:
        self._ttl_ms, self._on_timer, self._has_timers = ttl_ms, on_timer, has_timers

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", schema("n bigint"), self._ttl_ms)
        self.forever = handle.getValueState("forever", schema("n bigint, text string"))
        self.list = handle.getListState("list", schema("n bigint"), self._ttl_ms)
        self.map = handle.getMapState("map", schema("k int"), schema("n bigint"), self._ttl_ms)

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            for operation in row.operations:
                self._do(*operation)
                yield Row(key=key[0], did=operation, saw=self._look())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        at_ms = expiredTimerInfo.getExpiryTimeInMs()
        before = self._look()
        for operation in self._on_timer[at_ms % len(self._on_timer)]:
            self._do(*operation)
        yield Row(key=key[0], at=at_ms, before=before, after=self._look())

    def close(self) -> None:
        pass

    def _do(self, operation: str, n: int) -> None:
        {
            "update": lambda: self.value.update((n,)),
            "keep": lambda: self.forever.update((n, str(n))),
            "forget": self.value.clear,
            "append": lambda: self.list.appendValue((n,)),
            "extend": lambda: self.list.appendList([(n,), (n + 1,)]),
            "replace": lambda: self.list.put([(n,)]),
            "empty": self.list.clear,
            "put": lambda: self.map.updateValue((n % 4,), (n,)),
            "remove": lambda: self.map.removeKey((n % 4,)),
            "drop": self.map.clear,
            "set": lambda: self.handle.registerTimer(n),
            "unset": lambda: self.handle.deleteTimer(n),
        }[operation]()

    def _look(self) -> tuple[object, ...]:
        return (
            (self.value.exists(), self.value.get(), self.forever.get()),
            (self.list.exists(), list(self.list.get())),
            (self.map.exists(), sorted(self.map.iterator()), sorted(self.map.keys()), sorted(self.map.values())),
            [(self.map.containsKey((k,)), self.map.getValue((k,))) for k in range(4)],
            list(self.handle.listTimers()) if self._has_timers else None,
        )


@dataclass
class ModelState:
    """A list of (entry, value, expiry) per key: every kind of state is one of those."""

    model: Model
    ttl_ms: int | None
    kept: dict[str, list[tuple[object, tuple, float]]] = field(default_factory=dict)

    def rows(self) -> list[tuple[object, tuple, float]]:
        return [row for row in self.kept.get(self.model.key, []) if row[2] > self.model.now_ms]

    def add(self, value: tuple, entry: object = None) -> None:
        lives_until = float("inf") if self.ttl_ms is None else self.model.now_ms + self.ttl_ms
        self.kept.setdefault(self.model.key, []).append((entry, value, lives_until))

    def exists(self) -> bool:
        return bool(self.rows())

    def clear(self) -> None:
        self.kept.pop(self.model.key, None)


class ModelValue(ModelState):
    def get(self) -> tuple | None:
        return self.rows()[0][1] if self.rows() else None

    def update(self, value: tuple) -> None:
        self.clear()
        self.add(value)


class ModelList(ModelState):
    def get(self) -> Iterator[tuple]:
        return iter([row[1] for row in self.rows()])

    def put(self, values: list[tuple]) -> None:
        self.clear()
        self.appendList(values)

    def appendList(self, values: list[tuple]) -> None:
        for value in values:
            self.add(value)

    appendValue = ModelState.add


class ModelMap(ModelState):
    def iterator(self) -> list[tuple[object, tuple]]:
        return [row[:2] for row in self.rows()]

    def keys(self) -> list[object]:
        return [row[0] for row in self.rows()]

    def values(self) -> list[tuple]:
        return [row[1] for row in self.rows()]

    def getValue(self, entry: tuple) -> tuple | None:
        return dict(self.iterator()).get(entry)

    def containsKey(self, entry: tuple) -> bool:
        return entry in self.keys()

    def removeKey(self, entry: tuple) -> None:
        self.kept[self.model.key] = [row for row in self.rows() if row[0] != entry]

    def updateValue(self, entry: tuple, value: tuple) -> None:
        self.removeKey(entry)
        self.add(value, entry)


class Model:
    """Spark's operator, over all keys of a partition."""

    def __init__(self, processor: Script, by_watermark: bool) -> None:
        self.key, self.now_ms, self.states = "", 0, {}
        self.timers: dict[str, set[int]] = {key: set() for key in KEYS}
        self._processor, self._by_watermark = processor, by_watermark

    def getValueState(self, name, _, ttl_ms=None):
        return self.states.setdefault(name, ModelValue(self, ttl_ms))

    def getListState(self, name, _, ttl_ms=None):
        return self.states.setdefault(name, ModelList(self, ttl_ms))

    def getMapState(self, name, _, __, ttl_ms=None):
        return self.states.setdefault(name, ModelMap(self, ttl_ms))

    def registerTimer(self, at_ms: int) -> None:
        self.timers[self.key].add(at_ms)

    def deleteTimer(self, at_ms: int) -> None:
        self.timers[self.key].discard(at_ms)

    def listTimers(self) -> list[int]:
        return sorted(self.timers[self.key])

    def batch(self, rows: dict[str, list[Row]], now_ms: int, watermark_ms: int) -> list[object]:
        self.now_ms, output = now_ms, []
        self._processor.init(self)
        for self.key, items in rows.items():
            output += self._processor.handleInputRows((self.key,), iter(items), None)
        reached_ms = watermark_ms if self._by_watermark else now_ms
        due = sorted((at_ms, key) for key, set_for in self.timers.items() for at_ms in set_for if at_ms <= reached_ms)
        for at_ms, self.key in due:
            fired = stateful_processor.ExpiredTimerInfo(at_ms)
            output += self._processor.handleExpiredTimer((self.key,), None, fired)
            self.deleteTimer(at_ms)
        return output


STATE_OPERATIONS = ("update", "keep", "forget", "append", "extend", "replace", "empty", "put", "remove", "drop")


def _operations(names: tuple[str, ...]) -> st.SearchStrategy[tuple[Operation, ...]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 60)), max_size=5).map(tuple)


def _batches(names: tuple[str, ...]) -> st.SearchStrategy[list[tuple[dict[str, list[Row]], int, bool]]]:
    rows = st.lists(_operations(names).map(lambda operations: Row(operations=operations)), min_size=1, max_size=2)
    keyed = st.dictionaries(st.sampled_from(KEYS), rows, max_size=3)
    return st.lists(st.tuples(keyed, st.integers(0, 40), st.booleans()), min_size=1, max_size=6)


def _by_key(output: list[object]) -> dict[str, list[object]]:
    return {key: [row for row in output if row.key == key] for key in KEYS}  # type: ignore[attr-defined]


def _compare(mode: modes.TimeMode, ttl_ms: int | None, batches: list, on_timer: tuple) -> None:
    script = Script(ttl_ms, on_timer, mode is not modes.TimeMode.NONE)
    ours = World(script, mode)
    model = Model(Script(ttl_ms, on_timer, mode is not modes.TimeMode.NONE), mode is modes.TimeMode.EVENT_TIME)
    now_ms = 0
    for rows, passed_ms, new_worker in batches:
        now_ms += passed_ms
        expected = model.batch(rows, now_ms, now_ms)
        seen = ours.batch(rows, now_ms=now_ms, watermark_ms=now_ms, new_worker=new_worker)
        assert _by_key(seen) == _by_key(expected)


@settings(max_examples=50)
@given(batches=_batches(STATE_OPERATIONS))
def test_states_are_those_of_spark_without_time(batches: list) -> None:
    _compare(modes.TimeMode.NONE, None, batches, ())


@settings(max_examples=80)
@given(
    batches=_batches((*STATE_OPERATIONS, "set", "set", "unset")),
    on_timer=st.lists(_operations((*STATE_OPERATIONS, "set", "set", "unset")), min_size=1, max_size=4).map(tuple),
)
def test_states_that_expire_and_timers_are_those_of_spark_in_processing_time(batches: list, on_timer: tuple) -> None:
    _compare(modes.TimeMode.PROCESSING_TIME, TTL_MS, batches, on_timer)


@settings(max_examples=50)
@given(
    batches=_batches(("update", "put", "set", "set", "unset")),
    on_timer=st.lists(_operations(("set", "set", "unset", "append")), min_size=1, max_size=4).map(tuple),
)
def test_timers_are_those_of_spark_in_event_time(batches: list, on_timer: tuple) -> None:
    _compare(modes.TimeMode.EVENT_TIME, None, batches, on_timer)
