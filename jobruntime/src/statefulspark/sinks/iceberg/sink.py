"""The Iceberg sink: a batch is one snapshot of the table, which carries the sink's position.

Workers write data files into the table's own location. When a checkpoint that covers the batch is complete, the driver
appends them in one commit of the table that also sets the position, in the snapshot's summary for people and in a table
property, which outlives the expiry of snapshots. A commit is made on the table as it was looked at, or not at all: the
client's own retries are off, since they would commit a batch again that another driver has committed meanwhile. What a
conflict with another writer costs is another look, by the runtime's retry.

Opening the sink commits an empty snapshot with the driver's epoch, so that a commit which an older driver has under way
fails. Files of batches that are aborted are deleted; those of attempts that died before anybody recorded them are what
Iceberg's own removal of orphan files is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from statefulspark.sinks import kinds, secret

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.sinks.iceberg import client
    from statefulspark.storage import StorageOptions


@dataclass(frozen=True)
class IcebergSink:
    """Appends each batch to an Iceberg table in one snapshot.

    Attributes:
        table: Identifier in the catalog, for example `shop.orders`; it exists.
        catalog: The catalog's properties as pyiceberg takes them (`type`, `uri`, `warehouse`, …), secrets as `ss.Secret`.
            Without any `s3.` property the job's own object store and its credentials are used for the table's files.
        catalog_name: Under which its tables were made; a SQL catalog may hold those of several.
    """

    table: str
    catalog: Mapping[str, str | secret.Secret] = field(repr=False)
    catalog_name: str = "default"

    def check_schema(self, schema: pa.Schema, options: StorageOptions) -> None:
        """Refuse a stream that does not fit the table, column by column, before the query starts.

        Raises:
            SpecRejectedError: `SinkSchemaMismatch`, `IcebergTableMissing`, `IcebergRefused`.
            TransientError: `IcebergUnavailable`.
        """
        self._client(options).check(schema)

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Write one partition's rows as data files on a worker; no snapshot has them yet."""
        return self._client(context.options).write(batches)

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Name the data files of the batch."""
        from statefulspark.sinks.iceberg import datafiles

        written = [datafiles.WrittenFiles.parse(part, "a part of a sink's batch") for part in parts]
        if not written:
            return None
        files = tuple(file for part in written for file in part.files)
        return written[0].model_copy(update={"files": files}).to_json().encode()

    def open(self, context: SinkContext) -> None:
        """Fence drivers of older epochs.

        Raises:
            SpecRejectedError: `IcebergTableMissing`, `IcebergRefused`, `SecretMissing`, `ExtraMissing`.
            TransientError: `IcebergUnavailable`, or `IcebergRaced`: another writer committed meanwhile.
            FencedError: A newer epoch has opened the sink.
        """
        self._client(context.options).open(context)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Append the batch and move the position; does nothing if that has been done.

        Raises:
            TransientError: `IcebergUnavailable`, `IcebergRaced`: call again.
            FencedError: A newer epoch has opened the sink.
            StateUnknownError: `IcebergPartitioningChanged`, `IcebergTableReplaced`.
        """
        self._client(context.options).commit(transaction, context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Delete the data files of a batch that will never be committed, unless it has been after all."""
        self._client(context.options).abort(transaction, context)

    def _client(self, options: StorageOptions) -> client.Client:
        kinds.ICEBERG.require_client()
        from statefulspark.sinks.iceberg import client

        return client.Client(self.table, self.catalog_name, secret.reveal_all(self.catalog), options)
