"""Access of the Iceberg sink to catalog and table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never
from urllib.parse import urlsplit

import pyarrow as pa
import pyiceberg.exceptions as iceberg_errors
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow

from statefulspark import errors
from statefulspark.contract.rights import SinkRight
from statefulspark.judgement import Judgement, Remedy
from statefulspark.sinks import marker, marker_errors, secret, standing
from statefulspark.sinks.iceberg import columntypes, commits, datafiles, imprints, judgements

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from statefulspark.sinks.base import SinkContext
    from statefulspark.storage import StorageOptions

_DEFAULTS = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
"""Writes a small file with one PUT; Arrow's client uses multipart uploads, which not every server supports."""
_ABSENT = (iceberg_errors.NoSuchTableError, iceberg_errors.NoSuchNamespaceError)


@dataclass(frozen=True, slots=True)
class IcebergClient:
    """One table of one catalog.

    Attributes:
        table: Its identifier.
        catalog: The catalog's name.
        properties: Properties of the catalog, with resolved secrets.
        storage: The job's object store, used when there are no S3 properties.
        given: The values of the properties as the job gives them.
    """

    table: str
    catalog: str
    properties: Mapping[str, str] = field(repr=False)
    storage: StorageOptions
    given: tuple[str | secret.Secret, ...] = field(default=(), repr=False)

    @property
    def target(self) -> str:
        """Where the table is, for comparisons."""
        catalog = urlsplit(self.properties.get("uri", ""))
        address = f"{catalog.hostname or ''}{catalog.path}"
        return f"iceberg://{address}/{self.catalog}/{self.table}"

    def check(self, schema: pa.Schema) -> None:
        """Compare a stream's columns with the table's; see `IcebergMachine.check_schema`."""
        with self._translating("look at"):
            table_schema = schema_to_pyarrow(self._load().schema(), include_field_ids=False)
        problems = columntypes.mismatches(schema, table_schema)
        if problems:
            raise errors.SpecRejectedError(
                "SinkSchemaMismatch", f"The stream does not fit the table {self.table}: {'; '.join(problems)}."
            )

    def write(self, batches: Iterator[pa.RecordBatch]) -> bytes | None:
        """Write rows as data files and describe them; None if there are none."""
        with self._translating("write files of"):
            table = self._load()
            table_schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
            fitted = (columntypes.fit(batch, table_schema) for batch in batches)
            files = tuple(datafiles.write(table, fitted))
        if not files:
            return None
        written = datafiles.WrittenFiles(table=self.table, table_uuid=str(table.metadata.table_uuid), files=files)
        return written.to_json().encode()

    def open(self, context: SinkContext) -> None:
        """Commit an empty snapshot with this driver's epoch; see `IcebergMachine.open`."""
        with self._translating("open"):
            table = self._load()
            self._append(table, (), marker.open_marker(self._marker(table, context), context, self._where), context)

    def stored_marker(self, context: SinkContext) -> marker.Marker | None:
        """Read the position; None if the sink was never opened."""
        with self._translating("look at"):
            return self._marker(self._load(), context)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Append a batch once; see `IcebergMachine.commit`."""
        written = self._parse(transaction, context)
        with commits.turn(self.target), self._translating(f"commit batch {context.batch_id} to"):
            table = self._load()
            reached = marker.require_newest(self._marker(table, context), context, self._where)
            if reached.covers(context):
                return
            if written.table_uuid != str(table.metadata.table_uuid):
                raise errors.StateUnknownError(
                    "IcebergTableReplaced",
                    f"Batch {context.batch_id} was prepared for another table with the name {self.table} (uuid "
                    f"{written.table_uuid}, now {table.metadata.table_uuid}); restore that table, or start the job with "
                    "fresh state.",
                )
            self._append(table, self._safe_files(table, written, context), reached.after(context), context)

    def _safe_files(
        self, table: Table, written: datafiles.WrittenFiles, context: SinkContext
    ) -> tuple[datafiles.DataFile, ...]:
        """Return the files to append: each file exists, and no snapshot that the table has left names one of them.

        A batch that waited for long may have lost its files to the removal of orphans, and the folder of the table may
        go back to a backup or a replica while the catalog stays; so each file is looked up, whoever has written it. A table
        that was set back still has the left snapshot of a batch that is committed again; its expiry deletes the files that
        it added. Cost: a HEAD for each file, concurrently.
        """
        missing = datafiles.missing(table, written.files)
        if missing:
            raise errors.StateUnknownError(
                "StagedRowsMissing",
                f"Batch {context.batch_id} of the sink {context.uid!r} was prepared for the table {self.table}, and its "
                f"file {missing[0]} is not there any more ({len(missing)} of {len(written.files)} are missing); it was "
                "removed as an orphan, or with a snapshot that expired, or the folder of the table went back to an older "
                "moment. Bring it back, or start from newer state.",
            )
        is_left = any(imprints.writer_of(snapshot, context) == context.epoch for snapshot in table.snapshots())
        return tuple(datafiles.copied(table, file) for file in written.files) if is_left else written.files

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Delete the files of a batch unless it was committed; see `IcebergMachine.abort`."""
        written = self._parse(transaction, context)
        with self._translating(f"abort batch {context.batch_id} of"):
            table = self._load()
            for path in self._unused(table, [file.path for file in written.files], context):
                try:
                    table.io.delete(path)
                except FileNotFoundError:
                    continue

    def _unused(self, table: Table, paths: Sequence[str], context: SinkContext) -> Iterable[str]:
        """Return the files that no reader needs; another attempt at the same batch may have been committed."""
        for snapshot in table.snapshots():
            writer = imprints.writer_of(snapshot, context)
            if writer is not None:
                return () if writer == context.epoch else paths
        reached = imprints.reached(table, context).marker
        if reached is not None and not reached.covers(context):
            return paths
        # Its snapshot has expired, or never existed: check the current files of the table.
        current_files = {task.file.file_path for task in table.scan().plan_files()}
        return [path for path in paths if path not in current_files]

    def _load(self) -> Table:
        of_store = {
            "s3.endpoint": self.storage.endpoint,
            "s3.region": self.storage.region,
            "s3.access-key-id": self.storage.access_key,
            "s3.secret-access-key": self.storage.secret_key,
            "s3.session-token": self.storage.session_token,
        }
        has_own = any(key.startswith("s3.") for key in self.properties)
        defaults = _DEFAULTS | {key: value for key, value in of_store.items() if value and not has_own}
        return load_catalog(self.catalog, **(defaults | dict(self.properties))).load_table(self.table)

    def _parse(self, transaction: bytes, context: SinkContext) -> datafiles.WrittenFiles:
        source = f"the prepared batch {context.batch_id} of the sink {context.uid}"
        return datafiles.WrittenFiles.parse(transaction, source)

    @property
    def _where(self) -> str:
        return f"the table {self.table}"

    def _append(
        self, table: Table, files: tuple[datafiles.DataFile, ...], after: marker.Marker, context: SinkContext
    ) -> None:
        described = [datafiles.manifest_entry(table, file) for file in files]
        wrote = context.epoch if files else None
        commits.append(
            table,
            described,
            imprints.summary(after, context, wrote=wrote),
            lambda snapshot: imprints.table_property(after, snapshot, context),
        )

    def _marker(self, table: Table, context: SinkContext) -> marker.Marker | None:
        """Return the marker; None if the sink is new here, or is to write after whatever is there."""
        witnessed = imprints.reached(table, context)
        if witnessed.is_unknown and SinkRight.REPEAT not in context.descent.rights:
            needed = marker_errors.right(context, *standing.FOR_UNKNOWN_ROWS)
            raise errors.StateUnknownError(
                "IcebergMarkerMissing",
                f"It is unknown which batches of the sink {context.uid!r} are in the table {self.table}: neither the "
                f"property {imprints.property_name(context)} nor the snapshots that the table still has tell it, although "
                f"{witnessed.finding}. Set the table to a snapshot with the last commit of this sink; or remove the sink's "
                f"rows from it, and give the sink its own uid, or start with {needed}, which keeps what is "
                "there and writes after it.",
            )
        return witnessed.marker

    @contextmanager
    def _translating(self, action: str) -> Iterator[None]:
        try:
            yield
        except commits.ConflictError as error:
            raise errors.TransientError(
                "IcebergRaced",
                f"Could not {action} the table {self.table}: another writer committed at the same time.",
            ) from error
        except errors.StatefulSparkError:
            raise
        except Exception as error:
            judgement = judgements.judge_error(error, _one_line(error))
            if judgement is None:
                raise
            raise self._translated(error, judgement, action) from error

    def _translated(self, error: Exception, judgement: Judgement, action: str) -> errors.StatefulSparkError:
        message = f"Could not {action} the table {self.table}: {_one_line(error)}; {judgement.advice}"
        match judgement.remedy:
            case Remedy.WAIT:
                return errors.TransientError("IcebergUnavailable", f"{message}.")
            case Remedy.LOST_RACE:
                return errors.TransientError("IcebergRaced", f"{message}.")
            case Remedy.CREDENTIALS:
                return secret.credentials_refused("IcebergAccessDenied", message, self.given)
            case Remedy.RIGHTS:
                return errors.SpecRejectedError("IcebergAccessDenied", f"{message}.")
            case Remedy.PERSON if isinstance(error, _ABSENT):
                return errors.SpecRejectedError(
                    "IcebergTableMissing",
                    f"The table {self.table} does not exist. A sink creates no table; create it first.",
                )
            case Remedy.PERSON:
                return errors.SpecRejectedError("IcebergRefused", f"{message}.")
            case _ as never:
                assert_never(never)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
