"""Access of the PostgreSQL sink to the server: one connection for each operation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
import psycopg.conninfo
from psycopg import sql

from statefulspark import errors
from statefulspark.sinks import marker, staging
from statefulspark.sinks.postgres import columntypes

if TYPE_CHECKING:
    import pyarrow as pa

    from statefulspark.sinks.base import SinkContext

MARKER_TABLE = "statefulspark_sinks"
_ADDED = ("lineage", "root", "reached_in")
"""Columns of the marker table that releases without lineages did not create."""
_MARKER = ("generation", "batch_id", "epoch", *_ADDED)
"""Fields of the marker, with columns of the same names."""
_LOCK_TIMEOUT = "30s"
_SETTINGS = (
    # A disconnected driver must not hold the row's lock for long.
    "-c tcp_keepalives_idle=20 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 "
    f"-c idle_in_transaction_session_timeout=60s -c lock_timeout={_LOCK_TIMEOUT}"
)
_COLUMNS = """
SELECT a.attname, t.typname, t.typtype = 'e', a.attnotnull AND NOT a.atthasdef AND a.attidentity = '',
       a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE = """
SELECT array_agg(a.attname::text)
FROM pg_index i JOIN pg_attribute a
  ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid
"""


_PARTS = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
"""The parts of a table's name: quoted, or plain."""


