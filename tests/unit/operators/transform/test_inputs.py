"""Rows and frames by key are those that Spark's operator hands over, and late rows are not among them."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql import Row
from statefulspark.operators.transform import inputs, lateness

UTC = datetime.UTC
TABLE = pa.table(
    {
        "odd": pa.array([1, 0, 1]),
        "key": pa.array(["a", "b", None]),
        "n": pa.array([1, None, 3], pa.int64()),
        "tags": pa.array([[("x", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    }
)


def _moments(*milliseconds: int | None, zone: str | None = "UTC") -> pa.Array:
    return pa.array([None if at is None else at * 1000 for at in milliseconds], pa.timestamp("us", zone))


def test_rows_have_every_column_and_come_by_key() -> None:
    called = inputs.RowInputs(["odd", "key"]).group_by_key(TABLE)
    assert [(one.key, one.spark_key, one.items) for one in called] == [
        ((1, "a"), (1, "a"), [Row(odd=1, key="a", n=1, tags=[("x", 1)])]),
        ((0, "b"), (0, "b"), [Row(odd=0, key="b", n=None, tags=None)]),
        ((1, None), (1, None), [Row(odd=1, key=None, n=3, tags=[])]),
    ]
    assert called[0].items[0].asDict()["n"] == 1  # type: ignore[attr-defined]


def test_a_key_of_one_column_is_a_tuple_for_the_processor() -> None:
    called = inputs.RowInputs(["odd"]).group_by_key(TABLE)
    assert [(one.key, one.spark_key, len(one.items)) for one in called] == [(1, (1,), 2), (0, (0,), 1)]


def test_frames_leave_out_keys_that_the_input_does_not_have() -> None:
    called = inputs.FrameInputs(["odd"], 1, "UTC").group_by_key(TABLE)
    frames = [one.items[0] for one in called]
    assert [list(frame.columns) for frame in frames] == [["key", "n", "tags"]] * 2  # type: ignore[attr-defined]
    assert frames[0]["n"].tolist() == [1.0, 3.0]  # type: ignore[index]


def test_two_columns_may_have_one_name() -> None:
    table, names = TABLE.select(["odd", "key"]), ["key", "key"]
    row = inputs.RowInputs(["odd"], names).group_by_key(table)[0].items[0]
    assert list(row.__fields__) == names  # type: ignore[attr-defined]
    frame = inputs.FrameInputs(["odd"], 1, "UTC", names).group_by_key(table)[0].items[0]
    assert frame.columns.tolist() == ["_1"]  # type: ignore[attr-defined]  # as Spark calls it


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        pytest.param(inputs.FrameLimits(), [5, 1], id="without limits a key has one frame"),
        pytest.param(inputs.FrameLimits(rows=2), [2, 2, 1, 1], id="by rows"),
        pytest.param(inputs.FrameLimits(rows=2, size_bytes=1), [1] * 6, id="a single row may exceed the bytes"),
        pytest.param(inputs.FrameLimits(size_bytes=48), [3, 2, 1], id="by bytes, of which a row here has 16"),
    ],
)
def test_frames_are_as_large_as_spark_lets_them_be(limit: inputs.FrameLimits, sizes: list[int]) -> None:
    table = pa.table({"key": pa.array([1, 1, 1, 2, 1, 1]), "n": pa.array(range(6), pa.int64())})
    called = inputs.FrameInputs(["key"], 0, "UTC", limits=limit).group_by_key(table)
    assert [len(frame) for one in called for frame in one.items] == sizes  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("watermark_ms", "kept"),
    [
        pytest.param(None, [0, 1, 1000, 1001, None], id="no watermark is known"),
        pytest.param(0, [1, 1000, 1001, None], id="Spark starts at 0"),
        pytest.param(1000, [1001, None], id="a row at the watermark is late, one without a time is not"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", None], ids=["with a zone", "without"])
def test_late_rows_are_dropped(watermark_ms: int | None, kept: list[int | None], zone: str | None) -> None:
    moments = [0, 1, 1000, 1001, None]
    table = pa.table({"time": _moments(*moments, zone=zone), "at": pa.array(moments)})
    assert lateness.EventTime("time", is_window=False).on_time(table, watermark_ms)["at"].to_pylist() == kept


def test_the_end_of_a_window_counts() -> None:
    windows = pa.StructArray.from_arrays([_moments(0, 500), _moments(1000, 1500)], ["start", "end"])
    table = pa.table({"window": windows, "at": pa.array([0, 500])})
    assert lateness.EventTime("window", is_window=True).on_time(table, 1000)["at"].to_pylist() == [500]
