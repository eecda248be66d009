"""The stateful processor that runs a keyed function over the key groups of a partition.

Spark calls it once per key group and batch, with the packed rows of the group. State lives in Spark's state store as
chunks; the tables built from them stay in this worker process between batches (`cache`), validated each time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark import errors
from statefulspark.spark.keyed import log, packing, rows
from statefulspark.state import cache, functions, store

WORKER_CACHE = cache.LruCache()
"""Tables of this Python worker. Spark keeps workers between batches; a new one starts empty and rebuilds."""


def new_id() -> str:
    """Return an id that no other attempt has."""
    return os.urandom(8).hex()


class KeyedProcessor(stateful_processor.StatefulProcessor):
    """Runs a `KeyedProcessFunction` per key, by key group.

    Args:
        uid: The operator's uid.
        function: The user's function.
        key: Key columns.
        schema: Output columns.
        timezone: Session time zone.
        cache_bytes: Memory that tables may take in a worker, estimated.
    """

    def __init__(
        self,
        *,
        uid: str,
        function: functions.KeyedProcessFunction,
        key: tuple[str, ...],
        schema: spark_types.StructType,
        timezone: str,
        cache_bytes: int,
    ) -> None:
        self._uid = uid
        self._function = function
        self._key = key
        self._schema = schema
        self._timezone = timezone
        self._cache_bytes = cache_bytes
        self._context: functions.KeyedContext | None = None

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        """Declare the state variables. Spark calls this on the driver too, so the function is not opened here."""
        self._log = log.SparkChunkLog(handle, self._uid)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Work on the rows of one key group."""
        (group,) = key
        table = packing.unpack([blob for frame in rows for blob in frame[packing.ROWS]])
        context = self._context or self._open()
        loaded = store.load(self._log, self._tables, int(group))
        context.bind(loaded.tables)
        output = self._process(context, table)
        store.commit(self._log, self._tables, loaded, new_id=new_id, before_full=context.drop_expired)
        if output:
            yield self._output.to_pandas(output)

    def close(self) -> None:
        """Close the function, if it was opened."""
        if self._context is not None:
            self._context = None
            self._function.close()

    def _open(self) -> functions.KeyedContext:
        WORKER_CACHE.limit(self._cache_bytes)
        self._tables = WORKER_CACHE.of(self._uid)
        self._output = rows.OutputSchema(self._schema, self._uid, self._timezone)
        context = functions.KeyedContext(self._uid, time.time_ns() // 1_000_000)
        try:
            self._function.open(context)
        except Exception as error:
            raise self._failed("open", "", error) from error
        context.opened()
        self._context = context
        return context

    def _process(self, context: functions.KeyedContext, table: pa.Table) -> list[object]:
        output: list[object] = []
        process = self._function.process
        key: object = None
        try:
            for key, group in _by_key(rows.to_keys(table, self._key), rows.to_rows(table)).items():
                context.enter(key)
                yielded = process(key, group, context)
                if yielded is not None:
                    output.extend(yielded)
        except Exception as error:
            raise self._failed("process", f" for key {key!r:.200}", error) from error
        finally:
            context.leave()
        return output

    def _failed(self, method: str, where: str, error: Exception) -> errors.SpecRejectedError:
        known = isinstance(error, errors.StatefulSparkError)
        reason = error.reason if isinstance(error, errors.StatefulSparkError) else "FunctionFailed"
        told = error.message if isinstance(error, errors.StatefulSparkError) else f"{type(error).__name__}: {error}"
        name = type(self._function).__qualname__
        hint = "" if known else " The batch was not committed and no state was changed."
        return errors.SpecRejectedError(
            reason, f"{name}.{method}() of keyed operator '{self._uid}' failed{where}: {told}.{hint}"
        )


def _by_key(keys: Sequence[object], values: Sequence[functions.InputRow]) -> dict[object, list[functions.InputRow]]:
    grouped: dict[object, list[functions.InputRow]] = {}
    for key, row in zip(keys, values, strict=True):
        group = grouped.get(key)
        if group is None:
            grouped[key] = [row]
        else:
            group.append(row)
    return grouped
