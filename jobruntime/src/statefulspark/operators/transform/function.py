"""A `StatefulProcessor` as a function of our keyed operator: what it is called with, and when.

Per key and batch: the initial state in the query's first batch, then the rows, then the timers that are due. All
answers are collected; nothing here knows Arrow, pandas or the engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark import state as keyed_state
from statefulspark.operators.transform import firing, forms, handle, keys, wrapping
from statefulspark.operators.transform.modes import TimeMode


class ProcessorFunction(wrapping.WrappedFunction):
    """Runs a processor of Spark's.

    Args:
        processor: The user's.
        mode: The time mode.
        key_schema: The key columns.

    Attributes:
        parse_schema: Reads a schema that is given as DDL; workers have no Spark session to ask.
    """

    def __init__(
        self, processor: stateful_processor.StatefulProcessor, mode: TimeMode, key_schema: spark_types.StructType
    ) -> None:
        self._processor, self._mode, self._key_schema = processor, mode, key_schema
        self.parse_schema: handle.ParseSchema = _parse_on_driver

    @property
    def name(self) -> str:
        """The processor's class."""
        return type(self._processor).__qualname__

    @property
    def deleted(self) -> frozenset[str]:
        """States that `init` deleted."""
        return frozenset(self._handle.deleted)

    @property
    def deleted_for_good(self) -> bool:
        """Whether none of them is declared anew."""
        return self._handle.deleted.isdisjoint(self._handle.declared)

    def open(self, ctx: keyed_state.KeyedContext) -> None:
        """Initialise the processor."""
        times = ctx.timer_service
        # Before there is a watermark Spark has 0.
        now_ms, watermark_ms = times.current_processing_time(), max(0, times.current_watermark())
        event_time = self._mode is TimeMode.EVENT_TIME
        self._timers = firing.Timers(ctx, watermark_ms if event_time else now_ms)
        self._times = (-1, -1) if self._mode is TimeMode.NONE else (now_ms, watermark_ms)
        self._key_row = spark_types.Row(*self._key_schema.names)
        self._key_types = [field.dataType for field in self._key_schema.fields]
        self._key_forms = [forms.of(kind) for kind in self._key_types]
        self._handle = handle.Handle(ctx, self._timers, self._mode, self.parse_schema)
        with wrapping.USER_CODE:
            self._processor.init(self._handle)
        self._handle.state = handle.HandleState.INITIALIZED

    def initialize(self, ctx: keyed_state.KeyedContext, given: Iterable[wrapping.Called]) -> None:
        """Hand over initial state of each key, an item at a time."""
        for called in given:
            ctx.enter(called.key)
            for item in called.items:
                times = self._time_values()
                with wrapping.USER_CODE:
                    self._processor.handleInitialState(called.spark_key, item, times)
        ctx.leave()

    def rows(self, ctx: keyed_state.KeyedContext, given: Iterable[wrapping.Called]) -> list[object]:
        """Hand over the rows of each key, and return what came out."""
        output: list[object] = []
        call = self._processor.handleInputRows
        for called in given:
            ctx.enter(called.key)
            times = self._time_values()
            with wrapping.USER_CODE:
                output.extend(call(called.spark_key, iter(called.items), times))
        ctx.leave()
        return output

    def fire(self, ctx: keyed_state.KeyedContext) -> list[object]:
        """Fire the timers of the bound key group that are due, and return what came out."""
        output: list[object] = []
        if self._mode is TimeMode.NONE:
            return output
        self._handle.state = handle.HandleState.DATA_PROCESSED
        for at_ms in self._timers.fire():
            fired = stateful_processor.ExpiredTimerInfo(at_ms)
            key, times = self._timer_key(ctx.key), self._time_values()
            with wrapping.USER_CODE:
                output.extend(self._processor.handleExpiredTimer(key=key, timerValues=times, expiredTimerInfo=fired))
        self._handle.state = handle.HandleState.INITIALIZED
        return output

    def is_overdue(self) -> bool:
        """Tell whether timers of the bound key group are due and wait for the next batch."""
        return self._mode is not TimeMode.NONE and self._timers.is_overdue()

    def close(self) -> None:
        """Close the processor."""
        self._handle.state = handle.HandleState.TIMER_PROCESSED
        with wrapping.USER_CODE:
            self._processor.close()

    def _time_values(self) -> stateful_processor.TimerValues:
        return stateful_processor.TimerValues(*self._times)

    def _timer_key(self, key: object) -> spark_types.Row:
        # Spark reads the key of a timer from its state: a Row, with times as state has them.
        values = keys.values_of(key, self._key_types)
        return self._key_row(*[form.load(value) for form, value in zip(self._key_forms, values, strict=True)])


def _parse_on_driver(text: str) -> spark_types.StructType:
    return cast("spark_types.StructType", spark_types.StructType.fromDDL(text))
