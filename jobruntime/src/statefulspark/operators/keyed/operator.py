"""`keyed_process` and its short forms: a function over the rows of each key, with state, as a step of a streaming query.

Spark's stateful operator calls the JVM for each key and access. Here rows are grouped by partition, state is stored by key
group, and keys are processed in Python, so a batch needs a few exchanges with the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypedDict, TypeVar, Unpack

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

from statefulspark import errors
from statefulspark.evolution import parallelism
from statefulspark.operators import columns as frame_columns
from statefulspark.operators.keyed import counting, packedlog, packing, processor, registry
from statefulspark.state import cache, functions, timers, ttl, valuestate
from statefulspark.state.types import conversions

TimerChoice = Literal["event-time", "processing-time", "both"]
_TIME_MODES = {
    timers.TimeDomain.EVENT_TIME: "EventTime",
    timers.TimeDomain.PROCESSING_TIME: "ProcessingTime",
}
_OUTPUT_MODE = "Append"
"""Spark accepts this mode of the operator in queries of both modes, and before further stateful operators."""
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
    """Common options of all operators; see `keyed_process`."""

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
    cache_bytes: int = cache.DEFAULT_LIMIT_BYTES,
    disk_bytes: int | None = None,
    timers: TimerChoice | None = None,
    ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
) -> DataFrame:
    """Apply a function to the rows of each key, with state that is kept exactly once.

    All rows of a key in a batch are passed in one call, in the order of the batch. Different keys are processed in no
    particular order. The state needs Spark's RocksDB provider, which the runtime sets.

    Args:
        df: The input.
        key: The key column, or several.
        function: The function; it is copied to the workers.
        uid: Names the state of this operator for as long as the job lives: 1 to 63 lower-case letters, digits, `-`
            and `_`. State follows the uid when the query is changed.
        schema: Columns of the output, as DDL ("carrier string, delay double") or a StructType.
        max_parallelism: Number of key groups, 1 to 32768; fixed for the life of the state. When omitted, it is that of the
            restored state; for new state it is 1.5 times the partitions, rounded up to a power of two, at least 128.
        cache_bytes: Estimated memory for state in each Python worker between batches; with
            `spark.executor.pyspark.memory`, at most half of the worker's share. Other key groups are cached on the
            executor's disk, in Spark's local directory.
        disk_bytes: Disk space for them; None is all free space, 0 is none. Key groups that do not fit are rebuilt from
            the state store in each batch.
        timers: Time domains in which the function sets timers: "event-time" (the watermark of the input),
            "processing-time", or "both". With processing-time timers Spark plans a batch at every trigger, even
            without input, so set a trigger interval for the query. It is fixed for the life of the state.
        ttl_change: Whether state may be migrated when a time to live was enabled or disabled since it was written.

    Returns:
        The output of the function, as rows of `schema`.

    Raises:
        InvalidArgumentError: An argument cannot be used; the message names it.
    """
    columns = (key,) if isinstance(key, str) else tuple(key)
    registry.check_uid(uid)
    groups = key_groups(df, uid, max_parallelism)
    check_instance(function, functions.KeyedProcessFunction, "function", uid)
    check_key(df, columns, uid)
    frame_columns.require_usable(df, f"The input of keyed operator '{uid}'")
    domains = functions.timer_domains(timers, function, uid)
    type_of_key = key_type(df, columns)
    name = type(function).__qualname__
    registry.declare(
        uid=uid,
        max_parallelism=groups,
        key=columns,
        key_type=type_of_key,
        function=name,
        declared=registry.declared_by(function, uid, method=f"{name}.open", domains=domains, ttl_change=ttl_change),
    )
    settings = processor.OperatorSettings(
        uid=uid,
        key=columns,
        key_type=type_of_key,
        schema=parse_schema(schema, uid),
        timezone=str(df.sparkSession.conf.get("spark.sql.session.timeZone")),
        cache_bytes=cache_bytes,
        disk_bytes=disk_bytes,
        domains=domains,
        ttl_change=ttl_change,
        key_groups=groups,
        storage_options=registry.storage_options(),
        packs=packedlog.thresholds(df.sparkSession, registry.storage_options()),
        query_uid=registry.query_uid(),
        counted=counting.accumulator(df.sparkSession.sparkContext),
    )
    parts = [df[frame_columns.quoted(column)] for column in columns]
    return pack_by_partition(df, parts, groups, settings).transformWithStateInPandas(
        processor.KeyedProcessor(function, settings),
        settings.schema,
        _OUTPUT_MODE,
        _TIME_MODES[settings.clock] if domains else "None",
    )


def key_groups(df: DataFrame, uid: str, declared: int | None) -> int:
    """Return the number of key groups of an operator; see `registry.key_groups_of`.

    Raises:
        InvalidArgumentError: `MaxParallelismInvalid`.
    """
    partitions = int(df.sparkSession.conf.get(parallelism.SHUFFLE_PARTITIONS) or 1)
    return registry.key_groups_of(uid, declared, partitions=partitions)


def key_type(df: DataFrame, columns: tuple[str, ...]) -> str:
    """Return the types of key columns as they are stored with the state."""
    return ", ".join(df.schema[column].dataType.simpleString() for column in columns)


def pack_by_partition(
    df: DataFrame, parts: Sequence[Column], max_parallelism: int, settings: processor.OperatorSettings
) -> GroupedData:
    """Pack the rows of a frame and group them by partition, as input of an operator.

    Args:
        df: The rows.
        parts: The columns that the hash of a key is computed from.
        max_parallelism: Number of key groups.
        settings: Settings of the operator.
    """
    group_column, taken = packing.GROUP, {column.lower() for column in df.columns}
    while group_column in taken:
        group_column = f"_{group_column}"
    grouped = df.withColumn(group_column, sql.pmod(sql.hash(*parts), sql.lit(max_parallelism)))
    packed = frame_columns.map_in_arrow(grouped, packing.pack, packing.packed_schema(settings.uid))
    return packed.groupBy(packing.GROUP)


def check_instance(given: object, expected_type: type, what: str, uid: str) -> None:
    """Reject an argument of the wrong class.

    Raises:
        InvalidArgumentError: `FunctionInvalid`.
    """
    if not isinstance(given, expected_type):
        hint = " Pass an instance, not the class." if isinstance(given, type) else ""
        raise errors.InvalidTypeError(
            "FunctionInvalid",
            f"The {what} of keyed operator '{uid}' must be a {expected_type.__name__}, but is {given!r:.100}.{hint}",
        )


def is_plain_key(kind: spark_types.DataType) -> bool:
    """Tell whether a type is a key type without conversion."""
    return isinstance(kind, _KEY_TYPES)


def check_key(
    df: DataFrame,
    columns: tuple[str, ...],
    uid: str,
    *,
    is_key: Callable[[spark_types.DataType], bool] = is_plain_key,
    more: str = "",
) -> None:
    """Reject invalid key columns.

    Args:
        df: The input.
        columns: Key columns.
        uid: The operator, for errors.
        is_key: Tells whether a type is a key type.
        more: Further key types, for errors.

    Raises:
        InvalidArgumentError: There is no key column, or one is not in the input or has an unsupported type.
    """
    if not columns:
        raise errors.InvalidArgumentError("KeyMissing", f"Keyed operator '{uid}' has no key column.")
    for column in columns:
        if column not in df.columns:
            raise errors.InvalidArgumentError(
                "KeyColumnUnknown",
                f"Keyed operator '{uid}' has the key column '{column}', but its input has only {', '.join(df.columns)}.",
            )
        kind = df.schema[column].dataType
        if not is_key(kind):
            raise errors.InvalidArgumentError(
                "KeyTypeUnsupported",
                f"Keyed operator '{uid}' has the key column '{column}' of type {kind.simpleString()}. A key is a string, "
                f"binary, boolean, integer, decimal, date or timestamp{more}, or several of these; cast it first.",
            )


def parse_schema(schema: str | spark_types.StructType, uid: str) -> spark_types.StructType:
    """Return the output schema.

    Raises:
        InvalidArgumentError: It has no columns, or one of a type that Python has no form of.
    """
    parsed = spark_types.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, spark_types.StructType) or not parsed.fields:
        raise errors.InvalidArgumentError(
            "OutputSchemaInvalid", f"Keyed operator '{uid}' needs an output schema such as 'carrier string, n bigint'."
        )
    frame_columns.require_forms(parsed, f"The output of keyed operator '{uid}'")
    return parsed


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
    **options: Unpack[Options],
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
        InvalidArgumentError: An argument cannot be used; the message names it.
    """
    state = valuestate.ValueStateDescriptor("state", state_type, state_ttl)
    wrapped = functions.MapWithState(function, state)
    return keyed_process(df, key=key, function=wrapped, uid=uid, schema=schema, **options)


def flat_map_with_state(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    function: Callable[[functions.InputRow, S | None], tuple[Iterable[object] | None, S | None]],
    uid: str,
    schema: str | spark_types.StructType,
    state_type: type[S] | conversions.Codec[S] | str | None = None,
    state_ttl: ttl.Ttl | None = None,
    **options: Unpack[Options],
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
        InvalidArgumentError: An argument cannot be used; the message names it.
    """
    state = valuestate.ValueStateDescriptor("state", state_type, state_ttl)
    wrapped = functions.FlatMapWithState(function, state)
    return keyed_process(df, key=key, function=wrapped, uid=uid, schema=schema, **options)
