"""`transform_with_state` and `transform_with_state_in_pandas`: Spark's operator on our state.

A processor that was written for `GroupedData.transformWithState` runs unchanged; only the call changes. docs/state.md
lists where results differ from Spark's.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Unpack

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark import errors
from statefulspark.operators import columns
from statefulspark.operators.keyed import operator, packedlog, registry
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import function, grouping, inputs, keys, lateness, modes, processor
from statefulspark.state import cache, ttl

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
"""Key types of initial state that are interchangeable."""


class _Payload(enum.Enum):
    """The input type of a processor."""

    ROWS = "rows"
    """Rows of Spark."""
    FRAMES = "frames"
    """Frames of pandas."""


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of one call."""

    uid: str
    payload: _Payload
    processor: stateful_processor.StatefulProcessor
    schema: spark_types.StructType | str
    output_mode: str
    time_mode: str
    initial: GroupedData | None
    event_time_column: str


def transform_with_state(
    df: GroupedData,
    statefulProcessor: stateful_processor.StatefulProcessor,  # noqa: N803 - Spark's name
    outputStructType: spark_types.StructType | str,  # noqa: N803 - Spark's name
    outputMode: str,  # noqa: N803 - Spark's name
    timeMode: str,  # noqa: N803 - Spark's name
    initialState: GroupedData | None = None,  # noqa: N803 - Spark's name
    eventTimeColumnName: str = "",  # noqa: N803 - Spark's name
    *,
    uid: str,
    **options: Unpack[operator.Options],
) -> DataFrame:
    """Run a processor of Spark's over Rows, as `df.groupBy(…).transformWithState(…)` does.

    Args:
        df: `frame.groupBy(…)`.
        statefulProcessor: The processor.
        outputStructType: Columns of the Rows that it yields.
        outputMode: "Update" or "Append"; the output mode of the query.
        timeMode: "None", "ProcessingTime" or "EventTime".
        initialState: A grouped batch frame with the same key; passed to the processor in the query's first batch.
        eventTimeColumnName: Event-time column of the output, for a stateful operator after this one.
        uid: Names the state of this operator for as long as the job lives: 1 to 63 lower-case letters, digits, `-`
            and `_`.
        options: `max_parallelism`, `cache_bytes`, `disk_bytes` and `ttl_change`, as for `keyed_process`.

    Returns:
        The output of the processor.

    Raises:
        InvalidArgumentError: An argument cannot be used; the message names it.
    """
    given = (statefulProcessor, outputStructType, outputMode, timeMode, initialState, eventTimeColumnName)
    return _transform(df, _Call(uid, _Payload.ROWS, *given), options)


def transform_with_state_in_pandas(
    df: GroupedData,
    statefulProcessor: stateful_processor.StatefulProcessor,  # noqa: N803 - Spark's name
    outputStructType: spark_types.StructType | str,  # noqa: N803 - Spark's name
    outputMode: str,  # noqa: N803 - Spark's name
    timeMode: str,  # noqa: N803 - Spark's name
    initialState: GroupedData | None = None,  # noqa: N803 - Spark's name
    eventTimeColumnName: str = "",  # noqa: N803 - Spark's name
    *,
    uid: str,
    **options: Unpack[operator.Options],
) -> DataFrame:
    """Run a processor of Spark's over pandas frames, as `df.groupBy(…).transformWithStateInPandas(…)` does.

    The rows of a key in a batch come as one frame, or as several of `spark.sql.execution.arrow.maxRecordsPerBatch` rows
    (and `maxBytesPerBatch`). Arguments, result and errors are those of `transform_with_state`.
    """
    given = (statefulProcessor, outputStructType, outputMode, timeMode, initialState, eventTimeColumnName)
    return _transform(df, _Call(uid, _Payload.FRAMES, *given), options)


def _transform(grouped: GroupedData, call: _Call, options: operator.Options) -> DataFrame:
    output_mode, mode = modes.output_mode(call.output_mode), modes.time_mode(call.time_mode)
    registry.check_uid(call.uid)
    operator.check_instance(call.processor, stateful_processor.StatefulProcessor, "processor", call.uid)
    source = grouping.resolve(grouped, f"The input of keyed operator '{call.uid}'")
    check_key(source, call.uid)
    groups = operator.key_groups(source.df, call.uid, options.get("max_parallelism"))
    initial = _initial(call, source)
    named_types = zip(source.key_names, source.key_types, strict=True)
    key_schema = spark_types.StructType([spark_types.StructField(name, kind) for name, kind in named_types])
    wrapped = function.ProcessorFunction(call.processor, mode, key_schema)
    schema = operator.parse_schema(call.schema, call.uid)
    settings = operator_settings(source, uid=call.uid, schema=schema, mode=mode, options=options, groups=groups)
    handling = processor.RowHandling(
        rows=_inputs(call, source, settings.timezone),
        initial=None if initial is None else _inputs(call, initial, settings.timezone),
        frames=call.payload is _Payload.FRAMES,
        late=lateness.event_time_of(source.df) if mode is modes.TimeMode.EVENT_TIME else None,
        max_parallelism=groups,
    )
    registry.declare(
        uid=call.uid,
        max_parallelism=groups,
        key=source.key_names,
        key_type=settings.key_type,
        function=wrapped.name,
        declared=registry.declared_by(
            wrapped,
            call.uid,
            method=f"{wrapped.name}.init",
            domains=settings.domains,
            ttl_change=settings.ttl_change,
        ),
    )
    packed = operator.pack_by_partition(source.df, parts(source), groups, settings)
    return packed.transformWithStateInPandas(
        processor.TransformProcessor(wrapped, settings, handling),
        settings.schema,
        output_mode,
        mode.value,
        None
        if initial is None
        else operator.pack_by_partition(initial.df, _parts_as(initial, source), groups, settings),
        call.event_time_column,
    )


