"""`apply_in_pandas_with_state`: Spark's older stateful operator on our state.

A function that was written for `GroupedData.applyInPandasWithState` runs unchanged; only the call changes. docs/state.md
lists where results differ from Spark's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import types as spark_types

from statefulspark import errors
from statefulspark.operators.groupstate import frames, function, timeouts
from statefulspark.operators.keyed import operator, registry
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import grouping, inputs, lateness, modes
from statefulspark.operators.transform import operator as transform_operator
from statefulspark.operators.transform import processor as transform_processor


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of one call."""

    uid: str
    function: function.StateFunction
    output: spark_types.StructType
    state: spark_types.StructType
    timeout: timeouts.Timeout


def apply_in_pandas_with_state(
    df: GroupedData,
    func: function.StateFunction,
    outputStructType: spark_types.StructType | str,  # noqa: N803 - Spark's name
    stateStructType: spark_types.StructType | str,  # noqa: N803 - Spark's name
    outputMode: str,  # noqa: N803 - Spark's name
    timeoutConf: str,  # noqa: N803 - Spark's name
    *,
    uid: str,
    **options: Unpack[operator.Options],
) -> DataFrame:
    """Run a function over pandas frames with a state for each key, as `df.groupBy(…).applyInPandasWithState(…)` does.

    The rows of a key in a batch come as one frame, or as several of `spark.sql.execution.arrow.maxRecordsPerBatch` rows. A
    key that has timed out comes with one empty frame.

    Args:
        df: `frame.groupBy(…)`, of a stream.
        func: Called with the key as a tuple, an iterator of frames and Spark's `GroupState`; returns an iterable of frames.
        outputStructType: Columns of the returned frames.
        stateStructType: Columns of the state.
        outputMode: "Update" or "Append"; the output mode of the query.
        timeoutConf: A member of `pyspark.sql.streaming.state.GroupStateTimeout`; fixed for the life of the state.
        uid: Names the state of this operator for as long as the job lives: 1 to 63 lower-case letters, digits, `-`
            and `_`.
        options: `max_parallelism`, `cache_bytes` and `disk_bytes`, as for `keyed_process`.

    Returns:
        The output of the function.

    Raises:
        InvalidArgumentError: An argument cannot be used; the message names it.
    """
    registry.check_uid(uid)
    output_mode = modes.output_mode(outputMode, "applyInPandasWithState")
    if not callable(func):
        raise errors.InvalidTypeError(
            "FunctionInvalid", f"The function of keyed operator '{uid}' cannot be called: it is {func!r:.100}."
        )
    call = _Call(
        uid,
        func,
        operator.parse_schema(outputStructType, uid),
        operator.parse_schema(stateStructType, uid),
        timeouts.parse(timeoutConf),
    )
    source = grouping.resolve(df, f"The input of keyed operator '{uid}'")
    transform_operator.check_key(source, uid)
    groups = operator.key_groups(source.df, uid, options.get("max_parallelism"))
    event_time = _event_time(call, source.df)
    settings = transform_operator.operator_settings(
        source, uid=uid, schema=call.output, mode=call.timeout.mode, options=options, groups=groups
    )
    wrapped = _wrapped(call, source, settings, has_watermark=event_time is not None)
    handling = transform_processor.RowHandling(
        rows=wrapped.given,
        initial=None,
        frames=True,
        late=event_time if call.timeout is timeouts.Timeout.EVENT_TIME else None,
        max_parallelism=groups,
    )
    registry.declare(
        uid=uid,
        max_parallelism=groups,
        key=source.key_names,
        key_type=settings.key_type,
        function=wrapped.name,
        declared=registry.declared_by(
            wrapped, uid, method=wrapped.name, domains=settings.domains, ttl_change=settings.ttl_change
        ),
    )
    packed = operator.pack_by_partition(source.df, transform_operator.parts(source), groups, settings)
    return packed.transformWithStateInPandas(
        function.GroupStateProcessor(wrapped, settings, handling), call.output, output_mode, call.timeout.mode.value
    )


def _event_time(call: _Call, df: DataFrame) -> lateness.EventTime | None:
    if not df.isStreaming:
        raise errors.InvalidArgumentError(
            "InputNotStreaming",
            f"The input of keyed operator '{call.uid}' is not a stream. applyInPandasWithState is unsupported in batch "
            "query. Use applyInPandas instead.",
        )
    event_time = lateness.event_time_of(df)
    if event_time is None and call.timeout is timeouts.Timeout.EVENT_TIME:
        raise errors.InvalidArgumentError(
            "WatermarkMissing",
            f"Keyed operator '{call.uid}' has {call.timeout.value}, and its input has no watermark. Watermark must be "
            "specified in the query using [Dataset/DataFrame].withWatermark() for using event-time timeout.",
        )
    return event_time


def _wrapped(
    call: _Call, source: grouping.Grouping, settings: keyed_processor.OperatorSettings, *, has_watermark: bool
) -> function.GroupStateFunction:
    session = source.df.sparkSession
    extended = str(session.conf.get(_EXTENDED_INTEGERS, "false")).lower() == "true"
    return function.GroupStateFunction(
        call.function,
        timeout=call.timeout,
        schema=call.state,
        width=len(call.output),
        given=frames.StateFrames(
            source.df.schema,
            source.key,
            pandas_options=frames.PandasOptions(settings.timezone, extended, inputs.read_limits(session)),
            names=source.names,
            hidden=source.hidden,
        ),
        has_watermark=has_watermark,
    )


_EXTENDED_INTEGERS = "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"