@dataclass(frozen=True, slots=True)
class PostgresClient:
    """One table of one database.

    Attributes:
        dsn: Connection string with the password.
        table: `schema.table` or `table`. Each part is taken as it is written, with its case; a part in double quotes may
            have a dot in it.
        upsert_by: Key columns; empty appends.
    """

    dsn: str = field(repr=False)
    table: str
    upsert_by: tuple[str, ...]

    @property
    def where(self) -> str:
        """A description of the table without credentials."""
        try:
            parameters = psycopg.conninfo.conninfo_to_dict(self.dsn)
        except psycopg.ProgrammingError:
            return f"the table {self.table}"
        host, port = parameters.get("host") or "localhost", parameters.get("port") or "5432"
        return f"the table {self.table} of {parameters.get('dbname') or 'the default database'} at {host}:{port}"

    def check(self, schema: pa.Schema) -> None:
        """Compare a stream's columns with the table's; see `PostgresSink.check_schema`."""
        with self._connected("look at") as connection:
            oid, _ = self._find_table(connection)
            columns = self._columns(connection)
            keys = [frozenset(row[0]) for row in connection.execute(_UNIQUE, [oid])]
        problems = list(columntypes.mismatches(schema, columns))
        problems += [
            f"{key} is a key column and is not in the stream" for key in self.upsert_by if key not in schema.names
        ]
        if problems:
            raise errors.SpecRejectedError(
                "SinkSchemaMismatch", f"The stream does not fit {self.where}: {'; '.join(problems)}."
            )
        if self.upsert_by and frozenset(self.upsert_by) not in keys:
            raise errors.SpecRejectedError(
                "PostgresKeyMissing",
                f"upsert_by names {', '.join(self.upsert_by)}, and no unique index of {self.where} has exactly these "
                "columns; create one, or a primary key.",
            )

    def open(self, context: SinkContext) -> None:
        """Raise the epoch in the sink's row; see `PostgresSink.open`."""
        with self._connected("open") as connection, connection.transaction():
            markers = self._markers(connection)
            self._ensure_markers(connection, markers)
            inserted = connection.execute(
                sql.SQL(
                    "INSERT INTO {} (sink, generation, batch_id, epoch) VALUES (%s, 0, -1, 0) ON CONFLICT DO NOTHING"
                ).format(markers),
                [context.transactional_id],
            )
            stored = self._lock_marker(connection, markers, context)
            reached = marker.open_marker(None if inserted.rowcount else stored, context, self.where)
            self._update_marker(connection, markers, context, reached)

    def stored_marker(self, context: SinkContext) -> marker.Marker | None:
        """Read the sink's row; None if there is none, or if a release without lineages wrote the table."""
        with self._connected("look at") as connection:
            markers = self._markers(connection)
            if not self._has_columns(connection, markers):
                return None
            row = connection.execute(
                sql.SQL("SELECT {} FROM {} WHERE sink = %s").format(_marker_columns(), markers),
                [context.transactional_id],
            ).fetchone()
        return None if row is None else marker.Marker(**dict(zip(_MARKER, row, strict=True)))

    def commit(self, staged: staging.StagedRows, context: SinkContext) -> marker.Marker:
        """Write a batch once; return the new position; see `PostgresSink.commit`."""
        with self._connected(f"commit batch {context.batch_id} to") as connection, connection.transaction():
            markers = self._markers(connection)
            reached = self._lock_marker(connection, markers, context)
            marker.require_newest(reached, context, self.where)
            if reached.covers(context):
                return reached
            self._copy(connection, staged, context)
            after = reached.after(context)
            self._update_marker(connection, markers, context, after)
            return after

    def _find_table(self, connection: psycopg.Connection) -> tuple[int, str]:
        row = connection.execute(
            "SELECT c.oid, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(%s)",
            [self._name.as_string(connection)],
        ).fetchone()
        if row is None:
            raise errors.SpecRejectedError(
                "PostgresTableMissing", f"Could not find {self.where}, and a sink creates none; create it first."
            )
        return row[0], row[1]

    def _columns(self, connection: psycopg.Connection) -> list[columntypes.TableColumn]:
        oid, _ = self._find_table(connection)
        return [columntypes.TableColumn(*row) for row in connection.execute(_COLUMNS, [oid])]

    @property
    def _name(self) -> sql.Identifier:
        parts = (quoted.replace('""', '"') or plain for quoted, plain in _PARTS.findall(self.table))
        return sql.Identifier(*parts)

    def _markers(self, connection: psycopg.Connection) -> sql.Identifier:
        return sql.Identifier(self._find_table(connection)[1], MARKER_TABLE)

    def _ensure_markers(self, connection: psycopg.Connection, markers: sql.Identifier) -> None:
        exists = connection.execute("SELECT to_regclass(%s)", [markers.as_string(connection)]).fetchone()
        if exists is not None and exists[0] is not None:
            self._add_columns(connection, markers)
            return
        # Two sinks that open at once could both create it; IF NOT EXISTS alone does not prevent that.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [MARKER_TABLE])
        connection.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (sink text PRIMARY KEY, generation bigint NOT NULL, "
                "batch_id bigint NOT NULL, epoch bigint NOT NULL, changed_at timestamptz NOT NULL DEFAULT now(), {})"
            ).format(markers, sql.SQL(", ").join(sql.SQL("{} text").format(name) for name in _names(_ADDED)))
        )

    def _add_columns(self, connection: psycopg.Connection, markers: sql.Identifier) -> None:
        """Add columns to a marker table of a release without lineages."""
        if self._has_columns(connection, markers):
            return
        additions = sql.SQL(", ").join(
            sql.SQL("ADD COLUMN IF NOT EXISTS {} text").format(name) for name in _names(_ADDED)
        )
        change = sql.SQL("ALTER TABLE {} {}").format(markers, additions)
        try:
            connection.execute(change)
        except psycopg.errors.InsufficientPrivilege as error:
            raise errors.SpecRejectedError(
                "PostgresMarkersOutdated",
                f"The table {MARKER_TABLE} beside {self.where} lacks columns of this release, and the user may not add "
                f"them; its owner must run: {change.as_string(connection)}",
            ) from error

    def _has_columns(self, connection: psycopg.Connection, markers: sql.Identifier) -> bool:
        """Tell whether the marker table exists with the columns of this release."""
        has = connection.execute(
            "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = ANY(%s) AND NOT attisdropped",
            [markers.as_string(connection), list(_ADDED)],
        ).fetchone()
        return has is not None and has[0] == len(_ADDED)

    def _lock_marker(
        self, connection: psycopg.Connection, markers: sql.Identifier, context: SinkContext
    ) -> marker.Marker:
        row = connection.execute(
            sql.SQL("SELECT {} FROM {} WHERE sink = %s FOR UPDATE").format(_marker_columns(), markers),
            [context.transactional_id],
        ).fetchone()
        if row is None:
            raise errors.StateUnknownError(
                "PostgresMarkerMissing",
                f"The row {context.transactional_id!r} of {MARKER_TABLE} beside {self.where} is missing, so it is unknown "
                f"whether batch {context.batch_id} was written; insert it again with the last generation and batch.",
            )
        return marker.Marker(**dict(zip(_MARKER, row, strict=True)))

    def _update_marker(
        self, connection: psycopg.Connection, markers: sql.Identifier, context: SinkContext, after: marker.Marker
    ) -> None:
        connection.execute(
            sql.SQL("UPDATE {} SET ({}, changed_at) = ({}, now()) WHERE sink = %s").format(
                markers, _marker_columns(), sql.SQL(", ").join([sql.Placeholder()] * len(_MARKER))
            ),
            [*(getattr(after, name) for name in _MARKER), context.transactional_id],
        )

    def _copy(self, connection: psycopg.Connection, staged: staging.StagedRows, context: SinkContext) -> None:
        names = [column.name for column in staged.columns]
        targets = {column.name: column.type for column in self._columns(connection)}
        rows = (row for batch in staging.read(staged, context) for row in columntypes.rows(batch, targets))
        if not self.upsert_by:
            self._copy_into(connection, self._name, names, rows)
            return
        batch_table, order = sql.Identifier("statefulspark_batch"), "statefulspark_order"
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        connection.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT 0::bigint AS {}, {} FROM {} WITH NO DATA"
            ).format(batch_table, sql.Identifier(order), columns, self._name)
        )
        numbered = ((number, *row) for number, row in enumerate(rows))
        self._copy_into(connection, batch_table, [order, *names], numbered)
        keys = sql.SQL(", ").join(map(sql.Identifier, self.upsert_by))
        connection.execute(
            sql.SQL(
                "INSERT INTO {target} ({columns}) SELECT {columns} FROM (SELECT DISTINCT ON ({keys}) * FROM {batch_table} "
                "ORDER BY {keys}, {order} DESC) AS latest ON CONFLICT ({keys}) {action}"
            ).format(
                target=self._name,
                columns=columns,
                keys=keys,
                batch_table=batch_table,
                order=sql.Identifier(order),
                action=self._conflict_action(names),
            )
        )

    def _conflict_action(self, names: list[str]) -> sql.Composable:
        others = [sql.Identifier(name) for name in names if name not in self.upsert_by]
        if not others:
            return sql.SQL("DO NOTHING")
        assignments = [sql.SQL("{0} = excluded.{0}").format(name) for name in others]
        return sql.SQL("DO UPDATE SET {}").format(sql.SQL(", ").join(assignments))

    def _copy_into(
        self,
        connection: psycopg.Connection,
        table: sql.Identifier,
        names: list[str],
        rows: Iterator[tuple[object, ...]],
    ) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        with connection.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(table, columns)) as copy:
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def _connected(self, action: str) -> Iterator[psycopg.Connection]:
        try:
            with psycopg.connect(
                self.dsn,
                autocommit=True,
                connect_timeout=10,
                options=_SETTINGS,
                application_name="statefulspark",
                keepalives_idle=20,
            ) as connection:
                yield connection
        except psycopg.Error as error:
            raise self._translated(error, action) from error

    def _translated(self, error: psycopg.Error, action: str) -> errors.StatefulSparkError:
        message = " ".join(str(error).split()) or type(error).__name__
        where = f"Could not {action} {self.where}: {message}"
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return errors.TransientError(
                "PostgresLocked", f"{where}; another transaction has held the sink's row for {_LOCK_TIMEOUT}."
            )
        if _is_denied(error):
            return errors.SpecRejectedError(
                "PostgresAccessDenied", f"{where}; check the user, its password and rights."
            )
        if isinstance(error, psycopg.OperationalError):
            return errors.TransientError(
                "PostgresUnavailable", f"{where}; check that the server runs and can be reached."
            )
        return errors.SpecRejectedError("PostgresRefused", f"{where}.")


def _names(columns: Iterable[str]) -> list[sql.Identifier]:
    return [sql.Identifier(name) for name in columns]


def _marker_columns() -> sql.Composed:
    """Return the marker's columns as a list for an SQL statement."""
    return sql.SQL(", ").join(_names(_MARKER))


def _is_denied(error: psycopg.Error) -> bool:
    denied = (
        psycopg.errors.InvalidPassword,
        psycopg.errors.InvalidAuthorizationSpecification,
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.InvalidCatalogName,
    )
    # A refused connection has no error code, only the server's message.
    words = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist")
    return isinstance(error, denied) or (
        isinstance(error, psycopg.OperationalError)
        and error.sqlstate is None
        and any(word in str(error) for word in words)
    )
