"""Which columns a function, a serializer or a sink can get: their types have a form outside of Spark, their names differ.

Spark hands columns to Python as Arrow. Year-month and calendar intervals have no Arrow type; a variant, a geography and a
geometry come as the structs of their bytes, which nothing could tell from the job's own structs. So they are refused where
the column is declared, with what to use in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from statefulspark import errors

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_IN_PARTS = re.compile(r"[.`]")
"""What makes a name more than one part of an expression."""
_CAST = "a string, as cast({} as string)"
_WAYS_OUT: dict[type[spark_types.DataType], str] = {
    spark_types.YearMonthIntervalType: _CAST,
    spark_types.CalendarIntervalType: _CAST,
    spark_types.CharType: _CAST,
    spark_types.VarcharType: _CAST,
    spark_types.VariantType: "a string, as to_json({})",
    spark_types.GeographyType: "binary, as st_asbinary({})",
    spark_types.GeometryType: "binary, as st_asbinary({})",
}
"""What to use in place of a column of a type that has no form outside of Spark."""


def quoted(name: str) -> str:
    """Return a name as Spark reads it in an expression, whatever characters it has."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


@dataclass(frozen=True, slots=True)
class _Named:
    """Calls a function with the columns' own names."""

    function: BatchFunction
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.function(batch.rename_columns(list(self.names)) for batch in batches)


def map_in_arrow(df: DataFrame, function: BatchFunction, schema: str | spark_types.StructType) -> DataFrame:
    """Return `df.mapInArrow(function, schema)`, for columns of any name.

    PySpark looks the columns up by their names: it takes `a.b` for a field of `a` if there is one, and refuses backticks.
    """
    names = tuple(df.columns)
    if not any(_IN_PARTS.search(name) for name in names):
        return df.mapInArrow(function, schema)
    return df.toDF(*map(str, range(len(names)))).mapInArrow(_Named(function, names), schema)


def formless(schema: spark_types.StructType) -> tuple[str, ...]:
    """Return the columns whose types have no form outside of Spark, each as a part of a sentence that names the way out."""
    return tuple(
        f"{path!r} is {kind.simpleString()} (use {_WAYS_OUT[type(kind)].format(path)})"
        for field in schema.fields
        for path, kind in _leaves(field.dataType, field.name)
        if type(kind) in _WAYS_OUT
    )


def require_usable(df: DataFrame, what: str) -> None:
    """Refuse a frame with columns that Python cannot get, or that Spark cannot tell apart.

    Args:
        df: The frame.
        what: What gets it, as the beginning of a sentence.

    Raises:
        InvalidArgumentError: `ColumnTypeUnsupported`, `ColumnsAmbiguous`; the message names the columns.
    """
    require_forms(df.schema, what)
    require_distinct(df.columns, what, is_case_sensitive=df.sparkSession.conf.get("spark.sql.caseSensitive") == "true")


def require_distinct(names: Sequence[str], what: str, *, is_case_sensitive: bool) -> None:
    """Refuse columns that Spark cannot tell apart.

    Args:
        names: Their names.
        what: What gets them, as the beginning of a sentence.
        is_case_sensitive: Whether Spark tells `id` from `ID`.

    Raises:
        InvalidArgumentError: `ColumnsAmbiguous`; the message names the first two.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name if is_case_sensitive else name.lower(), name)
        if other is not name or names.count(name) > 1:
            raise errors.InvalidArgumentError(
                "ColumnsAmbiguous",
                f"{what} has the columns {other!r} and {name!r}, which Spark cannot tell apart. Rename one of them with "
                "withColumnRenamed(...) before they meet, or drop it.",
            )


def require_forms(schema: spark_types.StructType, what: str) -> None:
    """Refuse columns whose types have no form outside of Spark.

    Args:
        schema: The columns.
        what: What gets them, as the beginning of a sentence.

    Raises:
        InvalidArgumentError: `ColumnTypeUnsupported`; the message names the columns.
    """
    if problems := formless(schema):
        raise errors.InvalidArgumentError(
            "ColumnTypeUnsupported",
            f"{what} has columns of types that have no form outside of Spark: {'; '.join(problems)}. Use what is named "
            "in their place, or leave them out.",
        )


def _leaves(kind: spark_types.DataType, path: str) -> Iterator[tuple[str, spark_types.DataType]]:
    """Yield the types in a type that have no parts, with the path to each."""
    if isinstance(kind, spark_types.StructType):
        for field in kind.fields:
            yield from _leaves(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, spark_types.ArrayType):
        yield from _leaves(kind.elementType, f"{path}.element")
    elif isinstance(kind, spark_types.MapType):
        yield from _leaves(kind.keyType, f"{path}.key")
        yield from _leaves(kind.valueType, f"{path}.value")
    elif isinstance(kind, spark_types.UserDefinedType):
        yield from _leaves(kind.sqlType(), path)
    else:
        yield path, kind
