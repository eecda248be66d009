"""What `df.groupBy(…)` groups by: the frame, and its key as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pyspark.sql import Column, DataFrame, GroupedData

from statefulspark import errors


@dataclass(frozen=True, slots=True)
class Grouping:
    """A grouped frame.

    Attributes:
        df: The frame; keys that are no columns of the input, but expressions, come first.
        key: Names of the key columns, in the order of the grouping.
        hidden: How many of the columns were put in front.
    """

    df: DataFrame
    key: tuple[str, ...]
    hidden: int


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
    expressions = grouped._jgd.groupingExprs()
    expressions_of_spark = grouped.session._jvm.org.apache.spark.sql.classic.ExpressionUtils  # type: ignore[union-attr]
    keys, added = [], []
    for index in range(expressions.size()):
        column = cast("type", Column)(expressions_of_spark.column(expressions.apply(index)))
        name = df.select(column).columns[0]
        if name not in df.columns:
            added.append(column.alias(name))
        keys.append(name)
    if not keys:
        raise errors.SpecRejectedError("KeyMissing", f"{what} has no key: name a column in groupBy(…).")
    return Grouping(
        df.select(*added, *(df[f"`{name}`"] for name in df.columns)) if added else df, tuple(keys), len(added)
    )
