"""`map_with_state` and `flat_map_with_state`: a plain function over rows, with one value of state per key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from statefulspark.operators.keyed import operator
from statefulspark.state import functions, ttl, valuestate
from statefulspark.state.types import conversions

S = TypeVar("S")


def map_with_state(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    function: Callable[[functions.InputRow, S | None], tuple[object, S | None]],
    uid: str,
    schema: str | spark_types.StructType,
    state_type: type[S] | conversions.Codec[S] | str | None = None,
    state_ttl: ttl.Ttl | None = None,
    **options: Unpack[operator.Options],
) -> DataFrame:
    """Turn each row into one row, with a value of state for its key (A.16).

    Args:
        df: The input.
        key: The key column, or several.
        function: Gets a row and the state of its key, None when there is none. Returns an output row and the new state;
            None clears it.
        uid: Names the state, as for `keyed_process`.
        schema: Columns of the output.
        state_type: Type of the state; without a type it accepts every value that can be stored.
        state_ttl: Time to live of the state.
        options: `max_parallelism`, `cache_bytes`, `disk_bytes` and `ttl_change`, as for `keyed_process`.

    Returns:
        One row for each row of the input; rows of one key in the order in which a batch has them.

    Raises:
        SpecRejectedError: An argument cannot be used; the message names it.
    """
    state = valuestate.ValueState("state", state_type, state_ttl)
    wrapped = functions.MapWithState(function, state)
    return operator.keyed_process(df, key=key, function=wrapped, uid=uid, schema=schema, **options)


def flat_map_with_state(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    function: Callable[[functions.InputRow, S | None], tuple[Iterable[object] | None, S | None]],
    uid: str,
    schema: str | spark_types.StructType,
    state_type: type[S] | conversions.Codec[S] | str | None = None,
    state_ttl: ttl.Ttl | None = None,
    **options: Unpack[operator.Options],
) -> DataFrame:
    """Turn each row into any number of rows, with a value of state for its key (A.16).

    Args:
        df: The input.
        key: The key column, or several.
        function: Gets a row and the state of its key, None when there is none. Returns output rows (None for none) and
            the new state; None clears it.
        uid: Names the state, as for `keyed_process`.
        schema: Columns of the output.
        state_type: Type of the state; without a type it accepts every value that can be stored.
        state_ttl: Time to live of the state.
        options: `max_parallelism`, `cache_bytes`, `disk_bytes` and `ttl_change`, as for `keyed_process`.

    Returns:
        What the function returned, rows of one key in order.

    Raises:
        SpecRejectedError: An argument cannot be used; the message names it.
    """
    state = valuestate.ValueState("state", state_type, state_ttl)
    wrapped = functions.FlatMapWithState(function, state)
    return operator.keyed_process(df, key=key, function=wrapped, uid=uid, schema=schema, **options)
