"""A function of `applyInPandasWithState` by key group, with the engine in memory: state, timeouts, frames, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types
from pyspark.sql.streaming.state import GroupState
from statefulengine import Engine
from statefulspark import errors
from statefulspark.contract import watermark
from statefulspark.operators.groupstate import frames, function, timeouts
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import inputs, lateness
from statefulspark.operators.transform import processor as transform_processor
from transformworld import schema

NONE, PROCESSING, EVENT = timeouts.Timeout.NONE, timeouts.Timeout.PROCESSING_TIME, timeouts.Timeout.EVENT_TIME
_INPUT = spark_types.StructType(
    [
        spark_types.StructField("key", spark_types.StringType()),
        spark_types.StructField("time", spark_types.TimestampType()),
        spark_types.StructField("n", spark_types.LongType()),
    ]
)
_UIDS = itertools.count()


def _engine(
    own: function.StateFunction,
    timeout: timeouts.Timeout = NONE,
    *,
    frame_limits: inputs.FrameLimits | None = None,
    states: Sequence[str] = ("n bigint",),
) -> Engine:
    settings = keyed_processor.OperatorSettings(
        uid=f"groupstate-{next(_UIDS)}",
        key=("key",),
        key_type="string",
        schema=schema("key string, n bigint"),
        timezone="UTC",
        disk_bytes=0,
        domains=timeout.mode.domains,
    )
    pandas_options = frames.PandasOptions("UTC", limits=frame_limits or inputs.FrameLimits())
    given = frames.StateFrames(_INPUT, ["key"], pandas_options=pandas_options)
    late = lateness.EventTime("time", is_window=False) if timeout is EVENT else None

    def make() -> function.GroupStateProcessor:
        wrapped = function.GroupStateFunction(
            own, timeout=timeout, schema=schema(states[-1]), width=2, given=given, has_watermark=timeout is EVENT
        )
        handed = transform_processor.RowHandling(given, None, frames=True, late=late)
        return function.GroupStateProcessor(wrapped, settings, handed)

    return Engine(make, timeout.mode.value)


def _rows(*rows: tuple[str, int], n: int | None = 1) -> pa.Table:
    keys, moments = zip(*rows, strict=True)
    return pa.table(
        {
            "key": pa.array(keys),
            "time": pa.array([at * 1000 for at in moments], pa.timestamp("us", "UTC")),
            "n": pa.array([n] * len(rows), pa.int64()),
            "key_group": pa.array([0] * len(rows), pa.int32()),
        }
    )


def _out(key: object, n: object) -> pd.DataFrame:
    return pd.DataFrame({"n": [n], "key": [key]})


def count(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Count rows; the timeout is 10 ms after the batch, or after the last row, and ends the count."""
    if state.hasTimedOut:
        yield _out(key[0], -state.get[0])
        state.remove()
        return
    seen = pd.concat(list(given))
    state.update(((state.getOption or (0,))[0] + len(seen),))
    if state._timeout_conf == PROCESSING.value:
        state.setTimeoutDuration(10)
    if state._timeout_conf == EVENT.value:
        state.setTimeoutTimestamp(int(seen["time"].max().timestamp() * 1000) + 10)
    yield _out(key[0], state.get[0])


def test_a_count_goes_on_in_the_next_batch() -> None:
    engine = _engine(count)
    engine.start_on_driver()
    assert engine.batch(_rows(("a", 1), ("b", 1), ("a", 2))) == [{"n": 2, "key": "a"}, {"n": 1, "key": "b"}]
    assert engine.batch(_rows(("a", 1))) == [{"n": 3, "key": "a"}]


@pytest.mark.parametrize("timeout", [PROCESSING, EVENT])
def test_a_key_times_out_when_the_clock_is_past_its_moment(timeout: timeouts.Timeout) -> None:
    engine = _engine(count, timeout)
    assert engine.batch(_rows(("a", 100)), now_ms=100, watermark_ms=0) == [{"n": 1, "key": "a"}]
    assert engine.batch(None, now_ms=110, watermark_ms=110) == []
    assert engine.batch(None, now_ms=111, watermark_ms=111) == [{"n": -1, "key": "a"}]
    assert engine.batch(None, now_ms=999, watermark_ms=999) == []
    assert engine.batch(_rows(("a", 1000)), now_ms=1000, watermark_ms=1000) == [{"n": 1, "key": "a"}]


