"""The PostgreSQL sink: a batch's rows and the sink's position change in one transaction.

Workers stage rows on the job's object store. When the batch is to be visible, the driver locks the sink's row in
the marker table, sends the rows by COPY unless the batch is already committed, sets the position, and
commits. After any failure and any number of retries, each row exists once. The lock also fences: a driver of an older epoch
finds a newer one in the row and stops. One that stands still with the lock is ended by its successor (`transactions`).

The marker table is `statefulspark_sinks`, created in the table's schema if missing: one row per sink, to be kept as long
as the job may be started again. The user needs INSERT on the target (for upserts SELECT and UPDATE too, and TEMP on the
database), and CREATE on the schema once. What it lacks is found before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from statefulspark.sinks import kinds, secret, staging, visibility
from statefulspark.sinks.base import Machine, Sink
from statefulspark.sinks.postgres import columntypes, limits

if TYPE_CHECKING:
    from statefulspark.sinks import marker
    from statefulspark.sinks.base import SinkContext, TwoPhaseSink
    from statefulspark.storage import StorageOptions


@dataclass(frozen=True)
class PostgresSink(Sink):
    """Writes each batch to a PostgreSQL table in one transaction, with small batches that wait together.

    Attributes:
        table: `schema.table`, or `table` on the search path; it exists.
        dsn: Connection string or URL, with its password as a secret: `ss.Secret.env("PG_DSN")`.
        upsert_by: A column with a unique index, or several: a row replaces the one with the same values in them; the last
            one in a batch wins. Empty appends.
        visible: `checkpoint`: a batch is visible when a checkpoint covers it; `batch`: as soon as Spark has committed it.
    """

    table: str
    _: KW_ONLY
    dsn: str | secret.Secret = field(repr=False)
    upsert_by: str | Sequence[str] = ()
    visible: visibility.Visibility | Literal["checkpoint", "batch"] = visibility.Visibility.CHECKPOINT

    def __post_init__(self) -> None:
        """Reject an unknown visibility.

        Raises:
            InvalidArgumentError: `SinkSettingRefused`.
        """
        visibility.parse(self.visible, kinds.POSTGRES.name)
        columns = (self.upsert_by,) if isinstance(self.upsert_by, str) else tuple(self.upsert_by)
        object.__setattr__(self, "upsert_by", columns)

    def _machine(self) -> TwoPhaseSink:
        return PostgresMachine(self)


class PostgresMachine(Machine[PostgresSink]):
    """Stages the rows of a table, and copies them into it."""

    def __init__(self, settings: PostgresSink) -> None:
        super().__init__(settings)
        self._columns: dict[str, columntypes.TableColumn] = {}
        """The table's columns at the start, by name; they go to workers with the sink."""

    @property
    def takes_batches_again(self) -> bool:
        """Whether rows that come once more replace those that are there."""
        return bool(self.settings.upsert_by)

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Stage the rows of one partition on a worker; nothing is sent to PostgreSQL.

        Raises:
            SpecRejectedError: `RowUnsupported`: the table never stores a value.
        """
        return staging.stage((limits.storable(batch, self._columns) for batch in batches), context)

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Return the list of staged files of the batch."""
        staged = staging.merge(parts)
        return None if staged is None else staged.to_json().encode()

    def merge(self, earlier: bytes, later: bytes) -> bytes | None:
        """Return one transaction for two small batches."""
        return staging.merge_batches(earlier, later)

    def check_schema(self, schema: pa.Schema, options: StorageOptions) -> None:
        """Reject a stream whose columns do not fit the table, before the query starts.

        Raises:
            SpecRejectedError: `SinkSchemaMismatch`, `PostgresTableMissing`, `PostgresKeyMissing`, `PostgresAccessDenied`,
                `PostgresRefused`.
            TransientError: `PostgresUnavailable`.
        """
        self._columns.update((column.name, column) for column in self._client().check(schema))

    @property
    def target(self) -> str:
        """Host, port, database and table."""
        return self._client().target

    def stored_marker(self, context: SinkContext) -> marker.Marker | None:
        """Read the sink's row without a lock.

        Raises:
            SpecRejectedError, TransientError: See `open`.
        """
        return self._client().stored_marker(context)

    def open(self, context: SinkContext) -> None:
        """Create the marker table if missing, and fence drivers of older epochs.

        Raises:
            SpecRejectedError: `PostgresTableMissing`, `PostgresAccessDenied`, `SecretMissing`, `ExtraMissing`.
            TransientError: `PostgresUnavailable`, or `PostgresLocked`: another transaction holds the sink's row.
            FencedError: A newer epoch has opened the sink.
        """
        self._client().open(context)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Write the batch and set the position; no effect if already done.

        Raises:
            SpecRejectedError: `PostgresRefused`: the table rejects a row, for example by a constraint.
            TransientError: `PostgresUnavailable`, `PostgresLocked`: call again.
            FencedError: A newer epoch has opened the sink.
            StateUnknownError: `SinkMarkerMissing`, `SinkBehind`, `StagedRowsMissing`.
        """
        staged = staging.parse(transaction, context)
        self._client().commit(staged, context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Leave the staged rows to retention: nothing was sent."""

    def _client(self) -> client.PostgresClient:
        kinds.POSTGRES.require_client()
        from statefulspark.sinks.postgres import client

        given = self.settings
        return client.PostgresClient(secret.reveal(given.dsn), given.table, tuple(given.upsert_by), given.dsn)


if TYPE_CHECKING:
    from statefulspark.sinks.postgres import client
