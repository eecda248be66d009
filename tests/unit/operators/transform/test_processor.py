# ruff: noqa: N802, N803 - processors have Spark's names
"""By key group: late rows, deleted states, timers that wait, initial state, and output, with the engine in memory."""

from __future__ import annotations

import datetime
import itertools
import zoneinfo
from collections.abc import Callable, Iterator

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import stateful_processor
from statefulengine import Engine
from statefulspark import errors
from statefulspark.contract import watermark
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import firing, function, inputs, lateness, modes, processor
from statefulspark.state import functions, grouptables, timers
from transformworld import KEY, schema

NONE, PROCESSING, EVENT = modes.TimeMode.NONE, modes.TimeMode.PROCESSING_TIME, modes.TimeMode.EVENT_TIME
_UIDS = itertools.count()


class Processor(stateful_processor.StatefulProcessor):
    """A base: remembers the handle, yields nothing."""

    def init(self, handle) -> None:
        self.handle = handle

    def handleInputRows(self, key, rows, timerValues):
        return iter([])


def _engine(own: Callable[[], Processor], mode: modes.TimeMode, *, output: str, frames: bool = False) -> Engine:
    uid = f"operator-{next(_UIDS)}"

    def make() -> processor.TransformProcessor:
        rows = inputs.FrameInputs(["key"], 0, "UTC") if frames else inputs.RowInputs(["key"])
        late = lateness.EventTime("time", is_window=False) if mode is EVENT else None
        settings = keyed_processor.OperatorSettings(
            uid=uid,
            key=("key",),
            key_type="string",
            schema=schema(output),
            timezone="UTC",
            disk_bytes=0,
            domains=mode.domains,
        )
        handed = processor.RowHandling(rows, inputs.RowInputs(["name"]), frames, late)
        return processor.TransformProcessor(function.ProcessorFunction(own(), mode, KEY), settings, handed)

    return Engine(make, mode.value)


def _rows(*rows: tuple[str, int], group: int = 0) -> pa.Table:
    keys, moments = zip(*rows, strict=True)
    return pa.table(
        {
            "key": pa.array(keys),
            "time": pa.array([at * 1000 for at in moments], pa.timestamp("us", "UTC")),
            "key_group": pa.array([group] * len(rows), pa.int32()),
        }
    )


class Counts(Processor):
    """Counts rows; its timer, if asked for, counts too."""

    def __init__(self, sets: tuple[int, ...] = (), sets_again: int | None = None) -> None:
        self._sets, self._sets_again = sets, sets_again

    def init(self, handle) -> None:
        super().init(handle)
        self.count = handle.getValueState("count", "n bigint")

    def handleInitialState(self, key, initialState, timerValues):
        self.count.update((100,))
        for at_ms in self._sets:
            self.handle.registerTimer(at_ms)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        self.count.update(((self.count.get() or (0,))[0] + len(list(rows)),))
        for at_ms in self._sets:
            self.handle.registerTimer(at_ms)
        yield Row(n=self.count.get()[0], key=key[0], more=1)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        at_ms = expiredTimerInfo.getExpiryTimeInMs()
        if at_ms == self._sets_again:
            self.handle.registerTimer(at_ms - 7)
        yield Row(key=key.key, n=-at_ms)


def test_rows_come_out_by_name_and_state_stays() -> None:
    engine = _engine(Counts, NONE, output="key string, n bigint, missing string")
    engine.start_on_driver()
    assert engine.batch(_rows(("a", 1), ("b", 1), ("a", 2))) == [
        {"key": "a", "n": 2, "missing": None},
        {"key": "b", "n": 1, "missing": None},
    ]
    assert [row["n"] for row in engine.batch(_rows(("a", 1)))] == [3]


def test_rows_are_late_by_the_watermark_of_the_batch_before() -> None:
    engine = _engine(Counts, EVENT, output="key string, n bigint")
    engine.start_on_driver()
    assert engine.batch(_rows(("a", 0), ("a", 1)), watermark_ms=0) == [{"key": "a", "n": 1}]
    assert engine.batch(_rows(("a", 3), ("b", 6)), watermark_ms=5) == [{"key": "a", "n": 2}, {"key": "b", "n": 1}]
    assert engine.batch(_rows(("a", 5), ("b", 6)), watermark_ms=9) == [{"key": "b", "n": 2}]


