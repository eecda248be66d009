"""The chunk log of the current key group in Spark's state store: one value state and one map state per operator.

Their names contain the operator's uid, so that state can be matched with operators
from storage alone.
"""

from __future__ import annotations

from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark.contract import statevariables, watermark
from statefulspark.operators.keyed import packedlog
from statefulspark.packs import ranges
from statefulspark.state import heads
from statefulspark.storage import StorageOptions

_HEAD = spark_types.StructType(
    [
        spark_types.StructField("version", spark_types.LongType()),
        spark_types.StructField("id", spark_types.StringType()),
        spark_types.StructField("base", spark_types.LongType()),
        spark_types.StructField("layout", spark_types.BinaryType()),
    ]
)
_VERSION = spark_types.StructType([spark_types.StructField("version", spark_types.LongType())])
_CHUNK = spark_types.StructType(
    [
        spark_types.StructField("id", spark_types.StringType()),
        spark_types.StructField("blob", spark_types.BinaryType()),
    ]
)


class SparkChunkLog:
    """Chunks of Spark's current key group."""

    def __init__(
        self,
        handle: stateful_processor.StatefulProcessorHandle,
        uid: str,
        options: StorageOptions | None = None,
    ) -> None:
        self._uid, self._options = uid, options
        self._handle = handle
        self._head = handle.getValueState(statevariables.head(uid), _HEAD)
        self._log = handle.getMapState(statevariables.log(uid), _VERSION, _CHUNK)

    def head(self) -> heads.GroupHead | None:
        """Return the head, or None if the group was never written."""
        stored = self._head.get()
        if stored is None:
            return None
        version, unique_id, _, layout = stored
        return heads.GroupHead.from_layout(version, unique_id, bytes(layout))

    def set_head(self, head: heads.GroupHead) -> None:
        """Replace the head."""
        self._head.update((head.version, head.unique_id, head.base, head.pack_layout()))

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        """Return id and bytes of a chunk, or None when there is none."""
        stored = self._log.getValue((version,))
        return None if stored is None else (stored[0], bytes(stored[1]))

    def packed_chunk(self, where: ranges.PackRange) -> bytes:
        """Return the bytes of a chunk in a pack. Cost: a GET of that range."""
        return packedlog.reader_of(self._uid, self._options).read(where)

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        """Store a chunk."""
        self._log.updateValue((version,), (unique_id, blob))

    def remove_chunk(self, version: int) -> None:
        """Remove a chunk."""
        self._log.removeKey((version,))

    def times(self) -> tuple[int, int]:
        """Return processing time and watermark of the batch, in milliseconds since 1970; a missing one is < 1.

        Spark passes them to the processor only with a time mode; the state server always has them. They are stored in the
        offset log, so a replayed batch has the same.
        """
        times: tuple[int, int] = self._handle._statefulProcessorApiClient.get_timestamps("processingtime")
        return times

    def set_group(self, group: int) -> None:
        """Do nothing: Spark has set the current key group."""

    def finish(self) -> None:
        """Do nothing: Spark's state store has everything."""

    def enter(self, column_value: int) -> None:
        """Set the current key group to another one of the partition.

        Args:
            column_value: Its value in the column `key_group`.
        """
        self._handle._statefulProcessorApiClient.set_implicit_key((column_value,))

    def leave(self) -> None:
        """Clear the current key group, as Spark does before a processor is closed."""
        self._handle._statefulProcessorApiClient.remove_implicit_key()

    def wake_at(self, moment_ms: int) -> None:
        """Register a Spark timer that wakes the current key group at a time; idempotent.

        Later times than the end of event time become due at the end of event time.
        """
        self._handle.registerTimer(max(1, min(moment_ms, watermark.END_OF_TIME_MS - 1)))
