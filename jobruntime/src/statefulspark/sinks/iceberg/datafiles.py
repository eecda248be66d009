"""Data files of an Iceberg table: written by workers, described in a record, appended by the driver.

The description has all fields of a manifest entry (partition values, counts, bounds), so that a commit reads no data file.
Values use Iceberg's binary single-value format, which is specified and independent of pyiceberg's classes.

Files are written with pyiceberg's writer, but not through its `write_file`: that writes a null array of structs as an empty
one, and fields with a space or another character of that kind in their names as null where their struct is in two
containers (0.12).
"""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pydantic import Field
from pyiceberg import conversions, manifest, partitioning, schema, typedef, types
from pyiceberg.io import fileformat
from pyiceberg.io import pyarrow as iceberg_arrow
from pyiceberg.table import TableProperties, WriteTask, locations
from pyiceberg.utils import concurrent, properties

from statefulspark import errors
from statefulspark.contract import base, formats

if TYPE_CHECKING:
    from pyiceberg.table import Table

FILE_BYTES = 128 * 2**20
"""Rows are written when they have this size in memory; the file is several times smaller."""
MERGED_FILES = 500
"""Batches with more files are committed apart: each file is looked up before its commit."""


class DataFile(base.WireModel):
    """One data file."""

    path: str
    spec_id: int
    """The partition spec that `partition` follows."""
    partition: tuple[str | None, ...] = ()
    """Values in the spec's order, hexadecimal."""
    rows: int
    size_bytes: int
    column_sizes: dict[int, int] = Field(default_factory=dict)
    value_counts: dict[int, int] = Field(default_factory=dict)
    null_value_counts: dict[int, int] = Field(default_factory=dict)
    nan_value_counts: dict[int, int] = Field(default_factory=dict)
    lower_bounds: dict[int, str] = Field(default_factory=dict)
    upper_bounds: dict[int, str] = Field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()


class WrittenFiles(base.StoredDocument):
    """The files of one partition or a whole batch: the body of a prepared transaction."""

    FORMAT: ClassVar = formats.WRITTEN_FILES
    format_version: int = formats.WRITTEN_FILES.writes

    table: str
    table_uuid: str
    files: tuple[DataFile, ...]


def merge(earlier: bytes, later: bytes) -> bytes | None:
    """Combine the transactions of two batches; None if together they have more than `MERGED_FILES`, or differ in table."""
    first, second = (WrittenFiles.parse(transaction, "a prepared batch") for transaction in (earlier, later))
    files = (*first.files, *second.files)
    if first.table_uuid != second.table_uuid or len(files) > MERGED_FILES:
        return None
    return first.model_copy(update={"files": files}).to_json().encode()


def write(table: Table, batches: Iterator[pa.RecordBatch]) -> Iterator[DataFile]:
    """Write rows to the table's location; they are not visible yet.

    Args:
        table: The table; its partitioning and schema are used.
        batches: Rows whose columns fit the table.
    """
    write_uuid, numbers = uuid.uuid4(), itertools.count()
    name, default = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
    for rows in _group_batches(batches):
        file_bytes = properties.property_as_int(table.properties, name, default) or default
        parts: list[tuple[partitioning.PartitionKey | None, pa.Table]] = [(None, rows)]
        if not table.spec().is_unpartitioned():
            divided = iceberg_arrow._determine_partitions(table.spec(), table.schema(), rows)
            parts = [(part.partition_key, part.arrow_table_partition) for part in divided]
        tasks = (
            WriteTask(write_uuid, number, table.schema(), packed, partition_key=key)
            for key, part in parts
            for packed, number in zip(iceberg_arrow.bin_pack_arrow_table(part, file_bytes), numbers, strict=False)
        )
        written = concurrent.ExecutorFactory.get_or_create().map(functools.partial(_write_file, table), tasks)
        yield from (_describe(table, file) for file in written)


def missing(table: Table, files: Iterable[DataFile]) -> tuple[str, ...]:
    """Return the paths of files that are not there. Cost: a HEAD for each file, some of them at once."""

    def exists(file: DataFile) -> bool:
        try:
            # `exists` of a local file says no, whatever there is (pyiceberg 0.12).
            return len(table.io.new_input(file.path)) >= 0
        except FileNotFoundError:
            return False

    looked_up = tuple(files)
    are_there = concurrent.ExecutorFactory.get_or_create().map(exists, looked_up)
    return tuple(file.path for file, is_there in zip(looked_up, are_there, strict=True) if not is_there)