def test_the_watermark_is_noted_by_a_batch_without_rows() -> None:
    engine = _engine(Counts, EVENT, output="key string, n bigint")
    for watermark_ms in (0, 5, 9):
        assert engine.batch(None, watermark_ms=watermark_ms) == []
    assert engine.batch(_rows(("a", 9), ("a", 10)), watermark_ms=20) == [{"key": "a", "n": 1}]


def test_no_row_is_late_where_the_watermark_was_never_noted() -> None:
    engine = _engine(Counts, EVENT, output="key string, n bigint")
    assert engine.batch(_rows(("a", 3), ("a", 30)), watermark_ms=20) == [{"key": "a", "n": 2}]


@pytest.mark.parametrize("mode", [EVENT, PROCESSING])
def test_a_timer_that_is_set_in_the_past_by_a_callback_fires_in_the_next_batch(mode: modes.TimeMode) -> None:
    engine = _engine(lambda: Counts((50,), sets_again=50), mode, output="key string, n bigint")
    assert engine.batch(_rows(("a", 99)), now_ms=60, watermark_ms=60) == [{"key": "a", "n": 1}, {"key": "a", "n": -50}]
    assert engine.batch(None, now_ms=60, watermark_ms=60) == [{"key": "a", "n": -43}]
    assert engine.batch(None, now_ms=90, watermark_ms=90) == []


@pytest.mark.parametrize("mode", [EVENT, PROCESSING])
def test_a_callback_that_always_sets_a_due_timer_wakes_its_key_group_once_in_each_batch(mode: modes.TimeMode) -> None:
    class Repeats(Counts):
        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
            at_ms = expiredTimerInfo.getExpiryTimeInMs()
            self.handle.registerTimer(50 if at_ms == 49 else 49)
            yield Row(key=key.key, n=-at_ms)

    engine = _engine(lambda: Repeats((50,)), mode, output="key string, n bigint")
    engine.batch(_rows(("a", 99)), now_ms=60, watermark_ms=60)
    fired = [engine.batch(None, now_ms=60 + n, watermark_ms=60 + n) for n in range(10)]
    assert [rows[0]["n"] for rows in fired] == [-49, -50] * 5
    assert len(engine.timers) == 1


def test_a_processor_adds_to_the_watermark_also_when_event_time_has_ended() -> None:
    class Adds(Counts):
        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 10)
            return iter(())

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 10)
            yield Row(n=timerValues.getCurrentWatermarkInMs())

    engine = _engine(Adds, EVENT, output="n bigint")
    engine.batch(_rows(("a", 99)), watermark_ms=60)
    assert engine.batch(None, watermark_ms=watermark.END_OF_TIME_MS) == [{"n": watermark.END_OF_TIME_MS}]
    assert engine.batch(None, watermark_ms=80) == []


def test_the_last_timer_that_there_can_be_fires_when_event_time_ends() -> None:
    engine = _engine(lambda: Counts((2**63 - 1,)), EVENT, output="n bigint")
    engine.batch(_rows(("a", 99)), watermark_ms=60)
    assert engine.batch(None, watermark_ms=watermark.END_OF_TIME_MS) == [{"n": 1 - 2**63}]


def test_a_timer_that_is_no_long_is_an_error_of_the_processor() -> None:
    with pytest.raises(
        errors.UserCodeError, match=r"Counts\.handleInputRows\(\) .* Value out of range: 9223372036854775808"
    ):
        _engine(lambda: Counts((2**63,)), EVENT, output="n bigint").batch(_rows(("a", 99)), watermark_ms=60)


