# ruff: noqa: N802, N803 - processors have Spark's names
"""What Spark's handle allows when, what it refuses, and what processors are called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming import stateful_processor
from statefulspark import errors
from statefulspark.operators.transform import modes
from transformworld import World, schema

NONE, PROCESSING, EVENT = modes.TimeMode.NONE, modes.TimeMode.PROCESSING_TIME, modes.TimeMode.EVENT_TIME
Handle = stateful_processor.StatefulProcessorHandle
N = schema("n bigint")


class Does(stateful_processor.StatefulProcessor):
    """Does something in `init`, or with the first rows."""

    def __init__(self, *, init: Callable[[Handle], object] = lambda _: None, rows: Callable[[Does], object]) -> None:
        self._init, self._rows = init, rows

    def init(self, handle: Handle) -> None:
        self.handle = handle
        self.state = self._init(handle)

    def handleInputRows(self, key, rows, timerValues):
        yield self._rows(self)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield (key, timerValues, expiredTimerInfo)


def _run(does: Does, mode: modes.TimeMode) -> list[object]:
    return World(does, mode).batch({"a": [Row(x=1)]}, now_ms=100, watermark_ms=50)


@pytest.mark.parametrize(
    ("mode", "act", "error_class"),
    [
        pytest.param(
            NONE, lambda own: own.handle.registerTimer(1), "INVALID_TIME_MODE", id="a timer in the mode without time"
        ),
        pytest.param(NONE, lambda own: list(own.handle.listTimers()), "INVALID_TIME_MODE", id="a list of none"),
        pytest.param(
            EVENT, lambda own: own.handle.getValueState("late", N), "INVALID_HANDLE_STATE", id="a state after init"
        ),
        pytest.param(
            EVENT,
            lambda own: own.handle.deleteIfExists("late"),
            "INVALID_HANDLE_STATE",
            id="deleting a state after init",
        ),
    ],
)
def test_what_spark_refuses_is_refused(mode: modes.TimeMode, act: Callable[[Does], object], error_class: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=error_class):
        _run(Does(rows=act), mode)


@pytest.mark.parametrize(
    ("mode", "init", "words"),
    [
        pytest.param(
            EVENT,
            lambda handle: handle.registerTimer(1),
            "operation=register_timer .* state=CREATED",
            id="a timer in init",
        ),
        pytest.param(
            EVENT,
            lambda handle: handle.getValueState("s", N, 5),
            r"initializing value state: \[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL\] .*timeMode=EventTime",
            id="expiry in event time",
        ),
        pytest.param(
            NONE,
            lambda handle: handle.getListState("s", N, 5),
            r"initializing list state: \[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL\] .*timeMode=NoTime",
            id="expiry without time",
        ),
        pytest.param(
            PROCESSING,
            lambda handle: handle.getMapState("s", N, N, -5),
            "must be greater than zero",
            id="a negative expiry",
        ),
        pytest.param(
            NONE,
            lambda handle: (handle.getValueState("s", N), handle.getListState("s", N)),
            r"initializing list state: \[STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED\] .* name s has already",
            id="two states of one name",
        ),
        pytest.param(
            NONE,
            lambda handle: (handle.getValueState("s", N), handle.getValueState("s", N)),
            "initializing value state: Value state s already exists",
            id="one state twice",
        ),
        pytest.param(
            NONE,
            lambda handle: (handle.getValueState("s", N), handle.deleteIfExists("s"), handle.getValueState("s", N)),
            r"\[STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED\]",
            id="a state that is declared, deleted and declared",
        ),
    ],
)
def test_what_spark_refuses_in_init_is_refused(
    mode: modes.TimeMode, init: Callable[[Handle], object], words: str
) -> None:
    with pytest.raises(errors.SpecRejectedError, match=words):
        _run(Does(init=init, rows=lambda _: None), mode)


def test_a_list_must_not_be_replaced_by_an_empty_one() -> None:
    does = Does(init=lambda handle: handle.getListState("s", N), rows=lambda own: own.state.put([]))
    with pytest.raises(errors.SpecRejectedError, match="EMPTY_LIST_VALUE"):
        _run(does, NONE)


def test_a_value_must_not_be_none() -> None:
    does = Does(init=lambda handle: handle.getValueState("s", N), rows=lambda own: own.state.update(None))
    with pytest.raises(errors.UserCodeError) as raised:
        _run(does, NONE)

    assert isinstance(raised.value.raised, TypeError)


def _deleted(declare: Callable[[Handle], object]) -> Callable[[Handle], object]:
    def init(handle: Handle) -> object:
        state = declare(handle)
        handle.deleteIfExists("s")
        return state

    return init


VALUE, LIST, MAP = (
    lambda handle: handle.getValueState("s", N),
    lambda handle: handle.getListState("s", N),
    lambda handle: handle.getMapState("s", N, N),
)


@pytest.mark.parametrize(
    ("declare", "use", "words"),
    [
        pytest.param(VALUE, lambda s: s.exists(), "Error checking value state exists: Value state s", id="exists"),
        pytest.param(VALUE, lambda s: s.get(), "Error getting value state: Value state s", id="get"),
        pytest.param(VALUE, lambda s: s.update((1,)), "Error updating value state: Value state s", id="update"),
        pytest.param(VALUE, lambda s: s.clear(), "Error clearing value state: Value state s", id="clear"),
        pytest.param(LIST, lambda s: s.exists(), "Error checking value state exists: List state s", id="list exists"),
        pytest.param(LIST, lambda s: s.put([(1,)]), "Error updating value state: List state s", id="put"),
        pytest.param(LIST, lambda s: s.appendValue((1,)), "Error updating value state: List state s", id="append"),
        pytest.param(
            LIST, lambda s: s.appendList([(1,)]), "Error updating value state: List state s", id="append list"
        ),
        pytest.param(LIST, lambda s: s.clear(), "Error clearing value state: List state s", id="clear list"),
        pytest.param(MAP, lambda s: s.exists(), "Error checking map state exists: Map state s", id="map exists"),
        pytest.param(MAP, lambda s: s.getValue((1,)), "Error getting value: Map state s", id="get value"),
        pytest.param(
            MAP, lambda s: s.containsKey((1,)), "Error checking if map state contains key: Map state s", id="contains"
        ),
        pytest.param(
            MAP, lambda s: s.updateValue((1,), (1,)), "Error updating map state value: Map state s", id="update value"
        ),
        pytest.param(MAP, lambda s: s.removeKey((1,)), "Error removing key from map state: Map state s", id="remove"),
        pytest.param(MAP, lambda s: s.clear(), "Error clearing map state: Map state s", id="clear map"),
    ],
)
def test_a_state_that_was_deleted_after_it_was_declared_cannot_be_used(
    declare: Callable[[Handle], object], use: Callable[[Any], object], words: str
) -> None:
    with pytest.raises(PySparkRuntimeError, match=f"{words} is not initialized"):
        _run(Does(init=_deleted(declare), rows=lambda own: use(own.state)), NONE)


@pytest.mark.parametrize(
    ("declare", "iterate"),
    [
        pytest.param(LIST, lambda s: s.get(), id="a list"),
        pytest.param(MAP, lambda s: s.iterator(), id="a map"),
        pytest.param(MAP, lambda s: s.keys(), id="keys"),
        pytest.param(MAP, lambda s: s.values(), id="values"),
    ],
)
def test_iterators_over_a_deleted_state_are_empty(
    declare: Callable[[Handle], object], iterate: Callable[[Any], Iterator[object]]
) -> None:
    assert _run(Does(init=_deleted(declare), rows=lambda own: list(iterate(own.state))), NONE) == [[]]


def _puts_five(state: Any) -> None:
    state.put([(number,) for number in range(5)])


@pytest.mark.parametrize(
    ("declare", "before", "iterate", "after", "seen"),
    [
        pytest.param(LIST, None, lambda s: s.get(), lambda s: s.appendValue((1,)), [(1,)], id="a list"),
        pytest.param(LIST, _puts_five, lambda s: s.get(), lambda s: s.clear(), [], id="a list that is cleared"),
        pytest.param(MAP, None, lambda s: s.keys(), lambda s: s.updateValue((1,), (2,)), [(1,)], id="keys"),
        pytest.param(MAP, None, lambda s: s.values(), lambda s: s.updateValue((1,), (2,)), [(2,)], id="values"),
        pytest.param(
            MAP, None, lambda s: s.iterator(), lambda s: s.updateValue((1,), (2,)), [((1,), (2,))], id="a map"
        ),
    ],
)
def test_an_iterator_reads_when_it_is_first_asked(
    declare: Callable[[Handle], object],
    before: Callable[[Any], object] | None,
    iterate: Callable[[Any], Iterator[object]],
    after: Callable[[Any], object],
    seen: list[object],
) -> None:
    def rows(own: Does) -> list[object]:
        if before is not None:
            before(own.state)
        iterator = iterate(own.state)
        after(own.state)
        return list(iterator)

    assert _run(Does(init=declare, rows=rows), NONE) == [seen]


def test_an_iterator_does_not_see_what_is_changed_while_it_goes_on() -> None:
    def rows(own: Does) -> tuple[int, int]:
        _puts_five(own.state)
        seen = 0
        for _ in own.state.get():
            own.state.appendValue((9,))
            seen += 1
        return seen, len(list(own.state.get()))

    assert _run(Does(init=LIST, rows=rows), NONE) == [(5, 10)]


def test_timers_are_listed_when_they_are_first_asked_for() -> None:
    def rows(own: Does) -> list[int]:
        listed = own.handle.listTimers()
        own.handle.registerTimer(10**15)
        return list(listed)

    assert _run(Does(init=lambda _: None, rows=rows), EVENT) == [[10**15]]


def test_no_time_to_live_is_zero() -> None:
    does = Does(
        init=lambda handle: handle.getValueState("s", N, 0),
        rows=lambda own: (own.state.get(), own.state.update((1,))),
    )
    world = World(does, EVENT)
    world.batch({"a": [Row(x=1)]}, now_ms=1)
    assert world.batch({"a": [Row(x=1)]}, now_ms=10**9) == [((1,), None)]


@pytest.mark.parametrize(
    ("mode", "times"),
    [
        pytest.param(NONE, (-1, -1), id="no time"),
        pytest.param(PROCESSING, (100, 50), id="processing time"),
        pytest.param(EVENT, (100, 50), id="event time"),
    ],
)
def test_a_processor_is_told_the_times_of_the_batch(mode: modes.TimeMode, times: tuple[int, int]) -> None:
    class Tells(Does):
        def handleInputRows(self, key, rows, timerValues):
            yield timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs()

    assert _run(Tells(rows=lambda _: None), mode) == [times]


def test_a_timer_comes_with_its_key_as_a_row_and_its_moment() -> None:
    output = _run(Does(rows=lambda own: own.handle.registerTimer(40)), EVENT)
    key, times, fired = output[1]  # type: ignore[misc]
    assert key.key == "a"
    assert (times.getCurrentWatermarkInMs(), fired.getExpiryTimeInMs()) == (50, 40)


def test_initial_state_comes_before_the_rows_and_timers_after_them() -> None:
    class Starts(Does):
        def handleInitialState(self, key, initialState, timerValues):
            self.state.update((initialState.start,))
            self.handle.registerTimer(10)

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            yield key[0], "timer", self.state.get()

    starts = Starts(init=lambda handle: handle.getValueState("s", N), rows=lambda own: ("rows", own.state.get()))
    output = World(starts, PROCESSING).batch(
        {"a": [Row(x=1)]}, now_ms=100, initial={"a": [Row(start=7)], "b": [Row(start=8)]}
    )
    assert output == [("rows", (7,)), ("a", "timer", (7,)), ("b", "timer", (8,))]


def test_no_rows_and_no_output_are_fine() -> None:
    class Silent(Does):
        def handleInputRows(self, key, rows, timerValues):
            return iter([])

    assert _run(Silent(rows=lambda _: None), NONE) == []


@pytest.mark.parametrize("name", ["none", "NONE", "processingTime", "eventtime"])
def test_time_modes_are_read_in_any_case(name: str) -> None:
    assert modes.time_mode(name).value.lower() == name.lower()


def test_an_unknown_time_mode_is_refused_by_name() -> None:
    with pytest.raises(errors.SpecRejectedError, match="Unknown time mode 'wall clock'"):
        modes.time_mode("wall clock")


def test_complete_mode_is_refused() -> None:
    with pytest.raises(errors.SpecRejectedError, match="Complete"):
        modes.output_mode("Complete")


def test_a_timer_that_was_deleted_and_set_again_before_it_fired_fires_once() -> None:
    class Resets(Does):
        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            if expiredTimerInfo.getExpiryTimeInMs() == 10:
                self.handle.deleteTimer(20)
                listed = list(self.handle.listTimers())
                self.handle.registerTimer(20)
                yield listed, list(self.handle.listTimers())
            else:
                yield expiredTimerInfo.getExpiryTimeInMs()

    world = World(Resets(rows=lambda own: [own.handle.registerTimer(at) for at in (10, 20)]), EVENT)
    assert world.batch({"a": [Row(x=1)]}, watermark_ms=50)[1:] == [([10], [10, 20]), 20]
    assert world.batch({}, watermark_ms=60) == []
