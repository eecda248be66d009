"""Every value of every type as input of Spark's operators: Rows and frames, or refused with the column; and as output."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import types
from statefulspark import errors, rowvalues
from statefulspark.operators.groupstate import frames as groupstate_frames
from statefulspark.operators.keyed import frames as keyed_frames
from statefulspark.operators.transform import inputs, outputs
from typematrix import kinds

Made = Callable[[list[str]], inputs.Inputs | groupstate_frames.StateFrames]


def _state_frames(names: list[str]) -> groupstate_frames.StateFrames:
    options = groupstate_frames.PandasOptions(kinds.ZONE)
    key = types.StructType([types.StructField("id", types.LongType())])
    return groupstate_frames.StateFrames(key, ["id"], pandas_options=options, names=names)


DOORS: dict[str, Made] = {
    "rows": lambda _: inputs.RowInputs(["id"]),
    "frames": lambda _: inputs.FrameInputs(["id"], 0, kinds.ZONE),
    "frames with state": _state_frames,
}


def _with_ids(values: pa.Array) -> pa.Table:
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "c": values})


def _is_bounded(column: kinds.Column) -> bool:
    """Tell whether a type is one that pandas has in nanoseconds, 292 years around 1970 or 0."""
    return bool(pa.types.is_timestamp(column.values.type) or pa.types.is_duration(column.values.type))


def test_rows_have_the_values_of_arrow() -> None:
    for column in kinds.columns():
        given = inputs.RowInputs(["id"]).group_by_key(_with_ids(column.values))
        found = [row.c for one in given for row in one.items]
        assert repr(found) == repr(column.values.to_pylist()), column.name


@pytest.mark.parametrize("door", DOORS)
def test_frames_have_every_value_that_pandas_has(door: str) -> None:
    table = kinds.frame([column for column in kinds.columns() if not _is_bounded(column)])
    given = table.add_column(0, "id", pa.array([7] * table.num_rows, pa.int64()))
    (made,) = DOORS[door](given.column_names).group_by_key(given)
    assert made.key == 7


@pytest.mark.parametrize("door", DOORS)
def test_a_time_without_a_form_is_refused_with_its_column(door: str) -> None:
    for column in kinds.leaves():
        values = [column.beyond] if column.beyond is not None else []
        if _is_bounded(column) and door != "rows":
            values.append(column.values)  # The year 1 is no point in time of pandas.
        for given in values:
            with pytest.raises(errors.SpecRejectedError, match="The column 'c'") as refused:
                DOORS[door](["id", "c"]).group_by_key(_with_ids(given))
            assert refused.value.reason == "RowUnsupported"


def test_such_a_time_is_refused_in_a_container_of_a_row_too() -> None:
    beyond = pa.array([[253_402_300_800_000_000]], pa.list_(pa.timestamp("us")))
    with pytest.raises(errors.SpecRejectedError, match="The column 'c'"):
        inputs.RowInputs(["id"]).group_by_key(_with_ids(beyond))


def test_every_value_is_an_output_of_its_type() -> None:
    for column in kinds.columns():
        schema = types.StructType([types.StructField("c", column.kind)])
        values = column.values.to_pylist(maps_as_pydicts="strict")
        plain = keyed_frames.OutputSchema(schema, "op", kinds.ZONE)
        of_rows = outputs.RowOutput(schema, "op", kinds.ZONE)
        frames = [
            plain.to_pandas([(value,) for value in values]),
            plain.to_pandas(pa.table({"c": column.values})),
            of_rows.to_pandas([of_rows.kept_row(types.Row(c=value)) for value in values]),
        ]
        for frame in frames:
            back = pa.Array.from_pandas(frame[0], type=column.values.type)
            assert repr(back.to_pylist()) == repr(column.values.to_pylist()), column.name


def test_both_points_in_time_of_a_repeated_hour_are_keys_of_a_map() -> None:
    key = pa.timestamp("us", "America/New_York")
    entries = [[(1_793_511_000_000_000, 1.5), (1_793_514_600_000_000, 2.5)]]
    plain = pa.array(entries, pa.map_(pa.int64(), pa.float64())).cast(pa.map_(key, pa.float64()))
    for around in (plain, pa.array([plain[0]]), pa.StructArray.from_arrays([plain], ["m"])):
        (value,) = rowvalues.values(around, "c")
        (found,) = value.values() if isinstance(around, pa.StructArray) else (value,)  # type: ignore[attr-defined]
        assert [at.isoformat() for at in found] == ["2026-11-01T05:30:00+00:00", "2026-11-01T06:30:00+00:00"]  # type: ignore[union-attr]

    schema = types.StructType([types.StructField("c", types.MapType(types.TimestampType(), types.DoubleType()))])
    frames = keyed_frames.OutputSchema(schema, "op", "America/New_York")
    of_rows = outputs.RowOutput(schema, "op", "America/New_York")
    (pairs,) = plain.to_pylist()
    for made in (
        frames.to_pandas([(value,) for value in rowvalues.values(plain, "c")]),
        frames.to_pandas(pa.table({"c": plain})),
        of_rows.to_pandas([of_rows.kept_row(types.Row(c=pairs))]),
    ):
        assert pa.Array.from_pandas(made[0], type=plain.type) == plain
