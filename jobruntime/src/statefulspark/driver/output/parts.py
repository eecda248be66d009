"""Writes the parts of a batch in a worker: each sink of the query gets its rows and columns of each partition.

The partition is computed once. Several sinks write side by side, and none of them is more than two Arrow batches behind the
fastest, so the memory that they take does not grow with the partition.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from statefulspark.declaration import Selection
from statefulspark.driver.output import sink_calls
from statefulspark.sinks.base import SinkContext, TwoPhaseSink

SCHEMA: Final = "sink int, part binary"
"""What `write_parts` yields: the number of a sink, and the description of what it has staged."""
_PARTS = pa.schema([("sink", pa.int32()), ("part", pa.binary())])
_BATCHES_AHEAD: Final = 1
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes the rows that one sink gets of a partition.

    Attributes:
        sink: The sink.
        context: The batch, as workers see it.
        selection: Which rows and columns of the stream it gets; None for all of them.
    """

    sink: TwoPhaseSink
    context: SinkContext
    selection: Selection | None = None

    def __call__(self, batches: Batches) -> bytes | None:
        """Stage the rows, and return the sink's description of them; None if it has staged nothing."""
        rows = batches if self.selection is None else _chosen(batches, self.selection)
        with sink_calls.calling(self.sink, self.context.uid, "write_part"):
            part = self.sink.write_part(rows, self.context)
            sink_calls.require_bytes(part)
            return part


def write_parts(batches: Batches, writers: Sequence[PartWriter]) -> Batches:
    """Pass a partition to each writer, and yield one batch with what they have staged.

    Args:
        batches: The partition.
        writers: One for each sink of the query.

    Raises:
        StatefulSparkError: The error of a writer; the other writers get an error in place of their next rows.
    """
    parts = [writers[0](batches)] if len(writers) == 1 else _write_side_by_side(batches, writers)
    staged = [(number, part) for number, part in enumerate(parts) if part is not None]
    if staged:
        yield pa.RecordBatch.from_pydict(
            {"sink": [number for number, _ in staged], "part": [part for _, part in staged]}, schema=_PARTS
        )


def _chosen(batches: Batches, selection: Selection) -> Batches:
    for batch in batches:
        rows = batch if selection.condition is None else batch.filter(batch.column(selection.condition))
        if rows.num_rows:
            yield rows.select(list(selection.columns))


def _write_side_by_side(batches: Batches, writers: Sequence[Callable[[Batches], bytes | None]]) -> list[bytes | None]:
    feeds = [_Feed() for _ in writers]
    with futures.ThreadPoolExecutor(len(writers), thread_name_prefix="sink") as threads:
        running = [threads.submit(feed.pass_to, write) for feed, write in zip(feeds, writers, strict=True)]
        try:
            for batch in batches:
                for feed in feeds:
                    feed.put(batch)
                    if feed.failure is not None:
                        raise feed.failure
        except BaseException as error:
            for feed in feeds:
                feed.put(error)
            raise
        for feed in feeds:
            feed.put(None)
        return [writing.result() for writing in running]


class _Feed:
    """What one writer has still to write: batches, then None, or the error that has cut the partition short."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(_BATCHES_AHEAD)
        self._has_ended = False
        self.failure: BaseException | None = None
        """Why its writer has ended."""

    def put(self, item: pa.RecordBatch | BaseException | None) -> None:
        """Add an item; waits until the writer has taken the one before it."""
        self._waiting.put(item)

    def pass_to(self, write: Callable[[Batches], bytes | None]) -> bytes | None:
        """Run a writer, and take what it leaves, so that `put` never waits for a writer that has ended."""
        try:
            return write(self._batches())
        except BaseException as error:
            self.failure = error
            raise
        finally:
            while not self._has_ended:
                self._next()

    def _batches(self) -> Batches:
        while (item := self._next()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _next(self) -> pa.RecordBatch | BaseException | None:
        item = self._waiting.get()
        self._has_ended = item is None or isinstance(item, BaseException)
        return item
