"""What the Iceberg sink asks of catalog and table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyiceberg.exceptions as refusals
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import TableProperties

from statefulspark import errors
from statefulspark.sinks import marker
from statefulspark.sinks.iceberg import columntypes, datafiles

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from statefulspark.sinks.base import SinkContext
    from statefulspark.storage import StorageOptions

PREFIX = "statefulspark."
"""Of everything that the sink sets on snapshots and tables."""
_WRITER = f"{PREFIX}epoch"
"""In a batch's snapshot: the epoch that wrote the batch."""
_OPENER = f"{PREFIX}opened-by-epoch"
"""In the empty snapshot of an opening."""
_DEFAULTS = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
"""One PUT for a small file, where Arrow's own client makes a multipart upload of each, which not every server takes."""
_RACED = (refusals.CommitFailedException, refusals.ValidationException)
_UNKNOWN = (refusals.CommitStateUnknownException, refusals.ServerError, refusals.ServiceUnavailableError)
_DENIED = (refusals.UnauthorizedError, refusals.ForbiddenError, refusals.AuthorizationExpiredError)
_ABSENT = (refusals.NoSuchTableError, refusals.NoSuchNamespaceError)


@dataclass(frozen=True, slots=True)
class Client:
    """One table of one catalog.

    Attributes:
        table: Its identifier.
        catalog: The catalog's name.
        properties: The catalog's, with secrets looked up.
        storage: The job's object store, used when the properties say nothing of S3.
    """

    table: str
    catalog: str
    properties: Mapping[str, str] = field(repr=False)
    storage: StorageOptions

    def check(self, schema: pa.Schema) -> None:
        """Compare a stream's columns with the table's; see `IcebergSink.check_schema`."""
        with self._translating("look at"):
            wanted = schema_to_pyarrow(self._load().schema(), include_field_ids=False)
        problems = columntypes.mismatches(schema, wanted)
        if problems:
            raise errors.SpecRejectedError(
                "SinkSchemaMismatch", f"The stream does not fit the table {self.table}: {'; '.join(problems)}."
            )

    def write(self, batches: Iterator[pa.RecordBatch]) -> bytes | None:
        """Write rows as data files and describe them; None if there are none."""
        with self._translating("write files of"):
            table = self._load()
            wanted = schema_to_pyarrow(table.schema(), include_field_ids=False)
            fitted = (columntypes.fit(batch, wanted) for batch in batches)
            files = tuple(datafiles.write(table, fitted))
        if not files:
            return None
        written = datafiles.WrittenFiles(table=self.table, table_uuid=str(table.metadata.table_uuid), files=files)
        return written.to_json().encode()

    def open(self, context: SinkContext) -> None:
        """Commit an empty snapshot with this driver's epoch; see `IcebergSink.open`."""
        with self._translating("open"):
            table = self._load()
            reached = marker.admitted(_marker_of(table, context), context, self._where)
            self._append(table, (), reached, context)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Append a batch once; see `IcebergSink.commit`."""
        written = self._parse(transaction, context)
        with self._translating(f"commit batch {context.batch_id} to"):
            table = self._load()
            reached = _marker_of(table, context) or marker.NOTHING
            marker.require_newest(reached, context, self._where)
            if reached.covers(context):
                return
            if written.table_uuid != str(table.metadata.table_uuid):
                raise errors.StateUnknownError(
                    "IcebergTableReplaced",
                    f"Batch {context.batch_id} was prepared for another table that was called {self.table} (uuid "
                    f"{written.table_uuid}, now {table.metadata.table_uuid}); bring that one back, or start the job with "
                    "fresh state.",
                )
            self._append(table, written.files, reached.after(context), context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Delete the files of a batch unless it was committed; see `IcebergSink.abort`."""
        written = self._parse(transaction, context)
        with self._translating(f"abort batch {context.batch_id} of"):
            table = self._load()
            for path in self._unused(table, [file.path for file in written.files], context):
                try:
                    table.io.delete(path)
                except FileNotFoundError:
                    continue

    def _unused(self, table: Table, paths: Sequence[str], context: SinkContext) -> Iterable[str]:
        """Return those files that no reader needs; another attempt at the same batch may have been committed instead."""
        if not (_marker_of(table, context) or marker.NOTHING).covers(context):
            return paths
        for snapshot in table.snapshots():
            said = {} if snapshot.summary is None else snapshot.summary.additional_properties
            if said.items() >= _identity(context).items():
                return () if said.get(_WRITER) == str(context.epoch) else paths
        # Its snapshot has expired, or there never was one: what the table holds now tells.
        held = {task.file.file_path for task in table.scan().plan_files()}
        return [path for path in paths if path not in held]

    def _load(self) -> Table:
        properties = _DEFAULTS | _s3_properties(self.properties, self.storage) | dict(self.properties)
        return load_catalog(self.catalog, **properties).load_table(self.table)

    def _parse(self, transaction: bytes, context: SinkContext) -> datafiles.WrittenFiles:
        source = f"the prepared batch {context.batch_id} of the sink {context.uid}"
        return datafiles.WrittenFiles.parse(transaction, source)

    @property
    def _where(self) -> str:
        return f"the table {self.table}"

    def _append(
        self, table: Table, files: tuple[datafiles.DataFile, ...], after: marker.Marker, context: SinkContext
    ) -> None:
        # Retrying is the runtime's, after another look at the marker. This changes our copy of the table alone.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        described = [datafiles.restored(table, file) for file in files]
        summary = {**_identity(context), _WRITER: str(context.epoch)} if files else {_OPENER: str(after.epoch)}
        transaction = table.transaction()
        transaction.set_properties({_property(context): after.to_json()})
        with transaction.update_snapshot(snapshot_properties=summary).fast_append() as append:
            for file in described:
                append.append_data_file(file)
        transaction.commit_transaction()

    @contextmanager
    def _translating(self, action: str) -> Iterator[None]:
        where = f"Could not {action} the table {self.table}"
        try:
            yield
        except _ABSENT as error:
            raise errors.SpecRejectedError(
                "IcebergTableMissing", f"There is no table {self.table}, and a sink creates none; create it first."
            ) from error
        except _RACED as error:
            raise errors.TransientError(
                "IcebergRaced", f"{where}: another writer committed at the same time.", retry_after_s=0.5
            ) from error
        except _DENIED as error:
            raise errors.SpecRejectedError(
                "IcebergAccessDenied", f"{where}: {_said(error)}; check the catalog's credentials."
            ) from error
        except (*_UNKNOWN, OSError) as error:
            raise errors.TransientError("IcebergUnavailable", f"{where}: {_said(error)}.") from error
        except (refusals.RESTError, ValueError) as error:
            raise errors.SpecRejectedError("IcebergRefused", f"{where}: {_said(error)}.") from error


def _identity(context: SinkContext) -> dict[str, str]:
    """Return what a snapshot says about the batch that it is."""
    return {
        **({f"{PREFIX}lineage": context.lineage} if context.lineage else {}),
        f"{PREFIX}sink": context.transactional_id,
        f"{PREFIX}generation": str(context.generation),
        f"{PREFIX}batch": str(context.batch_id),
    }


def _property(context: SinkContext) -> str:
    return f"{PREFIX}marker.{context.transactional_id}"


def _marker_of(table: Table, context: SinkContext) -> marker.Marker | None:
    name = _property(context)
    found = table.properties.get(name)
    return None if found is None else marker.Marker.parse(found, f"The property {name} of the table")


def _s3_properties(properties: Mapping[str, str], storage: StorageOptions) -> dict[str, str]:
    if any(key.startswith("s3.") for key in properties):
        return {}
    known = {
        "s3.endpoint": storage.endpoint,
        "s3.region": storage.region,
        "s3.access-key-id": storage.access_key,
        "s3.secret-access-key": storage.secret_key,
        "s3.session-token": storage.session_token,
    }
    return {key: value for key, value in known.items() if value}


def _said(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
