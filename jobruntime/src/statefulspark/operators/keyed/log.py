"""The chunk logs of a partition's key groups in Spark's state store: one value state and one map state per operator.

The state of a key group is stored under its mark as grouping key, whichever partition it is in. The names of the states
contain the operator's uid, so that state can be matched with operators from storage alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark.contract import layout, watermark
from statefulspark.operators.keyed import packedlog, stateserver
from statefulspark.packs import ranges
from statefulspark.state import heads, keygroups
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
    """The chunks of a partition's key groups; those of the one that was entered last can be used.

    What is written waits in `StateServer` until `flush`.
    """

    def __init__(
        self,
        handle: stateful_processor.StatefulProcessorHandle,
        uid: str,
        options: StorageOptions | None = None,
    ) -> None:
        self._uid, self._options = uid, options
        self._client = handle._statefulProcessorApiClient
        self._head_name, self._log_name = layout.head_variable(uid), layout.log_variable(uid)
        handle.getValueState(self._head_name, _HEAD)
        handle.getMapState(self._log_name, _VERSION, _CHUNK)
        self.server = stateserver.StateServer(self._client)
        self._heads: dict[int, heads.GroupHead | None] = {}
        self._group = -1

    def enter(self, group: int) -> None:
        """Make a key group the current one."""
        self._group = group

    def read_heads(self, groups: Iterable[int]) -> None:
        """Read the heads of key groups that will be used. Cost: one wait for some hundred."""
        missing = [group for group in groups if group not in self._heads]
        if missing:
            stored = self.server.values(self._head_name, map(keygroups.mark, missing))
            self._heads.update(zip(missing, map(_parse_head, stored), strict=True))

    def head(self) -> heads.GroupHead | None:
        """Return the head, or None if the group was never written."""
        self.read_heads((self._group,))
        return self._heads[self._group]

    def set_head(self, head: heads.GroupHead) -> None:
        """Replace the head."""
        self._heads[self._group] = head
        self.server.put_value(
            self._head_name, self._mark, (head.version, head.unique_id, head.base, head.pack_layout())
        )

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        """Return id and bytes of a chunk, or None when there is none."""
        stored = self.server.entry(self._log_name, self._mark, version)
        return None if stored is None else (cast("str", stored[0]), bytes(cast("bytes", stored[1])))

    def packed_chunk(self, where: ranges.PackRange) -> bytes:
        """Return the bytes of a chunk in a pack. Cost: a GET of that range."""
        return packedlog.reader_of(self._uid, self._options).read(where)

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        """Store a chunk."""
        self.server.put_entry(self._log_name, self._mark, version, (unique_id, blob))

    def remove_chunk(self, version: int) -> None:
        """Remove a chunk."""
        self.server.remove_entry(self._log_name, self._mark, version)

    def times(self) -> tuple[int, int]:
        """Return processing time and watermark of the batch, in milliseconds since 1970; a missing one is < 1.

        Spark passes them to the processor only with a time mode; the state server always has them. They are stored in the
        offset log, so a replayed batch has the same.
        """
        times: tuple[int, int] = self._client.get_timestamps("processingtime")
        return times

    def wake_at(self, moment_ms: int) -> None:
        """Register a Spark timer that wakes the current key group at a time; idempotent.

        Later times than the end of event time become due at the end of event time.
        """
        self.server.put_timer(self._mark, max(1, min(moment_ms, watermark.END_OF_TIME_MS - 1)))

    def finish(self) -> None:
        """Write what waits."""
        self.server.flush()

    @property
    def _mark(self) -> int:
        return keygroups.mark(self._group)


def _parse_head(stored: stateserver.Value | None) -> heads.GroupHead | None:
    if stored is None:
        return None
    version, unique_id, _, pack_layout = stored
    return heads.GroupHead.from_layout(cast("int", version), cast("str", unique_id), bytes(cast("bytes", pack_layout)))
