"""Columns of types that have no form outside of Spark are refused by name, each with what to use in its place."""

from __future__ import annotations

import pytest
from pyspark.sql import types
from statefulspark import errors
from statefulspark.operators import columns
from statefulspark.operators.keyed import operator
from typematrix import kinds


def around(kind: types.DataType) -> types.StructType:
    """Return a schema in which a type is at the top, and in an array of maps of structs, as key and as value."""
    inside = types.StructType([types.StructField("a", kind)])
    deep = types.ArrayType(types.MapType(inside, inside))
    return types.StructType([types.StructField("top", kind), types.StructField("deep", deep)])


@pytest.mark.parametrize("kind", kinds.FORMLESS, ids=types.DataType.simpleString)
def test_a_type_without_a_form_is_refused_wherever_it_stands(kind: types.DataType) -> None:
    problems = columns.formless(around(kind))
    ways_out = {"a string, as cast({} as string)", "a string, as to_json({})", "binary, as st_asbinary({})"}
    for problem, path in zip(problems, ("top", "deep.element.key.a", "deep.element.value.a"), strict=True):
        assert any(problem == f"{path!r} is {kind.simpleString()} (use {way.format(path)})" for way in ways_out), (
            problem
        )


def test_every_other_type_is_taken_wherever_it_stands() -> None:
    for column in kinds.columns():
        assert columns.formless(around(column.kind)) == (), column.name


def test_an_output_of_such_a_type_is_refused_where_it_is_declared() -> None:
    with pytest.raises(errors.SpecRejectedError) as refused:
        operator.parse_schema(types.StructType([types.StructField("word", types.VarcharType(3))]), "words")
    assert refused.value.reason == "ColumnTypeUnsupported"
    assert refused.value.message == (
        "The output of keyed operator 'words' has columns of types that have no form outside of Spark: 'word' is "
        "varchar(3) (use a string, as cast(word as string)). Use what is named in their place, or leave them out."
    )


@pytest.mark.parametrize(
    ("names", "is_case_sensitive", "told"),
    [
        (["id", "n", "ID"], False, "'id' and 'ID'"),
        (["Straße", "STRASSE"], False, None),
        (["id", "ID"], True, None),
        (["id", "id"], True, "'id' and 'id'"),
    ],
)
def test_columns_that_spark_cannot_tell_apart_are_refused(
    names: list[str], told: str | None, *, is_case_sensitive: bool
) -> None:
    if told is None:
        columns.require_distinct(names, "The input", is_case_sensitive=is_case_sensitive)
        return
    with pytest.raises(errors.SpecRejectedError, match=f"The input has the columns {told}, which") as refused:
        columns.require_distinct(names, "The input", is_case_sensitive=is_case_sensitive)
    assert refused.value.reason == "ColumnsAmbiguous"