@pytest.mark.parametrize("hour", [5, 6])
def test_a_timer_that_fires_exists_also_for_a_key_in_an_hour_that_the_clock_repeats(hour: int) -> None:
    """In New York, both are 01:30 on that day, and Python says that they differ from the same moments in UTC."""
    context = functions.BatchContext(
        "test", 100, domains=PROCESSING.domains, zone=zoneinfo.ZoneInfo("America/New_York")
    )
    context.bind(grouptables.GroupTables())
    firing_timers = firing.ProcessorTimers(context, 100)
    context.enter(datetime.datetime(2026, 11, 1, hour, 30, tzinfo=datetime.UTC))
    firing_timers.register(50)
    seen = []
    for at_ms in firing_timers.fire():
        firing_timers.register(at_ms)
        seen.append((at_ms, firing_timers.listed()))

    assert seen == [(50, [50])]
    assert context.next_wake_ms(timers.TimeDomain.PROCESSING_TIME) is None


def test_initial_state_without_rows_fires_timers_that_are_due_also_at_the_epoch() -> None:
    engine = _engine(lambda: Counts((0, -5)), EVENT, output="key string, n bigint")
    known = pa.table({"name": pa.array(["x"]), "key_group": pa.array([3], pa.int32())})
    fired = [{"key": "x", "n": 5}, {"key": "x", "n": 0}]
    assert engine.batch(_rows(("a", 99)), initial=known)[3:] == fired
    assert engine.batch(_rows(("x", 99), group=3)) == [{"key": "x", "n": 101}, *fired]


def test_a_deleted_state_is_gone_and_may_be_declared_anew() -> None:
    class Deletes(Processor):
        def init(self, handle) -> None:
            handle.deleteIfExists("count")
            self.count = handle.getListState("count", "text string")

        def handleInputRows(self, key, rows, timerValues):
            yield Row(key=key[0], n=len(list(self.count.get())))

    chosen: list[Callable[[], Processor]] = [Counts]
    engine = _engine(lambda: chosen[-1](), NONE, output="key string, n bigint")  # noqa: PLW0108 - what is chosen changes
    engine.batch(_rows(("a", 1)))
    chosen[-1] = Deletes
    assert engine.batch(_rows(("a", 1))) == [{"key": "a", "n": 0}]
    chosen[-1] = Counts
    with pytest.raises(errors.SpecRejectedError, match="count"):
        engine.batch(_rows(("a", 1)))


class Forgets(Processor):
    """Deletes the state that `Counts` has."""

    def init(self, handle) -> None:
        handle.deleteIfExists("count")


def test_an_untouched_key_of_a_deleted_state_does_not_come_back_without_the_call() -> None:
    chosen: list[Callable[[], Processor]] = [Counts]
    engine = _engine(lambda: chosen[-1](), NONE, output="key string, n bigint")  # noqa: PLW0108 - what is chosen changes
    engine.batch(_rows(("a", 1), group=0))
    engine.batch(_rows(("b", 1), group=7))
    chosen[-1] = Forgets
    engine.batch(_rows(("a", 1), group=0))
    chosen[-1] = Counts
    assert engine.batch(_rows(("b", 1), group=7)) == [{"key": "b", "n": 1}]


def test_a_state_is_deleted_in_partitions_without_rows() -> None:
    chosen: list[Callable[[], Processor]] = [Counts]
    engine = _engine(lambda: chosen[-1](), NONE, output="key string, n bigint")  # noqa: PLW0108 - what is chosen changes
    engine.batch(_rows(("a", 1)))
    chosen[-1] = Forgets
    engine.batch(None)
    chosen[-1] = Counts
    assert engine.batch(_rows(("a", 1))) == [{"key": "a", "n": 1}]


