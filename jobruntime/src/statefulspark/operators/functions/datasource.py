"""The Python data source through which Spark reads a stateful source (`DataSourceStreamReader`).

Spark runs the reader in a separate process on the driver's machine, which asks the driver for offsets. Workers read
partitions directly from the segment on storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from statefulspark import storage
from statefulspark.sources import rendezvous, segmentfile
from statefulspark.sparkinternals.streamreaders import SupportsTriggerAvailableNow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from statefulspark.sources.feed import SegmentLocation
    from statefulspark.sparkinternals.streamreaders import ReadLimit
    from statefulspark.storage import StorageOptions

FORMAT = "statefulspark-source"
FEED, PORT, TOKEN = "stream", "port", "token"
"""Names of the options. `stream` is the id of the feed; Spark redacts the value of an option named token."""


@dataclass
class SegmentPartition(InputPartition):
    """The rows of one subtask in one segment."""

    location: SegmentLocation
    subtask: int
    options: StorageOptions


class StatefulSource(DataSource):
    """A source whose offsets and rows come from a function on the driver."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType | str:
        """Never used: the reader of a stateful source always passes the schema."""
        raise NotImplementedError("read it with ss.read_function(...)")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader that asks the driver."""
        return _Reader(self.options[FEED], int(self.options[PORT]), self.options[TOKEN])


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, feed: str, port: int, token: str) -> None:
        self._client = rendezvous.FeedClient(port=port, token=token, feed=feed)
        self._is_bounded = False
        self._end: dict[str, str | int] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop after the rows that the function has emitted at the next request."""
        self._is_bounded = True

    def initialOffset(self) -> dict[str, str | int]:  # noqa: N802 - Spark's name
        return self._client.initial()

    def latestOffset(self, start: dict[str, str | int], limit: ReadLimit) -> dict[str, str | int]:  # noqa: N802
        if self._end is not None:
            return self._end
        latest = self._client.latest(start)
        self._end = latest if self._is_bounded else None
        return latest

    def partitions(self, start: dict[str, str | int], end: dict[str, str | int]) -> Sequence[InputPartition]:
        answer = self._client.locate(start, end)
        if answer is None:
            return []
        location, options = answer
        return [SegmentPartition(location, subtask, options) for subtask in location.subtasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SegmentPartition)  # noqa: S101 - Spark passes the partitions that `partitions` returned
        location = partition.location
        body = storage.open_store(location.uri, partition.options).read(location.key)
        yield from segmentfile.decode(body, f"{location.uri}/{location.key}", uid=location.uid).rows_of(
            partition.subtask
        )
