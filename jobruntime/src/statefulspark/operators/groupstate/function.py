"""Runs a function of `applyInPandasWithState` as a function of our keyed operator.

Per key and batch it is called with the rows, then for an expired timeout. The function uses Spark's `GroupState`; its
changes are stored after its output was read to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pandas as pd
from pyspark import errors as spark_errors
from pyspark.sql import types as spark_types
from pyspark.sql.streaming.state import GroupState

from statefulspark import errors
from statefulspark import state as keyed_state
from statefulspark.operators.groupstate import frames, timeouts
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import forms, modes, wrapping
from statefulspark.operators.transform import processor as transform_processor
from statefulspark.operators.transform.wrapping import KeyedInput
from statefulspark.state import functions, valuestate

StateFunction = Callable[[tuple[Any, ...], Iterable[pd.DataFrame], GroupState], Iterable[pd.DataFrame]]
STATE = "state"
"""Name of the state."""


class GroupStateFunction(wrapping.WrappedFunction):
    """Runs a function of Spark's older operator.

    Args:
        function: The user's function.
        timeout: The kind of its timeouts.
        schema: The schema of the state.
        width: Number of columns of the output.
        given: Creates its inputs.
        has_watermark: Whether the input has a watermark.
    """

    def __init__(
        self,
        function: StateFunction,
        *,
        timeout: timeouts.Timeout,
        schema: spark_types.StructType,
        width: int,
        given: frames.StateFrames,
        has_watermark: bool,
    ) -> None:
        self._function, self._timeout, self._schema, self._width = function, timeout, schema, width
        self.given, self._has_watermark = given, has_watermark

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self._function, "__qualname__", type(self._function).__qualname__)

    def open(self, ctx: functions.BatchContext) -> None:  # type: ignore[override]  # the engine opens it
        """Declare the state."""
        self._form = forms.RowForm(self._schema)
        self._value: keyed_state.ValueState[tuple[object, ...]] = ctx.declare(
            valuestate.ValueStateDescriptor(STATE, self._form)
        )
        self._now_ms, self._watermark_ms = ctx.now_ms, modes.watermark_of_spark(ctx.watermark_ms)
        event_time = self._timeout is timeouts.Timeout.EVENT_TIME
        self._timeouts = timeouts.Timeouts(ctx, max(0, ctx.watermark_ms) if event_time else self._now_ms)

    def rows(self, ctx: functions.BatchContext, given: Iterable[KeyedInput]) -> list[object]:
        """Pass the rows of each key to the function, and return its output."""
        output: list[object] = []
        for called in given:
            ctx.enter(called.key)
            state = self._state()
            with wrapping.USER_CODE:
                output.extend(self._called(called.spark_key, iter(called.items), state))
            self._store_result(state)
        ctx.leave()
        return output

    def fire(self, ctx: functions.BatchContext) -> list[object]:
        """Call the function for expired timeouts of the bound key group, and return its output."""
        output: list[object] = []
        if self._timeout is timeouts.Timeout.NONE:
            return output
        for at_ms, key in self._timeouts.take_expired():
            ctx.enter(key)
            called, state = self.given.timed_out(key), self._state(has_timed_out=True)
            with wrapping.USER_CODE:
                output.extend(self._called(called.spark_key, called.items, state))
            self._store_result(state, kept_ms=at_ms)
        ctx.leave()
        return output

    def _state(self, *, has_timed_out: bool = False) -> GroupState:
        stored = self._value.get()
        return GroupState(
            optionalValue=None if stored is None else spark_types.Row(*self._form.load(stored)),  # type: ignore[arg-type]
            batchProcessingTimeMs=self._now_ms,
            eventTimeWatermarkMs=self._watermark_ms if self._has_watermark else GroupState.NO_TIMESTAMP,
            timeoutConf=self._timeout.value,
            hasTimedOut=has_timed_out,
            watermarkPresent=self._has_watermark,
            defined=stored is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=GroupState.NO_TIMESTAMP,
            keyAsUnsafe=b"",
            valueSchema=self._schema,
        )

    def _called(self, key: tuple[object, ...], items: Iterable[object], state: GroupState) -> Iterator[pd.DataFrame]:
        result = self._function(key, cast("Iterable[pd.DataFrame]", items), state)
        if isinstance(result, pd.DataFrame):
            raise _wrong_return("iterable of pandas.DataFrame", type(result).__name__)
        if not isinstance(result, Iterable):
            raise _wrong_return("iterable", type(result).__name__)
        return (frame for frame in map(self._checked, result) if len(frame))

    def _checked(self, frame: object) -> pd.DataFrame:
        if not isinstance(frame, pd.DataFrame):
            raise _wrong_return("iterator of pandas.DataFrame", f"iterator of {type(frame).__name__}")
        if len(frame.columns) != self._width and not (len(frame.columns) == 0 and frame.empty):
            raise spark_errors.PySparkRuntimeError(
                errorClass="RESULT_COLUMN_SCHEMA_MISMATCH",
                messageParameters={"expected": str(self._width), "actual": str(len(frame.columns))},
            )
        return frame

    def _store_result(self, state: GroupState, *, kept_ms: int | None = None) -> None:
        """Store the changes of a call; as in Spark, a call that changes neither state nor timeout keeps both."""
        at_ms = int(state._timeout_timestamp)
        has_timeout = at_ms != GroupState.NO_TIMESTAMP
        if not (state._updated or state._removed or has_timeout):
            if kept_ms is not None:
                self._timeouts.set(kept_ms)
            return
        if state.exists:
            with wrapping.USER_CODE:  # The user's value is only read here.
                stored = self._form.store(state._value)
            self._value.update(stored)
        else:
            self._value.clear()
        if has_timeout:
            self._timeouts.set(at_ms)
        elif self._timeout is not timeouts.Timeout.NONE:
            self._timeouts.clear()


def _wrong_return(expected: str, actual: str) -> spark_errors.PySparkTypeError:
    return spark_errors.PySparkTypeError(
        errorClass="UDF_RETURN_TYPE", messageParameters={"expected": expected, "actual": actual}
    )


class GroupStateProcessor(transform_processor.TransformProcessor):
    """Runs a function of `applyInPandasWithState` per key, by key group."""

    def _failed(self, method: str, where: str, error: Exception) -> errors.StatefulSparkError:
        # The user's function is the only method, for rows and timeouts alike.
        return keyed_processor.KeyedProcessor._failed(self, "__call__", where, error)