def test_other_states_and_timers_stay_where_one_is_deleted() -> None:
    class Both(Counts):
        def init(self, handle) -> None:
            super().init(handle)
            self.other = handle.getValueState("other", "n bigint")

        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            self.other.update(((self.other.get() or (0,))[0] + 1,))
            yield from super().handleInputRows(key, rows, timerValues)
            yield Row(key="other", n=self.other.get()[0])

    chosen: list[Callable[[], Processor]] = [lambda: Both((50,))]
    engine = _engine(lambda: chosen[-1](), EVENT, output="key string, n bigint")  # noqa: PLW0108 - what is chosen changes
    engine.batch(_rows(("a", 1)))
    chosen[-1] = Forgets
    engine.batch(None)
    chosen[-1] = Both
    assert engine.batch(_rows(("a", 99)), watermark_ms=60) == [
        {"key": "a", "n": 1},
        {"key": "other", "n": 2},
        {"key": "a", "n": -50},
    ]


def test_frames_go_in_and_come_out_as_they_are() -> None:
    class Frames(Processor):
        def handleInputRows(self, key, rows, timerValues):
            for frame in rows:
                yield pd.DataFrame({"n": [len(frame)], "key": key[0]})
                yield pd.DataFrame({"n": [0]})

    engine = _engine(Frames, NONE, output="key string, n bigint", frames=True)
    assert engine.batch(_rows(("a", 1), ("a", 2))) == [{"key": "a", "n": 2}, {"n": 0}]


def test_a_row_comes_out_as_it_was_when_it_was_yielded() -> None:
    class Collects(Processor):
        def handleInputRows(self, key, rows, timerValues):
            seen: list[int] = []
            for n, _ in enumerate(rows):
                seen.append(n)
                yield Row(key=key[0], seen=seen)

    engine = _engine(Collects, NONE, output="key string, seen array<bigint>")
    assert [row["seen"] for row in engine.batch(_rows(("a", 1), ("a", 2)))] == [[0], [0, 1]]


def test_a_frame_comes_out_as_it_was_when_it_was_yielded() -> None:
    class Reuses(Processor):
        def handleInputRows(self, key, rows, timerValues):
            frame = pd.DataFrame({"key": [key[0]], "n": [0]})
            for n in range(2):
                frame.loc[0, "n"] = n
                yield frame

    engine = _engine(Reuses, NONE, output="key string, n bigint", frames=True)
    assert [row["n"] for row in engine.batch(_rows(("a", 1)))] == [0, 1]


def test_a_frame_that_is_returned_and_not_yielded_is_refused() -> None:
    class Returns(Processor):
        def handleInputRows(self, key, rows, timerValues):
            return pd.DataFrame({"key": [key[0]], "n": [0]})

    words = r"Returns\.handleInputRows\(\) .* yielded 'key', which is no pandas\.DataFrame"
    with pytest.raises(errors.SpecRejectedError, match=words):
        _engine(Returns, NONE, output="key string, n bigint", frames=True).batch(_rows(("a", 1)))


@pytest.mark.parametrize(
    ("yielded", "words"),
    [
        pytest.param(("a", 1), "yielded \\('a', 1\\), which is not a row", id="a tuple is no Row"),
        pytest.param(Row("a", 1), "which is not a row", id="a Row without names"),
        pytest.param(Row(key="a", n="many"), "does not fit column 'n'", id="a value of another type"),
    ],
)
def test_what_is_no_output_is_refused(yielded: object, words: str) -> None:
    class Yields(Processor):
        def handleInputRows(self, key, rows, timerValues):
            yield yielded

    with pytest.raises(errors.SpecRejectedError, match=words):
        _engine(Yields, NONE, output="key string, n bigint").batch(_rows(("a", 1)))


@pytest.mark.parametrize("method", ["init", "handleInputRows", "handleExpiredTimer", "handleInitialState"])
def test_an_error_names_the_processor_and_its_method(method: str) -> None:
    class Fails(Counts):
        pass

    def fail(*_: object, **__: object) -> None:
        raise ValueError("broken")

    setattr(Fails, method, fail)
    engine = _engine(lambda: Fails((1,)), PROCESSING, output="key string, n bigint")
    known = pa.table({"name": pa.array(["x"]), "key_group": pa.array([3], pa.int32())})
    with pytest.raises(errors.UserCodeError, match=rf"Fails\.{method}\(\) of keyed operator .* broken"):
        engine.batch(_rows(("a", 1)), now_ms=5, initial=known)
