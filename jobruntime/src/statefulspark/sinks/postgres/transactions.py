"""The sink's transactions on the server: their settings, those that keep one waiting, and the end of a replaced one.

A driver that stands still in COPY keeps its transaction open without end: its kernel answers keepalives, as a proxy does in
front of a node that is gone, and the server waits for rows without a limit. Each transaction is therefore named after the
claim of its driver. Whoever may go on after that driver, as the marker says, ends it; its rows were not committed, and come
again. A backend is found by what it holds, so a pooler in between changes nothing. No other transaction is ever ended: a
person is told which it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
from psycopg import sql

LOCK_TIMEOUT = "10s"
"""How long a transaction waits for another one; one of a driver that was replaced is ended then."""
_SETTINGS = {
    # A driver that is gone must not hold the row for long; of one that stands still, see above.
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "idle_in_transaction_session_timeout": "60s",
}
_SET = "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS setting(name, value)"
NAME = "statefulspark"
_DRIVER = f"{NAME} epoch "
_NAME_BYTES = 63
"""PostgreSQL cuts the name of an application there."""
_HOLDERS = sql.SQL(
    "SELECT DISTINCT a.pid, a.application_name, a.usename, host(a.client_addr), a.xact_start "
    "FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.granted AND a.pid <> pg_backend_pid() "
    "AND coalesce(l.database = (SELECT oid FROM pg_database WHERE datname = current_database()), true) AND {}"
)
_OF_TABLES = sql.SQL(
    "l.locktype = 'relation' AND l.relation IN (SELECT to_regclass(name) FROM unnest(%s::text[]) AS name) "
    "AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
)
_OF_LOCKS = sql.SQL(
    "l.locktype = 'advisory' AND l.objsubid = 1 "
    "AND l.objid IN (SELECT hashtext(name)::oid FROM unnest(%s::text[]) AS name)"
)
_OF_ROW = sql.SQL(
    "l.locktype = 'transactionid' AND l.transactionid IN (SELECT xmax FROM {} WHERE sink = %s AND written_to = %s)"
)
"""Who locks a row is in its xmax (README.tuplock of PostgreSQL's sources)."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A transaction that keeps others out.

    Attributes:
        pid: Its backend, as the server counts; behind a pooler, too.
        application: What its client calls itself.
        user: The role; None for a backend of the server itself.
        address: Where it comes from; None if this role may not see that, or over a socket.
        since: When it began; None if this role may not see that.
    """

    pid: int
    application: str
    user: str | None
    address: str | None
    since: datetime | None

    @property
    def is_driver(self) -> bool:
        """Whether it calls itself a driver's."""
        return self.application.startswith(_DRIVER)

    @property
    def described(self) -> str:
        """A description for people."""
        since = "" if self.since is None else f", since {self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        address = "" if self.address is None else f" at {self.address}"
        return (
            f"{self.application or 'a client without a name'} of the user {self.user}{address} (pid {self.pid}){since}"
        )


@contextlib.contextmanager
def begun(connection: psycopg.Connection, name: str = NAME) -> Iterator[None]:
    """Run a transaction with our settings, which end with it: a pooler may give each transaction another backend."""
    settings = {**_SETTINGS, "lock_timeout": LOCK_TIMEOUT, "application_name": name}
    with connection.transaction():
        connection.execute(_SET, [list(settings), list(settings.values())])
        yield


def name_of(epoch: int, claim: str) -> str:
    """Return what a driver's transactions are called, as `pg_stat_activity` has it in `application_name`."""
    return f"{_DRIVER}{epoch} {claim}"[:_NAME_BYTES]


def find(
    connection: psycopg.Connection,
    *,
    table: sql.Identifier,
    markers: sql.Identifier | None,
    locks: Sequence[str],
    row: tuple[str, str],
) -> tuple[Holder, ...]:
    """Return who keeps a sink's transaction waiting; empty if that is over, or by a lock that is not the sink's own.

    Args:
        connection: Inside a transaction with a limit for locks.
        table: The sink's table.
        markers: The marker table; None if there is none yet.
        locks: Names of the advisory locks that the sink takes.
        row: The key of its row in the marker table.
    """
    names = [name.as_string(connection) for name in (table, markers) if name is not None]
    holders = connection.execute(_HOLDERS.format(_OF_TABLES), [names]).fetchall()
    if not holders:
        holders = connection.execute(_HOLDERS.format(_OF_LOCKS), [list(locks)]).fetchall()
        if markers is not None:
            holders += connection.execute(_HOLDERS.format(_OF_ROW.format(markers)), row).fetchall()
    return tuple(Holder(*columns) for columns in dict.fromkeys(holders))


def end(connection: psycopg.Connection, holders: Collection[Holder], names: Collection[str]) -> tuple[Holder, ...]:
    """End the transactions that have one of some names, if the server lets this role; return those that it ends.

    Args:
        connection: Outside of a transaction.
        holders: Who holds.
        names: See `name_of`.
    """
    ended = []
    for holder in (holder for holder in holders if holder.application in names):
        try:
            # Only if it is that transaction still, so that no later one of its backend is met.
            done = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE (pid, application_name, xact_start) = (%s, %s, %s)",
                [holder.pid, holder.application, holder.since],
            )
        except psycopg.errors.InsufficientPrivilege:
            continue  # Of another user: a person is told who it is.
        if done.fetchone() == (True,):
            ended.append(holder)
    return tuple(ended)
