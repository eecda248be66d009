"""`transform_with_state` and `transform_with_state_in_pandas`: Spark's operator on our state.

A processor that was written for `GroupedData.transformWithState` runs unchanged; the call changes. Where results differ
from Spark's is told in docs/state.md.
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
from statefulspark.operators.keyed import declaring, operator, registry
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import function, grouping, inputs, keys, lateness, limits, modes, processor
from statefulspark.state import cache, ttl

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
"""Types of keys of initial state that stand for each other."""


class _Payload(enum.Enum):
    """What a processor handles."""

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
    grouped: GroupedData,
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
        grouped: `df.groupBy(…)`.
        statefulProcessor: The processor.
        outputStructType: Columns of the Rows that it yields.
        outputMode: "Update" or "Append"; the output mode of the query.
        timeMode: "None", "ProcessingTime" or "EventTime".
        initialState: A grouped batch frame with the same key; handed over in the query's first batch.
        eventTimeColumnName: Column of the output that carries the event time on, for a stateful operator after this one.
        uid: Names the state of this operator for as long as the job lives: 1 to 63 lower-case letters, digits, `-`
            and `_`.
        options: `max_parallelism`, `cache_bytes`, `disk_bytes` and `ttl_change`, as for `keyed_process`.

    Returns:
        What the processor yielded.

    Raises:
        SpecRejectedError: An argument cannot be used; the message names it.
    """
    given = (statefulProcessor, outputStructType, outputMode, timeMode, initialState, eventTimeColumnName)
    return _transform(grouped, _Call(uid, _Payload.ROWS, *given), options)


def transform_with_state_in_pandas(
    grouped: GroupedData,
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
    return _transform(grouped, _Call(uid, _Payload.FRAMES, *given), options)


def _transform(grouped: GroupedData, call: _Call, options: operator.Options) -> DataFrame:
    output_mode, mode = modes.output_mode(call.output_mode), modes.time_mode(call.time_mode)
    registry.check_uid(call.uid)
    operator.check_instance(call.processor, stateful_processor.StatefulProcessor, "processor", call.uid)
    source = grouping.of(grouped, f"The input of keyed operator '{call.uid}'")
    check_key(source, call.uid)
    groups = operator.key_groups(source.df, call.uid, options.get("max_parallelism"))
    initial = _initial(call, source)
    key_schema = _key_schema(source)
    wrapped = function.ProcessorFunction(call.processor, mode, key_schema)
    settings = _settings(call, source, mode, options)
    handed = processor.Handed(
        rows=_inputs(call, source, settings.timezone),
        initial=None if initial is None else _inputs(call, initial, settings.timezone),
        frames=call.payload is _Payload.FRAMES,
        late=lateness.of(source.df) if mode is modes.TimeMode.EVENT_TIME else None,
        max_parallelism=groups,
    )
    registry.declare(
        uid=call.uid,
        max_parallelism=groups,
        key=source.key_names,
        key_type=settings.key_type,
        function=wrapped.name,
        declared=declaring.declared_by(
            wrapped,
            call.uid,
            method=f"{wrapped.name}.init",
            domains=settings.domains,
            ttl_change=settings.ttl_change,
        ),
    )
    packed = operator.pack_by_group(source.df, parts(source), groups, settings)
    return packed.transformWithStateInPandas(
        processor.TransformProcessor(wrapped, settings, handed),
        settings.schema,
        output_mode,
        mode.value,
        None if initial is None else operator.pack_by_group(initial.df, _parts_as(initial, source), groups, settings),
        call.event_time_column,
    )


def _settings(
    call: _Call,
    source: grouping.Grouping,
    mode: modes.TimeMode,
    options: operator.Options,
) -> keyed_processor.Settings:
    return keyed_processor.Settings(
        uid=call.uid,
        key=source.key,
        key_type=key_type(source),
        schema=operator.parse_schema(call.schema, call.uid),
        timezone=str(source.df.sparkSession.conf.get("spark.sql.session.timeZone")),
        cache_bytes=options.get("cache_bytes", cache.DEFAULT_LIMIT_BYTES),
        disk_bytes=options.get("disk_bytes"),
        domains=mode.domains,
        ttl_change=options.get("ttl_change", ttl.TtlChange.REFUSE),
        placement=registry.placement_of(call.uid),
    )


def _inputs(call: _Call, source: grouping.Grouping, timezone: str) -> inputs.Inputs:
    if call.payload is _Payload.ROWS:
        return inputs.RowInputs(source.key, source.names, source.key_types)
    most = limits.of(source.df.sparkSession)
    return inputs.FrameInputs(source.key, source.hidden, timezone, source.names, source.key_types, most)


def check_key(source: grouping.Grouping, uid: str) -> None:
    """Refuse a grouping by what cannot be a key.

    Raises:
        SpecRejectedError: A key column is none, or has a type that is no key.
    """
    operator.check_key(source.df, source.key, uid, is_key=_is_key, more=", float, double or a struct of these")


def _is_key(kind: spark_types.DataType) -> bool:
    """Tell whether values of a type are keys, or can be made ones."""
    if isinstance(kind, spark_types.StructType):
        return all(_is_key(field.dataType) for field in kind.fields)
    return isinstance(kind, keys.KEPT_AS_BITS) or operator.is_plain_key(kind)


def _parts_of(column: Column, kind: spark_types.DataType) -> list[Column]:
    """Return what a column of a key is made of; the hash of a key is that of these."""
    if not isinstance(kind, spark_types.StructType):
        return [column]
    fields = [part for field in kind.fields for part in _parts_of(column.getField(field.name), field.dataType)]
    return [sql.when(column.isNull(), sql.lit(True)), *fields]  # noqa: FBT003 - a value


def parts(source: grouping.Grouping) -> list[Column]:
    """Return what keys are made of, which their hash is taken of."""
    kinds = source.key_types
    return [
        part for name, kind in zip(source.key, kinds, strict=True) for part in _parts_of(sql.col(f"`{name}`"), kind)
    ]


def _parts_as(initial: grouping.Grouping, source: grouping.Grouping) -> list[Column]:
    """Return what keys of initial state are made of, with the types that they have in the input: those decide the hash."""
    pieces = zip(parts(initial), _types(initial), _types(source), strict=True)
    return [part if found == wanted else part.cast(wanted) for part, found, wanted in pieces]


def _types(source: grouping.Grouping) -> list[str]:
    return [part for kind in source.key_types for part in keys.type_of(kind)]


def key_type(source: grouping.Grouping) -> str:
    """Return the types of what keys are made of, as they are written down with the state."""
    return ", ".join(_types(source))


def _key_schema(source: grouping.Grouping) -> spark_types.StructType:
    named = zip(source.key_names, source.key_types, strict=True)
    return spark_types.StructType([spark_types.StructField(name, kind) for name, kind in named])


def _initial(call: _Call, source: grouping.Grouping) -> grouping.Grouping | None:
    if call.initial is None:
        return None
    initial = grouping.of(call.initial, f"The initial state of keyed operator '{call.uid}'")
    wanted, found = _types(source), _types(initial)
    pairs = zip(found, wanted, strict=False)
    if len(wanted) != len(found) or not all(one == other or {one, other} <= _INTEGERS for one, other in pairs):
        raise errors.SpecRejectedError(
            "InitialStateInvalid",
            f"The initial state of keyed operator '{call.uid}' is grouped by ({', '.join(found)}), and its input by "
            f"({', '.join(wanted)}); cast the key of the initial state.",
        )
    return initial
