"""Converts rows to Kafka records with key, value, headers and partition; workers convert and stage them.

Without a serializer the columns are those of Spark's Kafka sink: `value`, and if present `key`, `headers` (an array of
structs of `key` and `value`) and `partition`; keys and values are strings or binary. With a serializer any columns are
allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import cast

import pyarrow as pa
import pyarrow.compute as compute

from statefulspark import errors, jsontext, rowvalues, usercode

VALUE, KEY, HEADERS, PARTITION = "value", "key", "headers", "partition"
_HEADER = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
STAGED = pa.schema(
    [
        pa.field(KEY, pa.binary()),
        pa.field(VALUE, pa.binary()),
        pa.field(HEADERS, _HEADER),
        pa.field(PARTITION, pa.int32()),
    ]
)
"""The staged form of a record."""
LARGEST_BYTES = 1_000_000
"""The client's default limit for a record: `message.max.bytes` of librdkafka."""


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record that a serializer returns.

    Attributes:
        value: None is a tombstone.
        key: With None the client selects the partition.
        headers: Names and values, in order.
        partition: With None the key determines it.
    """

    value: bytes | None
    _: KW_ONLY
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None


Serializer = Callable[[Mapping[str, object]], KafkaRecord]
"""Turns a row, as a mapping of its columns, into a record; it is called on the workers and must be deterministic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSerializer:
    """Writes each row as a JSON object.

    Maps are objects, binary is Base64, NaN and infinities are strings, Decimals are strings, times are ISO 8601, and
    durations are ISO 8601 in seconds.

    Attributes:
        key: Column that is the record's key: binary as it is, text in UTF-8, and other values as they stand in the object,
            without quotation marks. Empty for no key.
    """

    key: str = ""

    def __call__(self, row: Mapping[str, object]) -> KafkaRecord:
        """Return the row's record."""
        key = row[self.key] if self.key else None
        if key is not None and not isinstance(key, bytes):
            key = jsontext.text(key).encode()
        return KafkaRecord(jsontext.dumps(row).encode(), key=key)


def check(schema: pa.Schema, serializer: Serializer | None) -> None:
    """Reject unsupported columns; the error names all of them.

    Raises:
        SpecRejectedError: `SinkSchemaMismatch`.
    """
    if serializer is None:
        problems = [] if VALUE in schema.names else [f"{VALUE} is missing"]
        for field in schema:
            kind = field.type
            if field.name in (KEY, VALUE) and not _has_bytes(kind):
                problems.append(f"{field.name} is {kind} and must be string or binary")
            elif field.name == PARTITION and not pa.types.is_int32(kind):
                problems.append(f"{PARTITION} is {kind} and must be int")
            elif field.name == HEADERS and not _are_headers(kind):
                problems.append(f"{HEADERS} is {kind} and must be array<struct<key: string, value: binary>>")
            elif field.name not in STAGED.names:
                problems.append(f"{field.name} is not a column of a Kafka record")
    else:
        key_column = serializer.key if isinstance(serializer, JsonSerializer) else ""
        problems = [] if key_column in ("", *schema.names) else [f"{key_column} is the key column but is missing"]
        problems += [
            f"{field.name} is {field.type}, and a map whose keys are arrays, structs or maps has no form in Python"
            for field in schema
            if rowvalues.keys_without_text(field.type)
        ]
    if problems:
        raise errors.SpecRejectedError(
            "SinkSchemaMismatch",
            f"These columns do not fit a Kafka record: {'; '.join(problems)}. The stream has {', '.join(schema.names)}. "
            "Select value and key, or give the sink a serializer, for example ss.sinks.JsonSerializer(key=...).",
        )


def _are_headers(kind: pa.DataType) -> bool:
    """Tell whether a type is that of headers; Arrow fills fields of other names with nulls in place of refusing them."""
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    parts = {part.name: part.type for part in kind.value_type}
    return parts.keys() == {"key", "value"} and rowvalues.is_text(parts["key"]) and _has_bytes(parts["value"])