def test_a_key_that_stays_timed_out_is_called_once_in_each_batch_and_keeps_one_timer_of_spark() -> None:
    calls: list[bool] = []

    def keep(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        calls.append(state.hasTimedOut)
        if not state.hasTimedOut:
            state.update((1,))
            state.setTimeoutDuration(10)
        return iter(())

    engine = _engine(keep, PROCESSING)
    engine.batch(_rows(("a", 1)), now_ms=100)
    for now_ms in range(111, 121):
        engine.batch(None, now_ms=now_ms)
    assert calls == [False] + [True] * 10
    assert len(engine.timers) == 1


def test_a_timeout_is_set_from_the_watermark_also_when_event_time_has_ended() -> None:
    def put_off(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        state.update((1,))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 10)
        if state.hasTimedOut:
            yield _out(key[0], state.getCurrentWatermarkMs())

    engine = _engine(put_off, EVENT)
    engine.batch(_rows(("a", 100)), watermark_ms=60)
    ended = {"n": watermark.END_OF_TIME_MS, "key": "a"}
    assert engine.batch(None, watermark_ms=watermark.END_OF_TIME_MS) == [ended]
    assert engine.batch(None, watermark_ms=80) == []


def test_the_last_timeout_that_there_can_be_ends_with_event_time() -> None:
    def never(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            yield _out(key[0], 0)
        else:
            state.update((1,))
            state.setTimeoutTimestamp(2**63 - 1)

    engine = _engine(never, EVENT)
    assert engine.batch(_rows(("a", 100)), watermark_ms=60) == []
    assert engine.batch(None, watermark_ms=watermark.END_OF_TIME_MS) == [{"n": 0, "key": "a"}]


def test_rows_put_a_timeout_off() -> None:
    engine = _engine(count, PROCESSING)
    engine.batch(_rows(("a", 1)), now_ms=100)
    engine.batch(_rows(("a", 1)), now_ms=109)
    assert engine.batch(None, now_ms=115) == []
    assert engine.batch(None, now_ms=120) == [{"n": -2, "key": "a"}]


def test_rows_that_are_late_do_not_come() -> None:
    engine = _engine(count, EVENT)
    engine.batch(_rows(("a", 60)), watermark_ms=0)
    engine.batch(None, watermark_ms=50)
    assert engine.batch(_rows(("b", 50), ("b", 51)), watermark_ms=60) == [{"n": 1, "key": "b"}]


def test_a_call_that_does_nothing_to_its_timeout_is_repeated_in_each_batch_as_in_spark() -> None:
    def stubborn(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if not state.hasTimedOut:
            state.setTimeoutDuration(10)
        yield _out(key[0], int(state.hasTimedOut))

    engine = _engine(stubborn, PROCESSING)
    engine.batch(_rows(("a", 1)), now_ms=100)
    for now_ms in (111, 112, 113):
        assert engine.batch(None, now_ms=now_ms) == [{"n": 1, "key": "a"}]


def test_an_update_without_a_timeout_ends_the_one_that_was_set() -> None:
    def once(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
        if not state.exists:
            state.setTimeoutDuration(10)
        state.update((1,))
        return [_out(key[0], int(state.hasTimedOut))]

    engine = _engine(once, PROCESSING)
    engine.batch(_rows(("a", 1)), now_ms=100)
    engine.batch(_rows(("a", 1)), now_ms=101)
    assert engine.batch(None, now_ms=999) == []


def test_a_key_without_state_may_have_a_timeout() -> None:
    def waits(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
        told = _out(key[0], int(state.exists) + 10 * int(state.hasTimedOut))
        if state.hasTimedOut:
            state.remove()
        else:
            state.setTimeoutDuration(10)
        return [told]

    engine = _engine(waits, PROCESSING)
    assert engine.batch(_rows(("a", 1)), now_ms=100) == [{"n": 0, "key": "a"}]
    assert engine.batch(None, now_ms=111) == [{"n": 10, "key": "a"}]


def test_a_state_stays_where_a_call_leaves_it() -> None:
    seen: list[object] = []

    def nothing(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
        seen.append(state.getOption)
        if not state.exists:
            state.update((7,))
        return []

    engine = _engine(nothing)
    engine.batch(_rows(("a", 1)))
    engine.batch(_rows(("a", 1)))
    engine.batch(_rows(("a", 1)))
    assert seen == [None, (7,), (7,)]


def test_a_state_with_a_new_column_is_migrated() -> None:
    states = ["n bigint"]
    engine = _engine(remember, states=states)
    engine.batch(_rows(("a", 1)))
    states.append("n bigint, more string")
    assert engine.batch(_rows(("a", 1))) == [{"n": "(1, None)", "key": "a"}]


def test_a_state_of_a_type_that_does_not_follow_is_refused_by_its_name() -> None:
    states = ["n bigint"]
    engine = _engine(remember, states=states)
    engine.batch(_rows(("a", 1)))
    states.append("n string")
    with pytest.raises(errors.SpecRejectedError, match=r"bigint.*string.*State 'state'"):
        engine.batch(_rows(("a", 1)))


def remember(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
    """Tell the state, and set one where there is none."""
    told = _out(key[0], str(state.getOption))
    if not state.exists:
        state.update((1,))
    return [told]


def test_frames_keep_the_types_of_their_columns_unless_a_null_is_among_them() -> None:
    kinds: list[str] = []

    def look(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
        kinds.extend(str(kind) for frame in given for kind in frame.dtypes)
        return []

    _engine(look).batch(_rows(("a", 1)))
    _engine(look).batch(_rows(("a", 1), n=None))
    assert kinds == ["object", "datetime64[ns]", "int64", "object", "datetime64[ns]", "float64"]


def test_frames_are_as_large_as_sparks_limit_at_most() -> None:
    sizes: list[int] = []

    def look(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
        sizes.extend(map(len, given))
        return []

    _engine(look, frame_limits=inputs.FrameLimits(rows=2)).batch(_rows(("a", 1), ("a", 2), ("a", 3)))
    _engine(look, frame_limits=inputs.FrameLimits(size_bytes=2)).batch(_rows(("a", 1), ("a", 2)))
    assert sizes == [2, 1, 1, 1]


def test_a_frame_of_a_timeout_has_the_columns_and_no_rows() -> None:
    given_at_timeout: list[pd.DataFrame] = []

    def look(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
        if state.hasTimedOut:
            given_at_timeout.extend(given)
            state.remove()
        else:
            state.setTimeoutDuration(1)
        return []

    engine = _engine(look, PROCESSING)
    engine.batch(_rows(("a", 1)), now_ms=100)
    engine.batch(None, now_ms=200)
    assert [(len(frame), list(frame.columns)) for frame in given_at_timeout] == [(0, ["key", "time", "n"])]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        pytest.param(_out("a", 1), "UDF_RETURN_TYPE.*iterable of pandas.DataFrame", id="a frame and no iterable"),
        pytest.param(None, "UDF_RETURN_TYPE.*NoneType", id="nothing"),
        pytest.param([1], "UDF_RETURN_TYPE.*iterator of int", id="an iterable of something else"),
        pytest.param([pd.DataFrame({"n": [1]})], "RESULT_COLUMN_SCHEMA_MISMATCH", id="a column is missing"),
    ],
)
def test_what_is_no_result_is_refused_with_the_words_of_spark(result: object, words: str) -> None:
    def gives(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> object:
        return result

    with pytest.raises(errors.UserCodeError, match=words):
        _engine(gives).batch(_rows(("a", 1)))  # type: ignore[arg-type]


def test_an_error_names_the_function() -> None:
    def broken(key: tuple[object, ...], given: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
        raise ValueError("no such card")

    with pytest.raises(errors.UserCodeError, match=r"broken\.__call__\(\) of keyed operator .* no such card"):
        _engine(broken).batch(_rows(("a", 1)))


def test_a_key_that_times_out_is_that_of_its_rows_also_with_structs_and_floats() -> None:
    struct = spark_types.StructType(
        [
            spark_types.StructField("x", spark_types.DoubleType()),
            spark_types.StructField("s", spark_types.StringType()),
        ]
    )
    columns = [spark_types.StructField("at", struct), spark_types.StructField("n", spark_types.IntegerType())]
    given = frames.StateFrames(spark_types.StructType(columns), ["at", "n"], pandas_options=frames.PandasOptions("UTC"))
    values = [{"x": 0.5, "s": "a"}, {"x": -1.5, "s": None}]
    kind = pa.struct([("x", pa.float64()), ("s", pa.string())])
    table = pa.table({"at": pa.array(values, kind), "n": pa.array([1, 2], pa.int32())})
    called = given.group_by_key(table)
    assert [one.spark_key for one in called] == list(zip(values, [1, 2], strict=True))
    assert [given.timed_out(one.key).spark_key for one in called] == [one.spark_key for one in called]


def test_a_timeout_that_spark_does_not_have_is_refused() -> None:
    with pytest.raises(errors.SpecRejectedError, match="Unknown timeout 'Never'; use one of NoTimeout"):
        timeouts.parse("Never")
