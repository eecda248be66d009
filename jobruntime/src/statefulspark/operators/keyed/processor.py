"""The stateful processor that runs a keyed function over the key groups of a partition.

Spark calls it once per batch with the packed rows of the partition, and then for each key group that has due timers. It
reads the heads of all key groups with rows in one go, and writes all changes in one go. State is stored in Spark's state
store as chunks; the tables built from them are cached in this worker process between batches (`cache`) and validated each
time.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import zoneinfo
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark import errors, usercode
from statefulspark.operators import spark_errors
from statefulspark.operators.keyed import cleaning, counting, log, packedlog, packing, rehearsing
from statefulspark.state import cache, evolution, functions, keygroups, rows, store, timers, ttl
from statefulspark.storage import StorageOptions

if TYPE_CHECKING:
    import pandas as pd
    from pyspark import Accumulator


_FRAME_ROWS = 10_000
"""So many rows of output are at least one frame."""


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Pause Python's cyclic garbage collection in the block, unless it is already disabled.

    Our code creates many objects there, and no cycles. A row object for every row of a batch triggers the collector often,
    and each full collection scans the state that is cached in the worker: measured, that was half the time of a batch. User
    code runs without this pause.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def new_id() -> str:
    """Return an id that is unique over all attempts."""
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Settings of an operator, besides its function.

    Attributes:
        uid: The operator's uid.
        key: Key columns.
        key_type: Their types.
        schema: Output columns.
        timezone: Session time zone.
        cache_bytes: Estimated memory for tables in a worker.
        disk_bytes: Disk space of an executor for other key groups; None is all free space.
        domains: Time domains in which it has timers.
        ttl_change: Handling of a time to live that was enabled or disabled.
        key_groups: Number of key groups.
        storage_options: How workers reach the storage of the job that runs it; None without a job.
        packs: Which changes go into packs beside the state store; None: none do.
        query_uid: The query's uid.
        counted: Takes the metrics of the function; None: nothing does.
    """

    uid: str
    key: tuple[str, ...]
    key_type: str
    schema: spark_types.StructType
    timezone: str
    cache_bytes: int = cache.DEFAULT_LIMIT_BYTES
    disk_bytes: int | None = None
    domains: frozenset[timers.TimeDomain] = field(default_factory=frozenset)
    ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE
    key_groups: int = 0
    storage_options: StorageOptions | None = None
    packs: packedlog.Thresholds | None = None
    query_uid: str = ""
    counted: Accumulator[counting.Values] | None = None

    @property
    def clock(self) -> timers.TimeDomain:
        """The clock that wakes key groups without rows: processing time if any timer uses it, else the watermark."""
        processing = timers.TimeDomain.PROCESSING_TIME
        return processing if processing in self.domains else timers.TimeDomain.EVENT_TIME


