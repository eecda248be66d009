"""Runs each operation of the PostgreSQL sink on the server: one connection and one transaction for each.

A connection asks for nothing special: settings are made inside the transaction, and statements are not prepared. So the
`options` of the user's dsn hold, and a pooler may be in between, also one that changes the session between transactions.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import psycopg
import psycopg.conninfo
from psycopg import sql

from statefulspark import errors, outgoing
from statefulspark.sinks import marker, secret, staging
from statefulspark.sinks.postgres import clienterrors, columntypes, rights, transactions

if TYPE_CHECKING:
    import pyarrow as pa

    from statefulspark.sinks.base import SinkContext

_log = logging.getLogger(__name__)
_Change = Callable[[psycopg.Connection], None]
MARKER_TABLE = "statefulspark_sinks"
_WITHOUT_LOCK, _LOCKED = sql.SQL(""), sql.SQL("FOR UPDATE")
_COLUMNS = """
SELECT a.attname, t.typname, t.typtype = 'e', a.attnotnull AND NOT a.atthasdef AND a.attidentity = '',
       a.attgenerated <> '' OR a.attidentity = 'a', a.attnotnull, a.atttypmod,
       ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid IN (t.oid, t.typelem) ORDER BY enumsortorder)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TABLE = """
SELECT c.oid, n.nspname, c.relkind IN ('r', 'p', 'f')
  OR EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tgtype & 68 = 68)  -- INSTEAD OF INSERT
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_UNIQUE = sql.SQL("""
SELECT array_agg(a.attname::text), i.indimmediate, bool_or({})
FROM pg_index i JOIN pg_attribute a
  ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indimmediate
