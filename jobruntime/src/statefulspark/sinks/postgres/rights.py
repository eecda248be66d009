"""Finds the rights that a user lacks for the sink, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

_OF_COLUMNS = """
SELECT attname::text, has_column_privilege(attrelid, attnum, 'INSERT'), has_column_privilege(attrelid, attnum, 'SELECT'),
       has_column_privilege(attrelid, attnum, 'UPDATE')
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attname = ANY (%s) ORDER BY attnum
"""
_AROUND = """
SELECT current_user::text, current_database()::text, n.nspname::text, has_database_privilege(current_database(), 'TEMP'),
       CASE WHEN m.oid IS NULL THEN has_schema_privilege(n.oid, 'CREATE')
            ELSE has_table_privilege(m.oid, 'SELECT') AND has_table_privilege(m.oid, 'INSERT')
                 AND has_table_privilege(m.oid, 'UPDATE') END,
       m.oid IS NULL, row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_class m ON m.relnamespace = n.oid AND m.relname = %s WHERE c.oid = %s
"""


def lacking(
    connection: psycopg.Connection, oid: int, marker_table: str, columns: Sequence[str], upsert_by: Collection[str]
) -> tuple[str, ...]:
    """Return what the user may not do, each with the statement that lets it; empty if it may do all that the sink does.

    Args:
        connection: As the user.
        oid: The target table.
        marker_table: Name of the marker table, in the schema of the target.
        columns: The stream's columns.
        upsert_by: Key columns; empty appends.
    """
    around = connection.execute(_AROUND, [marker_table, oid]).fetchone()
    assert around is not None  # noqa: S101 - the table was found in this transaction
    user, database, schema, may_use_temporary, may_use_markers, is_first, has_row_security = around
    grants = []
    lacked: dict[str, list[str]] = {"INSERT": [], "SELECT": [], "UPDATE": []}
    for name, may_insert, may_select, may_update in connection.execute(_OF_COLUMNS, [oid, list(columns)]):
        if not may_insert:
            lacked["INSERT"].append(name)
        if upsert_by and not may_select:
            lacked["SELECT"].append(name)
        if upsert_by and name not in upsert_by and not may_update:
            lacked["UPDATE"].append(name)
    for right, names in lacked.items():
        if names:
            grants.append(f"{user} lacks {right} on {', '.join(names)}: GRANT {right} on the table")
    if upsert_by and not may_use_temporary:
        grants.append(f"upserts need a temporary table: GRANT TEMP ON DATABASE {database} TO {user}")
    if not may_use_markers and is_first:
        grants.append(f"the table {marker_table} is not there: create it, or GRANT CREATE ON SCHEMA {schema} TO {user}")
    elif not may_use_markers:
        grants.append(f"GRANT SELECT, INSERT, UPDATE ON {schema}.{marker_table} TO {user}")
    if has_row_security and not upsert_by:
        grants.append(f"the table has row-level security, with which COPY does not work: ALTER ROLE {user} BYPASSRLS")
    return tuple(grants)
