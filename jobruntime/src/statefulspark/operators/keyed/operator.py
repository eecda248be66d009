"""`keyed_process`: a function over the rows of each key, with state, as a step of a streaming query.

Spark's own stateful operator asks the JVM once per key and call. Here rows are grouped by key group, so a batch costs
a few calls per key group, and the keys are worked on in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

from statefulspark import errors
from statefulspark.evolution import parallelism
from statefulspark.operators.keyed import declaring, packing, processor, registry
from statefulspark.state import cache, functions, ttl
from statefulspark.state import timers as state_timers

TimerChoice = Literal["event-time", "processing-time", "both"]
_TIME_MODES = {
    state_timers.TimeDomain.EVENT_TIME: "EventTime",
    state_timers.TimeDomain.PROCESSING_TIME: "ProcessingTime",
}

_KEY_TYPES = (
    spark_types.StringType,
    spark_types.BinaryType,
    spark_types.BooleanType,
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.DateType,
    spark_types.TimestampType,
    spark_types.TimestampNTZType,
    spark_types.DecimalType,
)


class Options(TypedDict, total=False):
    """What every form of the operator passes on; see `keyed_process`."""

    max_parallelism: int | None
    cache_bytes: int
    disk_bytes: int | None
    ttl_change: ttl.TtlChange


def keyed_process(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    function: functions.KeyedProcessFunction,
    uid: str,
    schema: str | spark_types.StructType,
    max_parallelism: int | None = None,
    output_mode: Literal["update", "append"] = "update",
    cache_bytes: int = cache.DEFAULT_LIMIT_BYTES,
    disk_bytes: int | None = None,
    timers: TimerChoice | None = None,
    ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
) -> DataFrame:
    """Apply a function to the rows of each key, with state that is kept exactly once.

    All rows of a key in a batch come in one call, in the order in which the batch has them. Rows of different keys
    come in no particular order. The state needs Spark's RocksDB provider, which the runtime sets.

    Args:
        df: The input.
        key: The key column, or several.
        function: What to do; it is copied to the workers.
        uid: Names the state of this operator for as long as the job lives: 1 to 63 lower-case letters, digits, `-`
            and `_`. State follows the uid when the query is changed.
        schema: Columns of the output, as DDL ("carrier string, delay double") or a StructType.
        max_parallelism: Number of key groups, 1 to 32768; fixed for the life of the state. When omitted, it is what the
            restored state has, and for new state half as many again as partitions, up to a power of two, at least 128.
        output_mode: Must be the output mode of the query; `append` allows further stateful operators after this one.
        cache_bytes: Memory that state may take in each Python worker between batches, estimated; where
            `spark.executor.pyspark.memory` is set, half a worker's share of it at most. Key groups beyond that wait on
            the executor's disk, in Spark's local directory.
        disk_bytes: Disk that they may take there; None is as much as is free, 0 is none. What has no place there is
            built anew from the state store in each batch.
        timers: Time domains in which the function sets timers: "event-time" (the watermark of the input),
            "processing-time", or "both". With processing-time timers Spark plans a batch at every trigger, also
            without input, so give the query a trigger interval. It is fixed for the life of the state.
        ttl_change: Whether state may be migrated when a time to live was switched on or off since it was written.

    Returns:
        What the function yielded, as rows of `schema`.

    Raises:
        SpecRejectedError: An argument cannot be used; the message names it.
    """
    columns = (key,) if isinstance(key, str) else tuple(key)
    registry.check_uid(uid)
    groups = key_groups(df, uid, max_parallelism)
    check_instance(function, functions.KeyedProcessFunction, "function", uid)
    check_key(df, columns, uid)
    domains = _check_timers(timers, function, uid)
    type_of_key = key_type(df, columns)
    name = type(function).__qualname__
    registry.declare(
        uid=uid,
        max_parallelism=groups,
        key=columns,
        key_type=type_of_key,
        function=name,
        declared=declaring.declared_by(function, uid, method=f"{name}.open", domains=domains, ttl_change=ttl_change),
    )
    settings = processor.Settings(
        uid=uid,
        key=columns,
        key_type=type_of_key,
        schema=parse_schema(schema, uid),
        timezone=str(df.sparkSession.conf.get("spark.sql.session.timeZone")),
        cache_bytes=cache_bytes,
        disk_bytes=disk_bytes,
        domains=domains,
        ttl_change=ttl_change,
        placement=registry.placement_of(uid),
        key_groups=groups,
    )
    parts = [df[f"`{column}`"] for column in columns]
    return pack_by_group(df, parts, groups, settings).transformWithStateInPandas(
        processor.KeyedProcessor(function, settings),
        settings.schema,
        output_mode.capitalize(),
        _TIME_MODES[settings.clock] if domains else "None",
    )


def key_groups(df: DataFrame, uid: str, declared: int | None) -> int:
    """Return how many key groups an operator has; see `registry.key_groups_of`.

    Raises:
        SpecRejectedError: `MaxParallelismInvalid`.
    """
    partitions = int(df.sparkSession.conf.get(parallelism.SHUFFLE_PARTITIONS) or 1)
    return registry.key_groups_of(uid, declared, partitions=partitions)


def key_type(df: DataFrame, columns: tuple[str, ...]) -> str:
    """Return the types of key columns as they are written down with the state."""
    return ", ".join(df.schema[column].dataType.simpleString() for column in columns)


def pack_by_group(
    df: DataFrame, parts: Sequence[Column], max_parallelism: int, settings: processor.Settings
) -> GroupedData:
    """Return the rows of a frame, packed and grouped by key group, on the way to an operator.

    Args:
        df: The rows.
        parts: What keys are made of, which their hash is taken of.
        max_parallelism: Number of key groups.
        settings: Of the operator.
    """
    last, taken = packing.GROUP, {column.lower() for column in df.columns}
    while last in taken:
        last = f"_{last}"
    grouped = df.withColumn(last, sql.pmod(sql.hash(*parts), sql.lit(max_parallelism)))
    packer = packing.Packer(settings.placement)
    return grouped.mapInArrow(packer, packing.packed_schema(settings.uid)).groupBy(packing.GROUP)


def _check_timers(
    chosen: str | None, function: functions.KeyedProcessFunction, uid: str
) -> frozenset[state_timers.TimeDomain]:
    if chosen is not None and isinstance(function, functions.VectorizedProcessFunction):
        raise errors.SpecRejectedError(
            "TimersInvalid",
            f"Keyed operator '{uid}' has a VectorizedProcessFunction, which has no timers; leave timers out.",
        )
    if chosen is None:
        if type(function).on_timer is functions.KeyedProcessFunction.on_timer:
            return frozenset()
        raise errors.SpecRejectedError(
            "TimersNotDeclared",
            f"{type(function).__qualname__} of keyed operator '{uid}' has an on_timer(), and keyed_process() was not "
            'told which timers it uses: pass timers="event-time", "processing-time" or "both".',
        )
    domains = state_timers.TIMER_CHOICES.get(chosen)
    if domains is None:
        raise errors.SpecRejectedError(
            "TimersInvalid",
            f"Keyed operator '{uid}' was given timers={chosen!r}; it is one of "
            f"{', '.join(map(repr, state_timers.TIMER_CHOICES))}, or None.",
        )
    return domains


def check_instance(given: object, wanted: type, what: str, uid: str) -> None:
    """Refuse something else than what an operator runs.

    Raises:
        SpecRejectedError: `FunctionInvalid`.
    """
    if not isinstance(given, wanted):
        hint = " Pass an instance, not the class." if isinstance(given, type) else ""
        raise errors.SpecRejectedError(
            "FunctionInvalid",
            f"The {what} of keyed operator '{uid}' must be a {wanted.__name__}, and is {given!r:.100}.{hint}",
        )


def is_plain_key(kind: spark_types.DataType) -> bool:
    """Tell whether values of a type are keys as they are."""
    return isinstance(kind, _KEY_TYPES)


def check_key(
    df: DataFrame,
    columns: tuple[str, ...],
    uid: str,
    *,
    is_key: Callable[[spark_types.DataType], bool] = is_plain_key,
    more: str = "",
) -> None:
    """Refuse key columns that state cannot be kept by.

    Args:
        df: The input.
        columns: Key columns.
        uid: The operator, for errors.
        is_key: Tells whether a type is one of a key.
        more: What types are, besides those that are keys as they are; for errors.

    Raises:
        SpecRejectedError: There is none, one is not in the input, or has a type that is no key.
    """
    if not columns:
        raise errors.SpecRejectedError("KeyMissing", f"Keyed operator '{uid}' names no key column.")
    for column in columns:
        if column not in df.columns:
            raise errors.SpecRejectedError(
                "KeyColumnUnknown",
                f"Keyed operator '{uid}' has the key column '{column}', and its input has only {', '.join(df.columns)}.",
            )
        kind = df.schema[column].dataType
        if not is_key(kind):
            raise errors.SpecRejectedError(
                "KeyTypeUnsupported",
                f"Keyed operator '{uid}' has the key column '{column}' of type {kind.simpleString()}. A key is a string, "
                f"binary, boolean, integer, decimal, date or timestamp{more}, or several of these; cast it first.",
            )


def parse_schema(schema: str | spark_types.StructType, uid: str) -> spark_types.StructType:
    """Return the output schema.

    Raises:
        SpecRejectedError: It has no columns.
    """
    parsed = spark_types.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, spark_types.StructType) or not parsed.fields:
        raise errors.SpecRejectedError(
            "OutputSchemaInvalid", f"Keyed operator '{uid}' needs an output schema such as 'carrier string, n bigint'."
        )
    return parsed
