"""The Iceberg sink: a batch is in one snapshot of the table, with the sink's position. Batches that wait share a snapshot.

Workers write data files to the table's location. When the batch is to be visible, the driver appends them in one
table commit that also sets the position, twice: in the snapshot's summary, which tells what the table has, and in a table
property that outlives the expiry of snapshots (`witnesses`). A commit succeeds only on the table version that was read, and
is one attempt: a repetition by the client could commit a batch again that another driver has committed meanwhile. Whether
it has happened is read from the table (`commits`). After a conflict with another writer the runtime retries with the new
table version.

Opening the sink commits an empty snapshot with the driver's epoch, so that running commits of older drivers fail. Files of
aborted batches are deleted; files of attempts that died before they were recorded are removed by Iceberg's orphan file
removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from statefulspark.sinks import kinds, secret, visibility
from statefulspark.sinks.base import Machine, Sink
from statefulspark.storage import StorageOptions

if TYPE_CHECKING:
    from statefulspark.sinks import marker
    from statefulspark.sinks.base import SinkContext, TwoPhaseSink
    from statefulspark.sinks.iceberg import client


@dataclass(frozen=True)
class IcebergSink(Sink):
    """Appends each batch to an Iceberg table in one snapshot, with batches that wait together.

    Attributes:
        table: Identifier in the catalog, for example `shop.orders`; it exists.
        catalog: The catalog's properties for pyiceberg (`type`, `uri`, `warehouse`, …), secrets as `ss.Secret`.
            Without any `s3.` property the job's object store and its credentials are used for the table's files.
        catalog_name: Name of the catalog that created its tables; a SQL catalog may have tables of several names.
        visible: `checkpoint`: a batch is visible when a checkpoint covers it; `batch`: as soon as Spark has committed it.
    """

    table: str
    _: KW_ONLY
    catalog: Mapping[str, str | secret.Secret] = field(repr=False)
    catalog_name: str = "default"
    visible: visibility.Visibility | Literal["checkpoint", "batch"] = visibility.Visibility.CHECKPOINT

    def __post_init__(self) -> None:
        """Reject an unknown visibility.

        Raises:
            InvalidArgumentError: `SinkSettingRefused`.
        """
        visibility.parse(self.visible, kinds.ICEBERG.name)

    def _machine(self) -> TwoPhaseSink:
        return IcebergMachine(self)


class IcebergMachine(Machine[IcebergSink]):
    """Writes the data files of a table, and appends them to it."""

    def check_schema(self, schema: pa.Schema, options: StorageOptions) -> None:
        """Reject a stream whose columns do not fit the table, before the query starts.

        Raises:
            SpecRejectedError: `SinkSchemaMismatch`, `IcebergTableMissing`, `IcebergRefused`.
            TransientError: `IcebergUnavailable`.
        """
        self._client(options).check(schema)

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Write the rows of one partition as data files on a worker; no snapshot contains them yet."""
        return self._client(context.options).write(batches)

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Return the list of data files of the batch."""
        from statefulspark.sinks.iceberg import datafiles

        written = [datafiles.WrittenFiles.parse(part, "a part of a sink's batch") for part in parts]
        if not written:
            return None
        files = tuple(file for part in written for file in part.files)
        return written[0].model_copy(update={"files": files}).to_json().encode()

    def merge(self, earlier: bytes, later: bytes) -> bytes | None:
        """Return one transaction for two batches with few files, so that they are one snapshot."""
        from statefulspark.sinks.iceberg import datafiles

        return datafiles.merge(earlier, later)

    @property
    def target(self) -> str:
        """The catalog's address and the table."""
        return self._client(StorageOptions()).target

    def stored_marker(self, context: SinkContext) -> marker.Marker | None:
        """Read the position from the table.

        Raises:
            SpecRejectedError, TransientError, StateUnknownError: See `open`.
        """
        return self._client(context.options).stored_marker(context)

    def open(self, context: SinkContext) -> None:
        """Fence drivers of older epochs.

        Raises:
            SpecRejectedError: `IcebergTableMissing`, `IcebergAccessDenied`, `IcebergRefused`, `SecretMissing`,
                `ExtraMissing`.
            TransientError: `IcebergUnavailable`, or `IcebergRaced`: another writer committed meanwhile.
            FencedError: A newer epoch has opened the sink.
            StateUnknownError: `IcebergMarkerMissing`.
        """
        self._client(context.options).open(context)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Append the batch and set the position; no effect if already done.

        Raises:
            TransientError: `IcebergUnavailable`, `IcebergRaced`: call again.
            FencedError: A newer epoch has opened the sink.
            StateUnknownError: `IcebergPartitioningChanged`, `IcebergTableReplaced`, `IcebergMarkerMissing`,
                `SinkMarkerMissing`, `SinkBehind`.
        """
        self._client(context.options).commit(transaction, context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Delete the data files of a batch that will never be committed, unless it was committed."""
        self._client(context.options).abort(transaction, context)

    def _client(self, options: StorageOptions) -> client.IcebergClient:
        kinds.ICEBERG.require_client()
        from statefulspark.sinks.iceberg import client

        given = self.settings
        properties, values = secret.reveal_all(given.catalog), tuple(given.catalog.values())
        return client.IcebergClient(given.table, given.catalog_name, properties, options, values)