class KeyedProcessor(stateful_processor.StatefulProcessor):
    """Runs a `KeyedProcessFunction` per key, by key group.

    Args:
        function: The user's function.
        settings: Settings of the operator.
    """

    def __init__(self, function: functions.KeyedProcessFunction, settings: OperatorSettings) -> None:
        self._function = function
        self._settings = settings
        self._context: functions.BatchContext | None = None
        self._done: set[int] = set()
        self._frame_rows = _FRAME_ROWS

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        """Declare the state variables. Spark calls this on the driver too, so the function is not opened here."""
        self._use(log.SparkChunkLog(handle, self._settings.uid, self._settings.storage_options))

    def _use(self, of_spark: log.SparkChunkLog) -> None:
        """Keep chunks in Spark's state store, and large ones in packs, if they go there."""
        uid, options, packs = self._settings.uid, self._settings.storage_options, self._settings.packs
        self._spark = of_spark
        self._log: cleaning.PartitionLog = of_spark
        if packs is not None:
            locate = functools.partial(packedlog.place_of, uid, options, groups=self._settings.key_groups)
            self._log = packedlog.PackedLog(of_spark, locate, packs, functools.partial(packedlog.is_owed, uid))

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Process the rows of the partition, and the timers of key groups with rows."""
        with self._internal_errors():
            yield from self._process_rows(packing.PartitionRows(blob for frame in rows for blob in frame[packing.ROWS]))
            self._spark.server.flush()

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        timerValues: object,  # noqa: N803 - Spark's name
        expiredTimerInfo: object,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Process the timers of a key group without rows in this batch."""
        group = keygroups.marked(int(key[0]))
        with self._internal_errors():
            if group not in self._done:
                yield from self._frames_of(self._process_group(group, None))
                # Spark deletes the timer of the current key.
                self._spark.server.flush(keygroups.mark(group))

    def _process_rows(self, partition: packing.PartitionRows) -> Iterator[pd.DataFrame]:
        """Process the key groups of a partition that have rows; the output of many small ones is one frame."""
        self._log.read_heads(partition.groups)
        gathered: list[object] = []
        for group in partition.groups:
            output = self._process_group(group, partition.take(group))
            if isinstance(output, pa.Table):
                yield from self._frames_of(output)
                continue
            gathered.extend(output)
            if len(gathered) >= self._frame_rows:
                yield from self._frames_of(gathered)
                gathered = []
        yield from self._frames_of(gathered)

    def _frames_of(self, output: list[object] | pa.Table) -> Iterator[pd.DataFrame]:
        """Yield the frames of some output, if there is any."""
        if len(output):
            with collection_paused():
                frame = self._output.to_pandas(output)
            yield frame

    def close(self) -> None:
        """Close the function, if it was opened."""
        self._done.clear()
        with self._internal_errors():
            if self._context is not None:
                if self._context.cleans_on_the_way:
                    partition = cleaning.Partition(self._log, self._tables, self._settings.key_type)
                    cleaning.clean(self._context, partition, new_id=new_id)
                self._log.finish()
                self._spark.finish()
                context, self._context = self._context, None
                self._close_function()
                if self._settings.counted is not None and not context.is_rehearsal:
                    uids = {"query": self._settings.query_uid, "operator": self._settings.uid}
                    counting.send(self._settings.counted, context.metrics, **uids)

    def _internal_errors(self) -> contextlib.AbstractContextManager[None]:
        """Report errors of our own code as internal; errors of user code are caught at each call."""
        return spark_errors.ours(f"Keyed operator '{self._settings.uid}'")

    def _process_group(self, group: int, table: pa.Table | None) -> list[object] | pa.Table:
        """Process the rows and timers of a key group; return the output."""
        context = self._context
        if context is None:
            context = self._open()
            if context.cleans_on_the_way:
                groups = self._settings.key_groups
                cleaning.assign_rounds(context, self._settings.uid, group=group, groups=groups)
        self._log.enter(group)
        with collection_paused():
            keys, in_arrays = self._batch_keys(context, table), context.has_arrays_only
            loaded = store.load(self._log, self._tables, group, keys=keys, in_arrays=in_arrays, due_ms=context.due_ms)
        if loaded.head is not None:
            evolution.check_key_type(loaded.head.key_type, self._settings.key_type, self._settings.uid)
        context.bind(loaded.tables, group)
        output: list[object] | pa.Table = []
        if table is not None and isinstance(self._function, functions.VectorizedProcessFunction):
            output = self._process_table(context, self._function, table)
        elif table is not None:
            output = self._process(context, table)
        if self._settings.domains:
            self._fire(context, cast("list[object]", output))
            self._done.add(group)
            wake_ms = context.next_wake_ms(self._settings.clock)
            if wake_ms is not None:
                self._spark.wake_at(wake_ms)
        with collection_paused():
            loaded.commit(new_id=new_id, cutoffs_ms=context.cutoffs_ms, key_type=self._settings.key_type)
        return output

    def _batch_keys(
        self, context: functions.BatchContext, table: pa.Table | None
    ) -> Callable[[], Collection[object]] | None:
        """Return a function for the keys of the rows, or None if others but those with due timers may be needed."""
        if context.cleans_on_the_way:
            return None
        return lambda: self._keys_of(table) if table is not None else ()

    def _keys_of(self, table: pa.Table) -> Collection[object]:
        return set(rows.read_keys(table, self._settings.key))

    def _open(self) -> functions.BatchContext:
        settings = self._settings
        self._tables = cache.open_cache(settings.uid, cache_bytes=settings.cache_bytes, disk_bytes=settings.disk_bytes)
        # Imported here because it imports pandas; see `frames`.
        from statefulspark.operators.keyed import frames

        self._output = frames.OutputSchema(settings.schema, settings.uid, settings.timezone)
        now_ms, watermark_ms = self._spark.times()
        context = functions.BatchContext(
            settings.uid,
            now_ms,
            watermark_ms=timers.watermark_of(watermark_ms),
            domains=settings.domains,
            ttl_change=settings.ttl_change,
            is_vectorized=isinstance(self._function, functions.VectorizedProcessFunction),
            zone=zoneinfo.ZoneInfo(settings.timezone) if "timestamp" in settings.key_type else None,
            is_rehearsal=rehearsing.is_rehearsal(),
        )
        self._open_function(context)
        context.opened()
        self._context = context
        return context

    def _open_function(self, context: functions.BatchContext) -> None:
        try:
            self._function.open(context)
        except Exception as error:
            raise self._failed("open", "", error) from error

    def _close_function(self) -> None:
        try:
            self._function.close()
        except Exception as error:
            raise self._failed("close", "", error) from error

    def _process(self, context: functions.BatchContext, table: pa.Table) -> list[object]:
        output: list[object] = []
        process, kept = self._function.process, self._output.kept
        cleans = context.cleans_for_every_record
        try:
            with collection_paused():
                grouped: dict[object, list[functions.InputRow]] = {}
                group_of = grouped.setdefault
                for key, row in zip(rows.read_keys(table, self._settings.key), rows.read_rows(table), strict=True):
                    group_of(key, []).append(row)
            for key, group in grouped.items():
                context.enter(key)
                if cleans:
                    context.clean(len(group))
                try:
                    yielded = process(context.key, group, context)
                    if yielded is not None:
                        output.extend(map(kept, yielded))
                except Exception as error:
                    raise self._failed("process", f" for key {key!r:.200}", error) from error
        finally:
            context.leave()
        return output

    def _process_table(
        self, context: functions.BatchContext, function: functions.VectorizedProcessFunction, table: pa.Table
    ) -> pa.Table | list[object]:
        key = self._settings.key
        context.clean(table.num_rows)
        context.enter_group(lambda part: rows.read_keys(part, key), rows.read_values)
        try:
            emitted = function.process_table(table, context)
            return emitted if emitted is not None and len(emitted) else []
        except Exception as error:
            raise self._failed("process_table", "", error) from error
        finally:
            context.leave()

    def _fire(self, context: functions.BatchContext, output: list[object]) -> None:
        on_timer, kept = self._function.on_timer, self._output.kept
        try:
            for at_ms in context.due():
                try:
                    yielded = on_timer(timers.moment(at_ms), context)
                    if yielded is not None:
                        output.extend(map(kept, yielded))
                except Exception as error:
                    raise self._failed("on_timer", "", error) from error
        finally:
            context.leave()

    @property
    def _function_name(self) -> str:
        return type(self._function).__qualname__

    def _failed(self, method: str, where: str, error: Exception) -> errors.StatefulSparkError:
        """Return the error for an exception of a call of user code.

        A rejected request of the user code keeps its reason, and other errors of ours stay unchanged.
        """
        what = f"{self._function_name}.{method}() of keyed operator '{self._settings.uid}' failed{where}"
        if isinstance(error, errors.SpecRejectedError):
            refused = errors.SpecRejectedError(error.reason, f"{what}: {error.message.removesuffix('.')}.")
            usercode.note_calls(refused, error)
            return refused
        if isinstance(error, errors.StatefulSparkError) and not isinstance(error, errors.UserCodeError):
            return error
        cause = error.raised if isinstance(error, errors.UserCodeError) else error
        detail = f"{type(cause).__name__}: {cause}".removesuffix(".")
        hint = "The batch was not committed and no state was changed."
        return usercode.user_code_error(cause, reason="FunctionFailed", message=f"{what}: {detail}. {hint}")
