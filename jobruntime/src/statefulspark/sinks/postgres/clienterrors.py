"""Translates errors of PostgreSQL's client to errors of the runtime, with the server's message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from statefulspark import errors
from statefulspark.sinks.postgres import transactions


@contextmanager
def noticing_its_end(connection: psycopg.Connection, attempt: str) -> Iterator[None]:
    """Translate every error of a connection that has ended: it may pass.

    A server that ends a transaction in which nothing happens reports it in a class of errors of the program (25P03), a
    pooler adds words of its own, and psycopg 3.2 stumbles over two answers to one command.

    Args:
        connection: The connection.
        attempt: See `translate`.

    Raises:
        TransientError: `PostgresUnavailable`.
    """
    try:
        yield
    except (psycopg.Error, ValueError) as error:
        if not connection.broken:
            raise
        raise _unavailable(error, attempt) from error


def translate(error: psycopg.Error, attempt: str) -> errors.StatefulSparkError:
    """Translate an error.

    Args:
        error: What the client raised.
        attempt: What failed, for example "Could not open the table totals of shop at db:5432".
    """
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return locked(error, attempt, ())
    if _is_denied(error):
        return errors.SpecRejectedError(
            "PostgresAccessDenied", f"{attempt}: {_sentence(error)}; check the user, its password and rights."
        )
    if isinstance(error, psycopg.OperationalError):
        return _unavailable(error, attempt)
    return errors.SpecRejectedError("PostgresRefused", f"{attempt}: {_sentence(error)}.")


def locked(error: psycopg.Error, attempt: str, held_by: Sequence[transactions.Holder]) -> errors.TransientError:
    """Return the error for a lock that was not given up in time.

    Args:
        error: What the client raised.
        attempt: See `translate`.
        held_by: Who has it; empty if that is unknown.
    """
    failed = f"{attempt}: {_sentence(error)}"
    limit = transactions.LOCK_TIMEOUT
    if not held_by:
        return errors.TransientError(
            "PostgresLocked",
            f"{failed}; it waited {limit} for another transaction. If that does not end by itself, look for it in "
            "pg_stat_activity, and end it with pg_terminate_backend.",
        )
    who = " and of ".join(holder.described for holder in held_by)
    ends = " and ".join(f"SELECT pg_terminate_backend({holder.pid})" for holder in held_by)
    return errors.TransientError(
        "PostgresLocked",
        f"{failed}; it waited {limit} for the transaction of {who}. If that does not end by itself, end it: {ends}.",
    )


def _unavailable(error: Exception, attempt: str) -> errors.TransientError:
    return errors.TransientError(
        "PostgresUnavailable", f"{attempt}: {_sentence(error)}; check that the server runs and can be reached."
    )


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


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
