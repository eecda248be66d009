"""The stage before the shuffle: rows become one Arrow blob per partition of the state.

Spark would pass rows to the stateful operator through pandas, where a null turns an integer column into floats, and call it
for each key group. Packed, a batch is shuffled as a few blobs per partition, the operator is called once for each, and every
value keeps its exact Arrow type. The order of the rows of a key group within a partition is kept.

A task of this stage knows the number of partitions as a task of the operator does: both belong to one batch. State is not
stored by partition but by key group (`log`), so another number of partitions finds it where Spark has moved it.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as spark_types

from statefulspark.operators.keyed import cleaning
from statefulspark.state import cache, keygroups

GROUP = "key_group"
"""Column that Spark groups by. Rows have the mark of a partition, state and timers that of a key group; its hash selects the
partition."""
ROWS = "rows"
UID_METADATA = "statefulspark.uid"
"""Key in the metadata of the column `key_group`, so that a plan shows the operator."""
FLUSH_BYTES = 64 << 20
"""Rows of a partition are collected up to this size before they are split, to avoid tiny blobs."""
_PACKED_ARROW = pa.schema([(GROUP, pa.int32()), (ROWS, pa.binary())])


def packed_schema(uid: str) -> spark_types.StructType:
    """Return the schema of packed rows, the input of an operator."""
    return spark_types.StructType(
        [
            spark_types.StructField(GROUP, spark_types.IntegerType(), metadata={UID_METADATA: uid}),
            spark_types.StructField(ROWS, spark_types.BinaryType()),
        ]
    )


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Collect the rows of record batches by the partition of their key group, whose number is the last column.

    Yields:
        Batches of `(mark of the partition, Arrow IPC stream with rows sorted by key group)`.
    """
    partitions = cleaning.partitions_of_task()
    gathered: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue  # Without a limit of rows, Spark sends one batch for a partition, also if it is empty.
        gathered.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= FLUSH_BYTES:
            yield _split(gathered, partitions)
            gathered, size_bytes = [], 0
    if gathered:
        yield _split(gathered, partitions)


def _split(batches: list[pa.RecordBatch], partitions: int) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    groups = table.column(table.num_columns - 1).to_numpy()
    order = np.lexsort((groups, groups % partitions))
    table = table.take(pa.array(order)).combine_chunks()
    marks: list[int] = []
    blobs: list[bytes] = []
    for partition, start, end in _runs(groups[order] % partitions):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(start, end - start))
        marks.append(keygroups.mark(partition))
        blobs.append(sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays([pa.array(marks, pa.int32()), pa.array(blobs, pa.binary())], schema=_PACKED_ARROW)


def _runs(numbers: npt.NDArray[np.int32]) -> Iterator[tuple[int, int, int]]:
    """Yield each number of a sorted array, with the positions of its first element and behind its last one."""
    distinct, starts = np.unique(numbers, return_index=True)
    return zip(distinct.tolist(), starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True)


class PartitionRows:
    """The rows of a partition and batch by key group.

    Blobs beyond a limit are in a file without a name on the executor's disk, and mapped: of a batch that is larger than
    memory, a worker has the rows of the key group that it works on.

    Args:
        blobs: What `pack` has made of rows of the partition.
        memory_bytes: As many bytes of blobs are kept in memory.
    """

    def __init__(self, blobs: Iterable[bytes], memory_bytes: int = FLUSH_BYTES) -> None:
        self._parts: dict[int, list[pa.Table]] = {}
        for blob in _held(blobs, memory_bytes):
            table = pa.ipc.open_stream(blob).read_all()
            last = table.num_columns - 1
            rows = table.remove_column(last)
            for group, start, end in _runs(table.column(last).to_numpy()):
                self._parts.setdefault(group, []).append(rows.slice(start, end - start))

    @property
    def groups(self) -> tuple[int, ...]:
        """The key groups that have rows, in ascending order."""
        return tuple(sorted(self._parts))

    def take(self, group: int) -> pa.Table:
        """Remove and return the rows of a key group, in order."""
        return pa.concat_tables(self._parts.pop(group))


def _held(blobs: Iterable[bytes], memory_bytes: int) -> Iterator[pa.Buffer]:
    """Yield blobs as buffers: those in memory, then those for which a file was needed."""
    lengths: list[int] = []
    with contextlib.ExitStack() as stack:
        file: IO[bytes] | None = None
        for blob in blobs:
            memory_bytes -= len(blob)
            if memory_bytes >= 0:
                yield pa.py_buffer(blob)
                continue
            file = file or stack.enter_context(tempfile.TemporaryFile(dir=next(iter(cache.local_directories()), None)))
            file.write(blob)
            lengths.append(len(blob))
        if file is not None:
            file.flush()
            mapped = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            for end, length in zip(itertools.accumulate(lengths), lengths, strict=True):
                yield mapped.slice(end - length, length)