""")
_MATCHES_NULLS = sql.SQL("i.indnullsnotdistinct")
_HAS_MATCHING_NULLS = 150000
"""The version of the server from which on an index may take nulls for equal."""


_PORTS = re.compile(r"[0-9,]*")
"""A password that is not percent-encoded ends up in a port, or in a host's name."""
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
        given: The connection string as the job gives it.
    """

    dsn: str = field(repr=False)
    table: str
    upsert_by: tuple[str, ...]
    given: str | secret.Secret = field(default="", repr=False)

    @property
    def where(self) -> str:
        """A description of the table without credentials."""
        try:
            parameters = self._parameters
        except errors.SpecRejectedError:
            return f"the table {self.table}"
        host, port = parameters.get("host") or "localhost", parameters.get("port") or "5432"
        return f"the table {self.table} of {parameters.get('dbname') or 'the default database'} at {host}:{port}"

    @property
    def _parameters(self) -> dict[str, object]:
        """The parts of the connection string.

        The errors of libpq repeat the part that they do not understand, which may be one of the password. So the string is
        parsed before it is used, and what is wrong is told without it.

        Raises:
            SpecRejectedError: `PostgresRefused`.
        """
        with contextlib.suppress(psycopg.ProgrammingError):
            parameters: dict[str, object] = dict(psycopg.conninfo.conninfo_to_dict(self.dsn))
            if _PORTS.fullmatch(str(parameters.get("port") or "")) and "@" not in str(parameters.get("host") or ""):
                outgoing.keep_out(str(parameters.get("password") or ""))
                return parameters
        raise secret.credentials_refused(
            "PostgresRefused",
            f"The connection string for the table {self.table} cannot be parsed, and is not shown; correct the dsn: "
            "'host=db dbname=shop user=me password=...', or 'postgresql://me:...@db/shop' with the password percent-encoded",
            [self.given],
        )

    @property
    def target(self) -> str:
        """Where the table is, for comparisons; a server that takes another's place under its name is the same target."""
        parameters = self._parameters
        host, port = parameters.get("host") or "localhost", parameters.get("port") or "5432"
        return f"postgresql://{host}:{port}/{parameters.get('dbname') or ''}/{self.table}"

    def check(self, schema: pa.Schema) -> tuple[columntypes.TableColumn, ...]:
        """Compare a stream's columns with the table's, and return these; see `PostgresMachine.check_schema`."""
        with self._connected("look at") as connection, transactions.begun(connection):
            oid, _ = self._find_table(connection)
            columns = self._columns(connection)
            unique = self._unique(connection, oid)
            lacking = rights.lacking(connection, oid, MARKER_TABLE, schema.names, self.upsert_by)
        problems = list(columntypes.mismatches(schema, columns))
        problems += [
            f"{key} is a key column and is not in the stream" for key in self.upsert_by if key not in schema.names
        ]
        if problems:
            raise errors.SpecRejectedError(
                "SinkSchemaMismatch", f"The stream does not fit {self.where}: {'; '.join(problems)}."
            )
        usable = [is_immediate for is_immediate, _ in unique]
        if self.upsert_by and not usable:
            raise errors.SpecRejectedError(
                "PostgresKeyMissing",
                f"upsert_by names {', '.join(self.upsert_by)}, and no unique index of {self.where} has exactly these "
                "columns; create one, or a primary key.",
            )
        if self.upsert_by and not all(usable):
            raise errors.SpecRejectedError(
                "PostgresKeyMissing",
                f"upsert_by names {', '.join(self.upsert_by)}, and a constraint of {self.where} on exactly these columns is "
                "DEFERRABLE, with which PostgreSQL takes no upserts; create it anew without DEFERRABLE.",
            )
        if lacking:
            raise errors.SpecRejectedError(
                "PostgresAccessDenied", f"The sink may not write to {self.where}: {'; '.join(lacking)}."
            )
        takes_null = not self.upsert_by or any(matches_nulls for _, matches_nulls in unique)
        keys = () if takes_null else self.upsert_by
        return tuple(replace(column, is_key=column.name in keys) for column in columns)

    def open(self, context: SinkContext) -> None:
        """Leave this driver in the sink's row; see `PostgresMachine.open`."""

        def change(connection: psycopg.Connection) -> None:
            markers = self._markers(connection)
            if not self._exists(connection, markers):
                # Two sinks that open at once could both create it; IF NOT EXISTS alone does not prevent that.
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [MARKER_TABLE])
                connection.execute(
                    sql.SQL(
                        "CREATE TABLE IF NOT EXISTS {} (sink text, written_to text, marker jsonb NOT NULL, "
                        "changed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (sink, written_to))"
                    ).format(markers)
                )
            # There is no row to lock before the first opening.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [context.transactional_id])
            stored = self._marker(connection, markers, context, _LOCKED)
            reached = marker.open_marker(stored, context, self.where)
            self._update_marker(connection, markers, context, reached)

        self._change("open", context, marker.open_marker, change)

    def stored_marker(self, context: SinkContext) -> marker.Marker | None:
        """Read the sink's row; None if there is none."""
        with self._connected("look at") as connection, transactions.begun(connection):
            return self._stored_marker(connection, context)

    def commit(self, staged: staging.StagedRows, context: SinkContext) -> None:
        """Write a batch once; see `PostgresMachine.commit`."""

        def change(connection: psycopg.Connection) -> None:
            markers = self._markers(connection)
            reached = self._lock_marker(connection, markers, context)
            if not reached.covers(context):
                self._copy(connection, staged, context)
                self._update_marker(connection, markers, context, reached.after(context))

        self._change(f"commit batch {context.batch_id} to", context, marker.require_newest, change)

    def _change(self, action: str, context: SinkContext, judge: marker.Judge, change: _Change) -> None:
        """Change the sink in one transaction; end that of a replaced driver that stands in the way, and try again.

        Args:
            action: The beginning of a message.
            context: Context of the driver.
            judge: Decides whether this driver may go on with the marker.
            change: What to do in the transaction.
        """
        with self._connected(action) as connection:
            try:
                self._run(connection, context, change)
            except psycopg.errors.LockNotAvailable as error:
                held_by, are_ended = self._end_replaced(connection, context, judge)
                if not are_ended:
                    raise clienterrors.locked(error, self._attempt(action), held_by) from error
                self._run(connection, context, change)

    def _run(self, connection: psycopg.Connection, context: SinkContext, change: _Change) -> None:
        with transactions.begun(connection, _name_of(context)):
            change(connection)

    def _end_replaced(
        self, connection: psycopg.Connection, context: SinkContext, judge: marker.Judge
    ) -> tuple[tuple[transactions.Holder, ...], bool]:
        """End what the driver holds that opened the sink last, or this one itself.

        Returns:
            The transactions that hold the sink, and whether one of them was ended.
        """
        with transactions.begun(connection):
            markers = self._markers(connection)
            held_by = transactions.find(
                connection,
                markers=markers if self._exists(connection, markers) else None,
                table=self._name,
                locks=(context.transactional_id, MARKER_TABLE),
                row=(context.transactional_id, self._table_name),
            )
        if not any(holder.is_driver for holder in held_by):
            return held_by, False
        with transactions.begun(connection):
            stored = self._stored_marker(connection, context)
        judge(stored, context, self.where)
        opener = () if stored is None else (transactions.name_of(stored.epoch, stored.claim),)
        ended = transactions.end(connection, held_by, (_name_of(context), *opener))
        for holder in ended:
            _log.warning(
                "a transaction that kept the sink's row was ended", extra={"sink": context.uid, "of": holder.described}
            )
        return held_by, bool(ended)

    def _stored_marker(self, connection: psycopg.Connection, context: SinkContext) -> marker.Marker | None:
        markers = self._markers(connection)
        return self._marker(connection, markers, context) if self._exists(connection, markers) else None

    def _find_table(self, connection: psycopg.Connection) -> tuple[int, str]:
        row = connection.execute(_TABLE, [self._name.as_string(connection)]).fetchone()
        if row is None:
            searched = ""
            if len(self._parts) <= 1:
                asked = connection.execute(
                    "SELECT current_user, array_to_string(current_schemas(false), ', ')"
                ).fetchone()
                searched = (
                    "" if asked is None else f" for the user {asked[0]} in the search path ({asked[1] or 'no schema'})"
                )
            raise errors.SpecRejectedError(
                "PostgresTableMissing",
                f"Could not find {self.where}{searched}, and a sink creates no table; create it first, or "
                "write its name with its schema.",
            )
        oid, schema, is_writable = row
        if not is_writable:
            raise errors.SpecRejectedError(
                "PostgresRefused",
                f"{self.where} is a view or a similar relation, which does not accept COPY; name the table behind it, or "
                "give the view an INSTEAD OF INSERT trigger.",
            )
        return oid, schema

    def _columns(self, connection: psycopg.Connection) -> list[columntypes.TableColumn]:
        rows = connection.execute(_COLUMNS, [self._name.as_string(connection)])
        return [columntypes.TableColumn(*values) for values in rows]

    def _unique(self, connection: psycopg.Connection, oid: int) -> list[tuple[bool, bool]]:
        """Return the unique indexes of exactly the key columns: whether each is immediate, and takes nulls for equal."""
        has_nulls = connection.info.server_version >= _HAS_MATCHING_NULLS
        rows = connection.execute(_UNIQUE.format(_MATCHES_NULLS if has_nulls else sql.SQL("false")), [oid])
        key_columns = frozenset(self.upsert_by)
        return [(immediate, nulls) for names, immediate, nulls in rows if frozenset(names) == key_columns]

    @property
    def _parts(self) -> tuple[str, ...]:
        return tuple(quoted.replace('""', '"') or plain for quoted, plain in _PARTS.findall(self.table))

    @property
    def _name(self) -> sql.Identifier:
        return sql.Identifier(*self._parts)

    @property
    def _table_name(self) -> str:
        """The table's name in its schema: a sink that moves to another table beside it begins there."""
        return self._parts[-1]

    def _markers(self, connection: psycopg.Connection) -> sql.Identifier:
        return sql.Identifier(self._find_table(connection)[1], MARKER_TABLE)

    def _exists(self, connection: psycopg.Connection, markers: sql.Identifier) -> bool:
        answer = connection.execute("SELECT to_regclass(%s)", [markers.as_string(connection)]).fetchone()
        return answer is not None and answer[0] is not None

    def _marker(
        self,
        connection: psycopg.Connection,
        markers: sql.Identifier,
        context: SinkContext,
        lock: sql.SQL = _WITHOUT_LOCK,
    ) -> marker.Marker | None:
        row = connection.execute(
            sql.SQL("SELECT marker::text FROM {} WHERE sink = %s AND written_to = %s {}").format(markers, lock),
            [context.transactional_id, self._table_name],
        ).fetchone()
        source = f"The row {context.transactional_id!r} of {MARKER_TABLE} beside {self.where}"
        return None if row is None else marker.Marker.parse(row[0].encode(), source)

    def _lock_marker(
        self, connection: psycopg.Connection, markers: sql.Identifier, context: SinkContext
    ) -> marker.Marker:
        """Lock the sink's row, and check that this driver may go on with what is in it."""
        reached = self._marker(connection, markers, context, _LOCKED)
        return marker.require_newest(reached, context, self.where)

    def _update_marker(
        self, connection: psycopg.Connection, markers: sql.Identifier, context: SinkContext, after: marker.Marker
    ) -> None:
        connection.execute(
            sql.SQL(
                "INSERT INTO {} (sink, written_to, marker) VALUES (%s, %s, %s) "
                "ON CONFLICT (sink, written_to) DO UPDATE SET (marker, changed_at) = (excluded.marker, now())"
            ).format(markers),
            [context.transactional_id, self._table_name, after.to_json()],
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
        others = [sql.Identifier(name) for name in names if name not in self.upsert_by]
        assignments = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in others)
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
                action=sql.SQL("DO UPDATE SET {}").format(assignments) if others else sql.SQL("DO NOTHING"),
            )
        )

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
        _ = self._parameters
        try:
            with (
                psycopg.connect(
                    self.dsn,
                    autocommit=True,
                    connect_timeout=10,
                    application_name=transactions.NAME,
                    keepalives_idle=20,
                    prepare_threshold=None,
                ) as connection,
                clienterrors.noticing_its_end(connection, self._attempt(action)),
            ):
                yield connection
        except psycopg.Error as error:
            raise clienterrors.translate(error, self._attempt(action), self.given) from error

    def _attempt(self, action: str) -> str:
        return f"Could not {action} {self.where}"


def _name_of(context: SinkContext) -> str:
    return transactions.name_of(context.committing_epoch, context.claim)
