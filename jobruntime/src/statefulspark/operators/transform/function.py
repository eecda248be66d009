"""Runs a `StatefulProcessor` as a function of our keyed operator.

Per key and batch it is called with the initial state in the query's first batch, then the rows, then the due timers. All
results are collected; this module does not depend on Arrow or pandas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark.operators.transform import firing, forms, handle, keys, modes, wrapping
from statefulspark.operators.transform.modes import TimeMode
from statefulspark.state import functions


class ProcessorFunction(wrapping.WrappedFunction):
    """Runs a `StatefulProcessor` of Spark.

    Args:
        processor: The user's processor.
        mode: The time mode.
        key_schema: The key columns.

    Attributes:
        parse_schema: Parses a DDL schema; workers have no Spark session for this.
        kept: Returns what is kept of a yielded Row or frame, which the processor may change after that.
    """

    def __init__(
        self, processor: stateful_processor.StatefulProcessor, mode: TimeMode, key_schema: spark_types.StructType
    ) -> None:
        self._processor, self._mode, self._key_schema = processor, mode, key_schema
        self.parse_schema: handle.ParseSchema = cast("handle.ParseSchema", spark_types.StructType.fromDDL)
        self.kept = lambda yielded: yielded

    @property
    def name(self) -> str:
        """The processor's class."""
        return type(self._processor).__qualname__

    @property
    def deleted(self) -> frozenset[str]:
        """States that `init` deleted."""
        return frozenset(self._handle.deleted)

    @property
    def is_deletion_final(self) -> bool:
        """Whether none of them is declared again."""
        return self._handle.deleted.isdisjoint(self._handle.declared)

    def open(self, ctx: functions.BatchContext) -> None:  # type: ignore[override]  # the engine opens it
        """Initialise the processor."""
        now_ms, watermark_ms = ctx.now_ms, modes.watermark_of_spark(ctx.watermark_ms)
        event_time = self._mode is TimeMode.EVENT_TIME
        self._timers = firing.ProcessorTimers(ctx, max(0, ctx.watermark_ms) if event_time else now_ms)
        self._times = (-1, -1) if self._mode is TimeMode.NONE else (now_ms, watermark_ms)
        self._key_row = spark_types.Row(*self._key_schema.names)
        self._key_types = [field.dataType for field in self._key_schema.fields]
        self._key_forms = [forms.form_of(kind) for kind in self._key_types]
        self._handle = handle.Handle(ctx, self._timers, self._mode, self.parse_schema)
        with wrapping.USER_CODE:
            self._processor.init(self._handle)
        self._handle.state = handle.HandleState.INITIALIZED

    def initialize(self, ctx: functions.BatchContext, given: Iterable[wrapping.KeyedInput]) -> None:
        """Pass the initial state of each key to the processor, one item at a time."""
        for called in given:
            ctx.enter(called.key)
            for item in called.items:
                times = self._time_values()
                with wrapping.USER_CODE:
                    self._processor.handleInitialState(called.spark_key, item, times)
        ctx.leave()

    def rows(self, ctx: functions.BatchContext, given: Iterable[wrapping.KeyedInput]) -> list[object]:
        """Pass the rows of each key to the processor, and return its output."""
        output: list[object] = []
        call, kept, times = self._processor.handleInputRows, self.kept, self._time_values()
        with wrapping.USER_CODE:
            for key, spark_key, items in given:
                ctx.enter(key)
                output.extend(map(kept, call(spark_key, iter(items), times)))
        ctx.leave()
        return output

    def fire(self, ctx: functions.BatchContext) -> list[object]:
        """Fire the due timers of the bound key group, and return the output."""
        output: list[object] = []
        if self._mode is TimeMode.NONE:
            return output
        self._handle.state = handle.HandleState.DATA_PROCESSED
        for at_ms in self._timers.fire():
            fired = stateful_processor.ExpiredTimerInfo(at_ms)
            # Spark reads the key of a timer from its state: a Row with times as in the state.
            values = zip(self._key_forms, keys.values_of(ctx.key, self._key_types), strict=True)
            key, times = self._key_row(*[form.load(value) for form, value in values]), self._time_values()
            with wrapping.USER_CODE:
                yielded = self._processor.handleExpiredTimer(key=key, timerValues=times, expiredTimerInfo=fired)
                output.extend(map(self.kept, yielded))
        self._handle.state = handle.HandleState.INITIALIZED
        return output

    def close(self) -> None:
        """Close the processor."""
        self._handle.state = handle.HandleState.TIMER_PROCESSED
        with wrapping.USER_CODE:
            self._processor.close()

    def _time_values(self) -> stateful_processor.TimerValues:
        return stateful_processor.TimerValues(*self._times)
