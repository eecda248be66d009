"""Parquet parts on storage: written with one PUT each and read back checked, so that a damaged one is named and not used."""

from __future__ import annotations

import hashlib

import pyarrow as pa
from pyarrow import parquet

from statefulspark import errors
from statefulspark.canonical import documents
from statefulspark.storage.port import ObjectStore

FLUSH_BYTES = 32 << 20
"""State is gathered up to about this size, encoded, before it becomes a part."""


def write(store: ObjectStore, folder: str, path: str, table: pa.Table) -> documents.PartFile:
    """Write a part; the same part written again by another attempt is fine.

    Args:
        store: Any store.
        folder: The query's folder in it.
        path: The part's path below that folder.
        table: Its rows.
    """
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    body: bytes = sink.getvalue().to_pybytes()
    store.write(f"{folder}/{path}", body)
    digest = hashlib.sha256(body).hexdigest()
    return documents.PartFile(path=path, rows=table.num_rows, size_bytes=len(body), sha256=digest)


def read(store: ObjectStore, folder: str, part: documents.PartFile) -> pa.Table:
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
    try:
        return parquet.read_table(pa.BufferReader(body))
    except pa.ArrowException as error:
        raise errors.SnapshotCorruptError(
            "CanonicalUnreadable", f"{source} is no Parquet file: {error}. Restore another snapshot."
        ) from error