def copied(table: Table, file: DataFile) -> DataFile:
    """Copy a file beside itself under a new name, and return the description of the copy."""
    path = f"{file.path.removesuffix('.parquet')}-{uuid.uuid4().hex}.parquet"
    with table.io.new_input(file.path).open() as body, table.io.new_output(path).create() as copy:
        copy.write(body.read())
    return file.model_copy(update={"path": path})


def manifest_entry(table: Table, file: DataFile) -> manifest.DataFile:
    """Return the manifest entry of a described file, for an append.

    Raises:
        StateUnknownError: `IcebergPartitioningChanged`: the table has another partitioning now.
    """
    spec = table.metadata.spec()
    if spec.spec_id != file.spec_id:
        raise errors.StateUnknownError(
            "IcebergPartitioningChanged",
            f"A prepared file of the table {'.'.join(table.name())} follows partition spec {file.spec_id}, and the table "
            f"has {spec.spec_id} now; set the table's spec back until the job has committed, then change it while the job "
            "is stopped with a savepoint.",
        )
    values = [
        None if value is None else conversions.from_bytes(kind, bytes.fromhex(value))
        for kind, value in zip(_kinds(table), file.partition, strict=True)
    ]
    return manifest.DataFile.from_args(
        content=manifest.DataFileContent.DATA,
        file_path=file.path,
        file_format=manifest.FileFormat.PARQUET,
        partition=typedef.Record(*values),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        lower_bounds={field: bytes.fromhex(value) for field, value in file.lower_bounds.items()},
        upper_bounds={field: bytes.fromhex(value) for field, value in file.upper_bounds.items()},
        split_offsets=list(file.split_offsets),
        spec_id=file.spec_id,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
    )


def _write_file(table: Table, task: WriteTask) -> manifest.DataFile:
    """Write one file."""
    kind = manifest.FileFormat(
        table.properties.get(TableProperties.WRITE_FILE_FORMAT, TableProperties.WRITE_FILE_FORMAT_DEFAULT)
    )
    model = fileformat.FileFormatFactory.get(kind)
    provider = locations.load_location_provider(table.location(), table.properties)
    path = provider.new_data_location(task.generate_data_file_filename(model.file_extension()), task.partition_key)
    output, stored = table.io.new_output(path), schema.sanitize_column_names(table.schema())
    writer = model.create_writer(output, stored, table.properties)
    with writer:
        writer.write(_as_stored(pa.Table.from_batches(task.record_batches), table.schema(), stored))
    return manifest.DataFile.from_args(
        content=manifest.DataFileContent.DATA,
        file_path=path,
        file_format=kind,
        partition=typedef.Record() if task.partition_key is None else task.partition_key.partition,
        file_size_in_bytes=len(output),
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **writer.result().to_serialized_dict(),
    )


def _as_stored(rows: pa.Table, named: schema.Schema, stored: schema.Schema) -> pa.Table:
    """Return rows with the table's columns under the names and the ids that they have in files; missing ones are null.

    Args:
        rows: Rows with the column types of the table.
        named: The table's schema.
        stored: The same with names that files may have.
    """
    target = iceberg_arrow.schema_to_pyarrow(stored)
    columns = [
        pa.chunked_array([chunk.view(field.type) for chunk in rows.column(column.name).chunks], field.type)
        if column.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for column, field in zip(named.fields, target, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=target)


def _group_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(part.nbytes for part in waiting) >= FILE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _describe(table: Table, written: manifest.DataFile) -> DataFile:
    kinds = _kinds(table)
    values = [written.partition[position] for position in range(len(kinds))]
    return DataFile(
        path=written.file_path,
        spec_id=table.metadata.default_spec_id,
        partition=tuple(
            None if value is None else conversions.to_bytes(kind, value).hex()
            for kind, value in zip(kinds, values, strict=True)
        ),
        rows=written.record_count,
        size_bytes=written.file_size_in_bytes,
        column_sizes=dict(written.column_sizes or {}),
        value_counts=dict(written.value_counts or {}),
        null_value_counts=dict(written.null_value_counts or {}),
        nan_value_counts=dict(written.nan_value_counts or {}),
        lower_bounds=_hexadecimal(written.lower_bounds),
        upper_bounds=_hexadecimal(written.upper_bounds),
        split_offsets=tuple(written.split_offsets or ()),
    )


def _kinds(table: Table) -> list[types.PrimitiveType]:
    """Return the types of the partition values; Iceberg has no nested ones."""
    fields = table.metadata.spec().partition_type(table.metadata.schema()).fields
    return [field.field_type for field in fields if isinstance(field.field_type, types.PrimitiveType)]


def _hexadecimal(bounds: Mapping[int, bytes] | None) -> dict[int, str]:
    return {field: value.hex() for field, value in (bounds or {}).items()}