def _has_bytes(kind: pa.DataType) -> bool:
    return rowvalues.is_text(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def encode(
    batches: Iterator[pa.RecordBatch], serializer: Serializer | None, largest_bytes: int = LARGEST_BYTES
) -> Iterator[pa.RecordBatch]:
    """Convert rows to their staged form, batch by batch.

    Args:
        batches: The rows.
        serializer: The sink's; None if the columns are those of a record.
        largest_bytes: The client's limit for a record, `message.max.bytes`.

    Raises:
        SpecRejectedError: `SinkSchemaMismatch`; `RowUnsupported`: the client never sends a record.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        if serializer is None:
            check(batch.schema, None)
            columns = [
                compute.cast(batch.column(field.name), field.type)
                if field.name in batch.schema.names
                else pa.nulls(batch.num_rows, field.type)
                for field in STAGED
            ]
            staged = pa.RecordBatch.from_arrays(columns, schema=STAGED)
        else:
            staged = _serialized(batch, serializer)
        _require_sendable(staged, largest_bytes)
        yield staged


def _require_sendable(staged: pa.RecordBatch, largest_bytes: int) -> None:
    """Refuse records that the client never sends, on the worker, before the batch is committed."""
    lengths = [compute.fill_null(compute.binary_length(staged.column(name)), 0) for name in (KEY, VALUE)]
    sizes = compute.add(*(compute.cast(length, pa.int64()) for length in lengths))
    headers = staged.column(HEADERS)
    if headers.null_count < len(headers):
        if headers.flatten().field("key").null_count or headers.flatten().null_count:
            raise errors.SpecRejectedError(
                "RowUnsupported",
                "A record has a header without a name (null), which Kafka does not have. Correct the code, or filter such "
                "headers; the same batch runs again with the next start.",
            )
        sizes = compute.add(sizes, pa.array(map(_header_bytes, headers.to_pylist()), pa.int64()))
    largest = compute.max(sizes).as_py()
    if largest > largest_bytes:
        raise errors.SpecRejectedError(
            "RowUnsupported",
            f"A record has {largest:,} bytes, and the sink's client sends at most message.max.bytes={largest_bytes}. Make "
            "such rows smaller, or filter them; or raise message.max.bytes in the sink's options, and max.message.bytes of "
            "the topic with it. The same batch runs again with the next start.",
        )
    negative = compute.min(staged.column(PARTITION)).as_py()
    if negative is not None and negative < 0:
        raise errors.SpecRejectedError(
            "RowUnsupported",
            f"A record names the partition {negative}. Partitions begin with 0; null lets the key decide. Correct the code; "
            "the same batch runs again with the next start.",
        )


def _header_bytes(headers: Sequence[Mapping[str, str | bytes | None]] | None) -> int:
    """Return what the client counts for headers: names and values, and two lengths of 5 bytes each."""
    return sum(
        len(str(header["key"]).encode()) + len(cast("bytes", header["value"] or b"")) + 10 for header in headers or ()
    )


def _serialized(batch: pa.RecordBatch, serializer: Serializer) -> pa.RecordBatch:
    called = f"The Kafka serializer {getattr(serializer, '__qualname__', type(serializer).__qualname__)}()"
    records = []
    for row in rowvalues.dicts(batch):
        try:
            record = serializer(row)
        except Exception as error:
            if isinstance(serializer, JsonSerializer):
                raise
            raise usercode.raised(error, reason="FunctionFailed", called=called) from error
        records.append(record)
    try:
        return pa.RecordBatch.from_pydict(
            {
                KEY: [record.key for record in records],
                VALUE: [record.value for record in records],
                HEADERS: [[{"key": name, "value": value} for name, value in record.headers] for record in records],
                PARTITION: [record.partition for record in records],
            },
            schema=STAGED,
        )
    except (AttributeError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise usercode.user_code_error(
            error,
            reason="FunctionFailed",
            message=f"{called} returned no ss.sinks.KafkaRecord with a value and a key of bytes, headers of names and "
            f"bytes, and a number as partition: {usercode.format_error(error)}.",
        ) from error
