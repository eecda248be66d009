"""The stage before the shuffle: rows become one Arrow blob per key group.

Spark would pass rows to the stateful operator through pandas, where a null turns an integer column into floats. Packed,
a batch is shuffled as a few blobs per key group, and every value keeps its exact Arrow type. The order of the rows of a
key group within a partition is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark_types

from statefulspark.state import keygroups

GROUP = "key_group"
"""Column that Spark groups by: it has the mark of a key group, whose hash selects the partition."""
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
    """Split record batches by their last column, the number of the key group.

    Args:
        batches: The rows of a partition; the last column is the key group, the others are packed.

    Yields:
        Batches of `(mark of the key group, Arrow IPC stream with the rows of that group)`.
    """
    gathered: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        gathered.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= FLUSH_BYTES:
            yield _split(gathered)
            gathered, size_bytes = [], 0
    if gathered:
        yield _split(gathered)


def _split(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    groups = table.column(table.num_columns - 1).to_numpy()
    order = np.argsort(groups, kind="stable")
    rows = table.select(range(table.num_columns - 1)).take(pa.array(order)).combine_chunks()
    distinct_groups, starts = np.unique(groups[order], return_index=True)
    ends = [*starts[1:].tolist(), len(groups)]
    blobs: list[bytes] = []
    for start, end in zip(starts.tolist(), ends, strict=True):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows.slice(start, end - start))
        blobs.append(sink.getvalue().to_pybytes())
    marks = [keygroups.mark(group) for group in distinct_groups.tolist()]
    return pa.RecordBatch.from_arrays([pa.array(marks, pa.int32()), pa.array(blobs, pa.binary())], schema=_PACKED_ARROW)


def unpack(blobs: list[bytes]) -> pa.Table:
    """Return the rows of blobs of one key group, in order."""
    return pa.concat_tables([pa.ipc.open_stream(blob).read_all() for blob in blobs])
