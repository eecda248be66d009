"""Translates errors of PostgreSQL's client to errors of the runtime, with the server's message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

import psycopg

from statefulspark import errors
from statefulspark.judgement import Remedy
from statefulspark.sinks import secret
from statefulspark.sinks.postgres import judgements, transactions


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
        raise errors.TransientError(
            "PostgresUnavailable", f"{attempt}: {_sentence(error)}; check that the server runs and can be reached."
        ) from error


def translate(error: psycopg.Error, attempt: str, given: str | secret.Secret) -> errors.StatefulSparkError:
    """Translate an error by what it means for the job.

    Args:
        error: What the client raised.
        attempt: What failed, for example "Could not open the table totals of shop at db:5432".
        given: The connection string as the job gives it.
    """
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return locked(error, attempt, ())
    words = _sentence(error)
    judgement = judgements.judge(error.sqlstate, type(error).__name__, words)
    message = f"{attempt}: {words}; {judgement.advice}"
    match judgement.remedy:
        case Remedy.WAIT:
            return errors.TransientError("PostgresUnavailable", f"{message}.")
        case Remedy.LOST_RACE:
            return errors.TransientError("PostgresLocked", f"{message}.")
        case Remedy.CREDENTIALS:
            return secret.credentials_refused("PostgresAccessDenied", message, [given])
        case Remedy.RIGHTS:
            return errors.SpecRejectedError("PostgresAccessDenied", f"{message}.")
        case Remedy.PERSON:
            return errors.SpecRejectedError("PostgresRefused", f"{message}.")
        case _ as never:
            assert_never(never)


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


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
