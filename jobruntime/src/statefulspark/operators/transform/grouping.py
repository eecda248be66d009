"""What `df.groupBy(…)` groups by: the frame, and its key as columns.

Spark resolves what it groups by against the input: a name, in any case, is the column of that name, `s.id` is the field of
the struct, and puts what is no column of the input in front of its columns. So it may come that two columns have one name.
Here the columns of the frame have names of their own, and what a processor sees is kept beside them.
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

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_QUOTED = re.compile(r"[.`]")


@dataclass(frozen=True, slots=True)
class Grouping:
    """A grouped frame.

    Attributes:
        df: The frame; keys that are no columns of the input, but fields of structs or expressions, come first. No two of
            its columns have the same name, in whatever case.
        key: Its key columns, in the order of the grouping.
        key_names: Names of the key columns, as a processor sees them.
        names: Names of all columns of the frame, as a processor sees them.
        hidden: How many of the columns were put in front.
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


def of(grouped: object, what: str) -> Grouping:
    """Read a grouping.

    Args:
        grouped: What `groupBy` returned.
        what: What it is, for errors.

    Raises:
        SpecRejectedError: It is no grouping, or has no key.
    """
    if not isinstance(grouped, GroupedData):
        raise errors.SpecRejectedError(
            "GroupingInvalid", f"{what} must be a grouped DataFrame, df.groupBy(…), and is {grouped!r:.100}."
        )
    df = grouped._df
    columns = dict(zip(_identities(df), df.columns, strict=True))
    key: list[str] = []
    key_names: list[str] = []
    added: dict[str, Column] = {}
    added_names: list[str] = []
    for column in _columns(grouped):
        selected = df.select(column)
        (name,), (identity,) = selected.columns, _identities(selected)
        own = columns.get(identity)
        if own is None:
            own = unique(name, (*df.columns, *added))
            added[own] = column.alias(own)
            added_names.append(name)
        key.append(own)
        key_names.append(name)
    if not key:
        raise errors.SpecRejectedError("KeyMissing", f"{what} has no key: name a column in groupBy(…).")
    with_key = df.select(*added.values(), *(df[f"`{name}`"] for name in df.columns)) if added else df
    return Grouping(with_key, tuple(key), tuple(key_names), (*added_names, *df.columns), len(added))


def unique(name: str, taken: Iterable[str]) -> str:
    """Return a name for a column that no other has, in whatever case, and that needs no quotes.

    Args:
        name: The name that it would like to have.
        taken: Names that others have.
    """
    others = {other.lower() for other in taken}
    found = _QUOTED.sub("_", name)
    while found.lower() in others:
        found = f"_{found}"
    return found


def _columns(grouped: GroupedData) -> list[Column]:
    """Return what a frame is grouped by."""
    expressions = grouped._jgd.groupingExprs()
    return [_column(grouped, expressions.apply(index)) for index in range(expressions.size())]


def _column(grouped: GroupedData, expression: JavaObject) -> Column:
    if expression.getClass().getSimpleName() == "Alias" and not expression.resolved():
        # As Spark does: where the input has a column of that name, the name is all that counts.
        name = str(expression.name())
        if any(_is_same(grouped, name, column) for column in grouped._df.columns):
            return sql.col(f"`{name}`")
    expressions_of_spark = grouped.session._jvm.org.apache.spark.sql.classic.ExpressionUtils  # type: ignore[union-attr]
    return cast("Column", cast("type", Column)(expressions_of_spark.column(expression)))


def _is_same(grouped: GroupedData, one: str, other: str) -> bool:
    is_case_sensitive = grouped.session.conf.get("spark.sql.caseSensitive") == "true"
    return one == other if is_case_sensitive else one.lower() == other.lower()


def _identities(df: DataFrame) -> list[str]:
    """Return what Spark knows each column of a frame by; a column that is passed on keeps it."""
    attributes = df._jdf.queryExecution().analyzed().output()
    return [str(attributes.apply(index).exprId().toString()) for index in range(attributes.size())]
