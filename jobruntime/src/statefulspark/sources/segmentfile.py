"""A segment as bytes: one Arrow file with the rows of all subtasks, and the source's state in its schema's metadata.

```
schema metadata    statefulspark.segment   {"formatVersion": 1, "uid": …, "segment": …, "epoch": …, "subtasks": […]}
                   statefulspark.state     an operator record (docs/operator-state.md); absent: the source has no state
record batches     one per subtask with rows; `subtasks` has the subtask of each
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from statefulspark import errors
from statefulspark.contract import base, formats
from statefulspark.contract.layout import SegmentName

_HEADER = b"statefulspark.segment"
_STATE = b"statefulspark.state"


class SegmentHeader(base.StoredDocument):
    """The metadata of a segment."""

    FORMAT: ClassVar = formats.SEGMENT
    format_version: int = formats.SEGMENT.writes

    uid: str
    segment: int
    epoch: int
    subtasks: tuple[int, ...]
    """The emitting subtask of each record batch."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A decoded segment.

    Attributes:
        header: Its metadata.
        state: The source's state after it, as an operator record; None if the source has none.
        batches: Its rows.
    """

    header: SegmentHeader
    state: bytes | None
    batches: tuple[pa.RecordBatch, ...]

    def rows_of(self, subtask: int) -> tuple[pa.RecordBatch, ...]:
        """Return the rows that one subtask emitted."""
        pairs = zip(self.header.subtasks, self.batches, strict=True)
        return tuple(batch for owner, batch in pairs if owner == subtask)


def encode(
    name: SegmentName, schema: pa.Schema, rows: Sequence[Sequence[tuple[object, ...]]], state: bytes | None
) -> bytes:
    """Write a segment.

    Args:
        name: The segment.
        schema: The schema of the source.
        rows: The rows of each subtask, each row with a value for every column.
        state: The source's state, as an operator record.

    Raises:
        SpecRejectedError: `SourceRowInvalid`: a value does not fit its column.
    """
    subtasks = [index for index, part in enumerate(rows) if part]
    header = SegmentHeader(uid=name.uid, segment=name.segment, epoch=name.epoch, subtasks=tuple(subtasks))
    metadata = {_HEADER: header.to_json().encode(), **({_STATE: state} if state is not None else {})}
    full = schema.with_metadata(metadata)
    target = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(target, full, options=options) as writer:
        for index in subtasks:
            columns = zip(schema, zip(*rows[index], strict=True), strict=True)
            arrays = [_column(name.uid, field, values) for field, values in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=full))
    return bytes(target.getvalue())


def decode(body: bytes, source: str, *, uid: str | None = None) -> Segment:
    """Read a segment.

    Args:
        body: Bytes that `encode` wrote.
        source: Their origin, for the error.
        uid: The expected uid; None accepts any.

    Raises:
        SnapshotCorruptError: `SegmentDamaged`, or the header cannot be read.
    """
    try:
        with pa.ipc.open_file(pa.BufferReader(body)) as reader:
            metadata = reader.schema.metadata or {}
            batches = tuple(reader.get_batch(index) for index in range(reader.num_record_batches))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(source, f"it is not a readable Arrow file of {len(body)} bytes ({error})") from error
    if _HEADER not in metadata:
        raise _damaged(source, "it has no segment header")
    header = SegmentHeader.parse(metadata[_HEADER], source)
    if len(header.subtasks) != len(batches) or uid not in (None, header.uid):
        raise _damaged(source, f"it is a segment of {header.uid!r} with {len(batches)} record batches")
    return Segment(header, metadata.get(_STATE), batches)


def _column(uid: str, field: pa.Field, values: Sequence[object]) -> pa.Array:
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
        raise errors.SpecRejectedError(
            "SourceRowInvalid",
            f"The source {uid!r} emitted a value that does not fit type {field.type} of column {field.name!r}: {error}. "
            "Change the schema of ss.read_function, or convert the value.",
        ) from error


def _damaged(source: str, why: str) -> errors.SnapshotCorruptError:
    return errors.SnapshotCorruptError(
        "SegmentDamaged", f"{source} cannot be used: {why}. Start from an older snapshot."
    )