def operator_settings(
    source: grouping.Grouping,
    *,
    uid: str,
    schema: spark_types.StructType,
    mode: modes.TimeMode,
    options: operator.Options,
    groups: int,
) -> keyed_processor.OperatorSettings:
    """Return the settings of an operator over a grouped frame."""
    session, storage_options = source.df.sparkSession, registry.storage_options()
    return keyed_processor.OperatorSettings(
        uid=uid,
        key=source.key,
        key_type=", ".join(_types(source)),
        schema=schema,
        timezone=str(session.conf.get("spark.sql.session.timeZone")),
        cache_bytes=options.get("cache_bytes", cache.DEFAULT_LIMIT_BYTES),
        disk_bytes=options.get("disk_bytes"),
        domains=mode.domains,
        ttl_change=options.get("ttl_change", ttl.TtlChange.REFUSE),
        key_groups=groups,
        storage_options=storage_options,
        packs=packedlog.thresholds(session, storage_options),
    )


def _inputs(call: _Call, source: grouping.Grouping, timezone: str) -> inputs.Inputs:
    if call.payload is _Payload.ROWS:
        return inputs.RowInputs(source.key, source.names, source.key_types)
    most = inputs.read_limits(source.df.sparkSession)
    return inputs.FrameInputs(source.key, source.hidden, timezone, source.names, source.key_types, most)


def check_key(source: grouping.Grouping, uid: str) -> None:
    """Reject invalid key columns of a grouping.

    Raises:
        InvalidArgumentError: There is no key column, or one has an unsupported type.
    """
    operator.check_key(source.df, source.key, uid, is_key=_is_key, more=", float, double or a struct of these")


def _is_key(kind: spark_types.DataType) -> bool:
    """Tell whether values of a type are keys or can be converted to keys."""
    if isinstance(kind, spark_types.StructType):
        return all(_is_key(field.dataType) for field in kind.fields)
    return isinstance(kind, keys.STORED_AS_BITS) or operator.is_plain_key(kind)


def _parts_of(column: Column, kind: spark_types.DataType) -> list[Column]:
    """Return the parts of a key column; the hash of a key is computed from them."""
    if not isinstance(kind, spark_types.StructType):
        return [column]
    fields = [part for field in kind.fields for part in _parts_of(column.getField(field.name), field.dataType)]
    return [sql.when(column.isNull(), sql.lit(True)), *fields]  # noqa: FBT003 - a value


def parts(source: grouping.Grouping) -> list[Column]:
    """Return the parts of all key columns; the hash of a key is computed from them."""
    kinds = source.key_types
    named = zip(source.key, kinds, strict=True)
    return [part for name, kind in named for part in _parts_of(sql.col(columns.quoted(name)), kind)]


def _parts_as(initial: grouping.Grouping, source: grouping.Grouping) -> list[Column]:
    """Return the key parts of initial state, cast to the types of the input, which determine the hash."""
    pieces = zip(parts(initial), _types(initial), _types(source), strict=True)
    return [part if initial_type == input_type else part.cast(input_type) for part, initial_type, input_type in pieces]


def _types(source: grouping.Grouping) -> list[str]:
    return [part for kind in source.key_types for part in keys.type_of(kind)]


def _initial(call: _Call, source: grouping.Grouping) -> grouping.Grouping | None:
    if call.initial is None:
        return None
    initial = grouping.resolve(call.initial, f"The initial state of keyed operator '{call.uid}'")
    input_types, initial_types = _types(source), _types(initial)
    pairs = zip(initial_types, input_types, strict=False)
    if len(input_types) != len(initial_types) or not all(
        initial_type == input_type or {initial_type, input_type} <= _INTEGERS for initial_type, input_type in pairs
    ):
        raise errors.InvalidArgumentError(
            "InitialStateInvalid",
            f"The initial state of keyed operator '{call.uid}' is grouped by ({', '.join(initial_types)}), but its input by "
            f"({', '.join(input_types)}); cast the key of the initial state.",
        )
    return initial
