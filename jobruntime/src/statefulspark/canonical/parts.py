"""Parquet parts on storage: each is written with one PUT; a damaged one is detected when it is read."""

from __future__ import annotations

import hashlib

import pyarrow as pa
from pyarrow import parquet

from statefulspark import errors, rowvalues
from statefulspark.canonical import documents
from statefulspark.storage.port import ObjectStore

FLUSH_BYTES = 32 << 20
"""Approximate encoded size of the state in one part."""


def write(store: ObjectStore, folder: str, path: str, table: pa.Table) -> documents.ParquetFile:
    """Write a part. Idempotent: another attempt may write the same part again.

    Args:
        store: Any store.
        folder: The query's folder below it.
        path: The part's path below that folder.
        table: Its rows.
    """
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    body: bytes = sink.getvalue().to_pybytes()
    store.write(f"{folder}/{path}", body)
    digest = hashlib.sha256(body).hexdigest()
    return documents.ParquetFile(path=path, rows=table.num_rows, size_bytes=len(body), sha256=digest)


def read(store: ObjectStore, folder: str, part: documents.ParquetFile) -> pa.Table:
    """Read a part and check it.

    Raises:
        SnapshotCorruptError: `CanonicalMissing` or `CanonicalUnreadable`, naming the file.
    """
    source = f"{store.uri}/{folder}/{part.path}"
    try:
        body = store.read(f"{folder}/{part.path}")
    except errors.ObjectNotFoundError as error:
        raise errors.SnapshotCorruptError(
            "CanonicalMissing", f"{source} does not exist; the savepoint is not complete. Restore another snapshot."
        ) from error
    if hashlib.sha256(body).hexdigest() != part.sha256:
        raise errors.SnapshotCorruptError(
            "CanonicalUnreadable",
            f"{source} is not the file that was written: its SHA-256 differs. Restore another snapshot.",
        )
    return parse(body, source)


def parse(body: bytes, source: str) -> pa.Table:
    """Read the content of a part.

    Raises:
        SnapshotCorruptError: `CanonicalUnreadable`, naming the source.
    """
    try:
        return parquet.read_table(pa.BufferReader(body))
    except rowvalues.PARQUET_ERRORS as error:
        raise errors.SnapshotCorruptError(
            "CanonicalUnreadable", f"{source} is not a Parquet file: {error}. Restore another snapshot."
        ) from error
