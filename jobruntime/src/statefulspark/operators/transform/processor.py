"""The stateful processor that runs a user's processor by key group: initial state, late rows, and timers.

It extends `keyed.processor` with the semantics of Spark: rows before the watermark are dropped, initial state is passed in
the first batch, and timers that are set in a callback fire in the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql.streaming import stateful_processor
from pyspark.sql.streaming import stateful_processor_api_client as client

from statefulspark import errors
from statefulspark.contract import watermark
from statefulspark.operators.keyed import log, packing, processor
from statefulspark.operators.transform import deleting, inputs, lateness, wrapping
from statefulspark.state import functions, keygroups, store
from statefulspark.storage import StorageOptions

if TYPE_CHECKING:
    import pandas as pd

_METHODS = {"open": "init", "process": "handleInputRows", "on_timer": "handleExpiredTimer"}


@dataclass(frozen=True, slots=True)
class RowHandling:
    """Conversion of input and output rows.

    Attributes:
        rows: Converts input rows.
        initial: Converts initial state; None without initial state.
        frames: Whether the output is pandas frames instead of Rows.
        late: Drops late rows; None keeps all rows.
        max_parallelism: Number of key groups.
    """

    rows: inputs.Inputs
    initial: inputs.Inputs | None
    frames: bool
    late: lateness.EventTime | None
    max_parallelism: int = keygroups.DEFAULT_MAX_PARALLELISM


class TransformProcessor(processor.KeyedProcessor):
    """Runs a `StatefulProcessor` per key, by key group.

    Args:
        wrapped: The user's processor, as a function.
        settings: How the operator runs.
        handed: How rows go in and out.
    """

    def __init__(
        self, wrapped: wrapping.WrappedFunction, settings: processor.OperatorSettings, handling: RowHandling
    ) -> None:
        super().__init__(wrapped, settings)
        self._wrapped, self._handling = wrapped, handling
        self._initializes = False
        self._frame_rows = 1 if handling.frames else self._frame_rows

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        of_spark = _Log(handle, self._settings.uid, self._settings.storage_options)
        self._use(of_spark)
        self._wakes_ms = of_spark.wakes_ms
        self._client = handle._statefulProcessorApiClient
        self._wrapped.parse_schema = self._client._parse_string_schema
        if self._handling.late is not None:
            self._watermarks = lateness.WatermarkLog(handle, self._spark.server, self._settings.uid)

    def handleInitialState(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        initialState: pd.DataFrame,  # noqa: N803 - Spark's name
        timerValues: object,  # noqa: N803 - Spark's name
    ) -> None:
        """Pass the initial state of a key group to the processor; its rows may follow."""
        self._initializes = True
        partition = packing.PartitionRows(initialState[packing.ROWS])
        groups = partition.groups
        with self._internal_errors():
            for _ in self._process_rows(partition):
                pass
            self._spark.server.flush()
        self._initializes = False
        # Timers that are already due fire after the rows; without rows Spark calls handleExpiredTimer.
        self._done.difference_update(groups)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        timerValues: object,  # noqa: N803 - Spark's name
        expiredTimerInfo: object,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Process the timers of a key group without rows in this batch."""
        yield from super().handleExpiredTimer(key, timerValues, expiredTimerInfo)
        group = keygroups.marked(int(key[0]))
        at_ms = cast("stateful_processor.ExpiredTimerInfo", expiredTimerInfo).getExpiryTimeInMs()
        if self._wakes_ms.get(group) == at_ms:
            # Spark removes the timer that fired, and due timers of the processor wait for it: one before it wakes the next
            # batch. Any other stays, so a key group keeps one, however many batches have due timers.
            self._log.enter(group)
            self._spark.wake_at(at_ms - 1)
            self._spark.server.flush(int(key[0]))

    def close(self) -> None:
        """Close the processor, which as in Spark is initialised even without rows, and store the watermark."""
        with self._internal_errors():
            if not self._is_on_driver:
                self._context = self._context or self._open()
                # Key groups of other partitions are empty here.
                groups = range(self._handling.max_parallelism)
                self._log.read_heads(groups if self._deleting.is_due else ())
                self._deleting.clean_others(groups, self._load, self._commit)
        super().close()
        if self._handling.late is not None and not self._is_on_driver:
            self._watermarks.record(self._spark.times()[1])
            self._spark.finish()

    @property
    def _is_on_driver(self) -> bool:
        """Whether Spark initialises the processor without state, to learn its states."""
        return self._client.handle_state is client.StatefulProcessorHandleState.PRE_INIT

    def _process_group(self, group: int, table: pa.Table | None) -> list[object] | pa.Table:
        self._wakes_ms.pop(group, None)
        if table is not None and not self._initializes and self._handling.late is not None:
            table = self._handling.late.on_time(table, self._watermarks.previous_ms(self._spark.times()[1]))
        if self._context is None:
            self._context = self._open()
        self._deleting.clean(group, self._load, self._commit)
        return super()._process_group(group, table)

    def _frames_of(self, output: list[object] | pa.Table) -> Iterator[pd.DataFrame]:
        return iter(cast("list[pd.DataFrame]", output)) if self._handling.frames else super()._frames_of(output)

    def _batch_keys(
        self, context: functions.BatchContext, table: pa.Table | None
    ) -> Callable[[], Collection[object]] | None:
        # Initial state has other key columns.
        return None if self._initializes else super()._batch_keys(context, table)

    def _keys_of(self, table: pa.Table) -> Collection[object]:
        return set(self._handling.rows.keys(table))

    def _open(self) -> functions.BatchContext:
        context = super()._open()
        settings = self._settings
        # Imported here because it imports pandas; see `keyed.frames`.
        from statefulspark.operators.transform import outputs

        output = outputs.RowOutput(settings.schema, settings.uid, settings.timezone)
        self._output = output
        self._wrapped.kept = output.kept_frame if self._handling.frames else output.kept_row
        run = deleting.current_run() if self._wrapped.is_deletion_final else None
        self._deleting = deleting.StateDeletion(self._settings.uid, self._wrapped.deleted, run)
        return context

    def _process(self, context: functions.BatchContext, table: pa.Table) -> list[object]:
        try:
            if not self._initializes:
                return self._wrapped.rows(context, self._handling.rows.group_by_key(table)) if len(table) else []
            self._wrapped.initialize(context, cast("inputs.Inputs", self._handling.initial).group_by_key(table))
        except errors.StatefulSparkError as error:
            raise self._failed("handleInitialState" if self._initializes else "process", "", error) from error
        return []

    def _fire(self, context: functions.BatchContext, output: list[object]) -> None:
        if self._initializes:
            return
        try:
            output.extend(self._wrapped.fire(context))
        except errors.StatefulSparkError as error:
            raise self._failed("on_timer", "", error) from error

    # The wrapped function raises a `UserCodeError` only for errors of user code.

    def _open_function(self, context: functions.BatchContext) -> None:
        try:
            self._wrapped.open(context)
        except errors.StatefulSparkError as error:
            raise self._failed("open", "", error) from error

    def _close_function(self) -> None:
        try:
            self._wrapped.close()
        except errors.StatefulSparkError as error:
            raise self._failed("close", "", error) from error

    def _failed(self, method: str, where: str, error: Exception) -> errors.StatefulSparkError:
        return super()._failed(_METHODS.get(method, method), where, error)

    @property
    def _function_name(self) -> str:
        return self._wrapped.name

    def _load(self, group: int) -> store.KeyGroup:
        self._log.enter(group)
        return store.load(self._log, self._tables, group)

    def _commit(self, loaded: store.KeyGroup) -> None:
        loaded.commit(new_id=processor.new_id, key_type=self._settings.key_type)


class _Log(log.SparkChunkLog):
    """A log that wakes at any time: Spark's clock starts at 0, and its timers may be due before that.

    Attributes:
        wakes_ms: When each key group was last asked to be woken.
    """

    def __init__(
        self, handle: stateful_processor.StatefulProcessorHandle, uid: str, options: StorageOptions | None
    ) -> None:
        super().__init__(handle, uid, options)
        self.wakes_ms: dict[int, int] = {}

    def wake_at(self, moment_ms: int) -> None:
        """Register a Spark timer that wakes the current key group at a time, at the end of event time at the latest."""
        self.wakes_ms[self._group] = min(moment_ms, watermark.END_OF_TIME_MS - 1)
        self.server.put_timer(self._mark, self.wakes_ms[self._group])
