"""Resolves `df.groupBy(…)`: the frame, and its key as columns.

Spark resolves grouping expressions against the input: a name, in any case, is the column of that name, `s.id` is the
field of the struct. It puts other expressions in front of the input columns, so two columns may have the same name. Here
the columns of the frame get unique names, and the names that a processor sees are kept beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

from statefulspark import errors
from statefulspark.operators import columns

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_QUOTED = re.compile(r"[.`]")


@dataclass(frozen=True, slots=True)
class Grouping:
    """A grouped frame.

    Attributes:
        df: The frame; keys that are struct fields or expressions instead of input columns come first. Its column names
            are unique, ignoring case.
        key: Its key columns, in the order of the grouping.
        key_names: Names of the key columns, as a processor sees them.
        names: Names of all columns of the frame, as a processor sees them.
        hidden: Number of columns that were put in front.
    """

    df: DataFrame
    key: tuple[str, ...]
    key_names: tuple[str, ...]
    names: tuple[str, ...]
    hidden: int

    @property
    def key_types(self) -> tuple[spark_types.DataType, ...]:
        """Types of the key columns."""
        return tuple([self.df.schema[column].dataType for column in self.key])


def resolve(grouped: object, what: str) -> Grouping:
    """Resolve a grouping.

    Args:
        grouped: The result of `groupBy`.
        what: A name for it in errors.

    Raises:
        InvalidArgumentError: It is not a grouping, or has no key; `ColumnTypeUnsupported`, `ColumnsAmbiguous`.
    """
    if not isinstance(grouped, GroupedData):
        raise errors.InvalidArgumentError(
            "GroupingInvalid", f"{what} must be a grouped DataFrame, df.groupBy(…), but is {grouped!r:.100}."
        )
    df = grouped._df
    columns.require_usable(df, what)
    names = dict(zip(_identities(df), df.columns, strict=True))
    key: list[str] = []
    key_names: list[str] = []
    added: dict[str, Column] = {}
    added_names: list[str] = []
    expressions = grouped._jgd.groupingExprs()
    for index in range(expressions.size()):
        column = _column(grouped, expressions.apply(index))
        selected = df.select(column)
        (name,), (identity,) = selected.columns, _identities(selected)
        own = names.get(identity)
        if own is None:
            own = unique(name, (*df.columns, *added))
            added[own] = column.alias(own)
            added_names.append(name)
        key.append(own)
        key_names.append(name)
    if not key:
        raise errors.InvalidArgumentError("KeyMissing", f"{what} has no key: pass a column to groupBy(…).")
    with_key = df.select(*added.values(), *(df[columns.quoted(name)] for name in df.columns)) if added else df
    return Grouping(with_key, tuple(key), tuple(key_names), (*added_names, *df.columns), len(added))


def unique(name: str, taken: Iterable[str]) -> str:
    """Return a column name that is unique ignoring case and needs no quotes.

    Args:
        name: The preferred name.
        taken: Existing names.
    """
    taken_names = {other.lower() for other in taken}
    candidate = _QUOTED.sub("_", name)
    while candidate.lower() in taken_names:
        candidate = f"_{candidate}"
    return candidate


def _column(grouped: GroupedData, expression: JavaObject) -> Column:
    if expression.getClass().getSimpleName() == "Alias" and not expression.resolved():
        # As in Spark: if the input has a column of that name, the name selects it.
        name, names = str(expression.name()), grouped._df.columns
        is_case_sensitive = grouped.session.conf.get("spark.sql.caseSensitive") == "true"
        if name in names or (not is_case_sensitive and name.lower() in map(str.lower, names)):
            return sql.col(columns.quoted(name))
    expressions_of_spark = grouped.session._jvm.org.apache.spark.sql.classic.ExpressionUtils  # type: ignore[union-attr]
    return cast("Column", cast("type", Column)(expressions_of_spark.column(expression)))


def _identities(df: DataFrame) -> list[str]:
    """Return the expression id of each column of a frame; a column that is passed on keeps it."""
    attributes = df._jdf.queryExecution().analyzed().output()
    return [str(attributes.apply(index).exprId().toString()) for index in range(attributes.size())]
