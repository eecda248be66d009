"""Every error that psycopg knows is judged; a code of a new release fails here until somebody has judged it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors as postgres_errors
from statefulspark import errors
from statefulspark.judgement import Remedy
from statefulspark.sinks.postgres import clienterrors, judgements

_REFUSED = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '


def _classes(kind: type[psycopg.Error]) -> Iterator[type[psycopg.Error]]:
    for found in kind.__subclasses__():
        yield found
        yield from _classes(found)


def test_each_sqlstate_is_judged_and_no_other() -> None:
    known = {found.sqlstate for found in _classes(psycopg.Error) if found.sqlstate is not None}
    assert judgements.CODES.keys() == known


def test_each_class_without_a_sqlstate_is_judged_and_no_other() -> None:
    known = {found.__name__ for found in _classes(psycopg.Error) if found.sqlstate is None}
    assert judgements.CLASSES.keys() == known


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ('FATAL:  password authentication failed for user "writer"', Remedy.CREDENTIALS),
        ("fe_sendauth: no password supplied", Remedy.CREDENTIALS),
        ("FATAL:  SASL authentication failed", Remedy.CREDENTIALS),
        ('FATAL:  role "nobody" does not exist', Remedy.CREDENTIALS),
        ('FATAL:  role "reader" is not permitted to log in', Remedy.RIGHTS),
        (
            'FATAL:  permission denied for database "shop" DETAIL:  User does not have CONNECT privilege.',
            Remedy.RIGHTS,
        ),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "writer"', Remedy.RIGHTS),
        ('FATAL:  database "shop" does not exist', Remedy.PERSON),
        ("FATAL:  unsupported startup parameter: options", Remedy.PERSON),
        ("server does not support SSL, but SSL was required", Remedy.PERSON),
        ("SSL error: certificate verify failed", Remedy.PERSON),
        ('FATAL:  unrecognized configuration parameter "foo"', Remedy.PERSON),
        ("FATAL:  sorry, too many clients already", Remedy.WAIT),
        ('FATAL:  too many connections for role "writer"', Remedy.WAIT),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", Remedy.WAIT),
        ("FATAL:  no more connections allowed (max_client_conn)", Remedy.WAIT),
        ("FATAL:  the database system is starting up", Remedy.WAIT),
        ("FATAL:  the database system is shutting down", Remedy.WAIT),
        ("FATAL:  the database system is not yet accepting connections", Remedy.WAIT),
        ("session is read-only", Remedy.WAIT),
        ("Connection refused Is the server running on that host and accepting TCP/IP connections?", Remedy.WAIT),
        ("SSL error: unexpected eof while reading", Remedy.WAIT),
    ],
)
def test_a_refused_connection_is_judged_by_what_it_says(words: str, verdict: Remedy) -> None:
    assert judgements.judge(None, "OperationalError", _REFUSED + words).remedy is verdict


def test_what_a_pooler_calls_a_violation_of_the_protocol_is_judged_by_what_it_says() -> None:
    assert judgements.judge("08P01", "ProtocolViolation", "query_wait_timeout").remedy is Remedy.WAIT
    assert judgements.judge("08P01", "ProtocolViolation", "server conn crashed?").remedy is Remedy.PERSON


@pytest.mark.parametrize(
    ("raised", "kind", "reason", "told"),
    [
        (
            postgres_errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"),
            errors.TransientError,
            "PostgresUnavailable",
            "waits until the server takes writes",
        ),
        (
            postgres_errors.IdleInTransactionSessionTimeout("terminating connection"),
            errors.TransientError,
            "PostgresUnavailable",
            "tried again in a new session",
        ),
        (
            postgres_errors.AdminShutdown("terminating connection"),
            errors.TransientError,
            "PostgresUnavailable",
            "tried again in a new session",
        ),
        (
            postgres_errors.DeadlockDetected("deadlock detected"),
            errors.TransientError,
            "PostgresLocked",
            "another transaction",
        ),
        (
            postgres_errors.InsufficientPrivilege("permission denied for table words"),
            errors.SpecRejectedError,
            "PostgresAccessDenied",
            "grant it",
        ),
        (
            postgres_errors.StringDataRightTruncation("value too long"),
            errors.SpecRejectedError,
            "PostgresRefused",
            "start from the checkpoint before it",
        ),
    ],
)
def test_an_error_says_what_is_waited_for_or_what_to_change(
    raised: psycopg.Error, kind: type[errors.StatefulSparkError], reason: str, told: str
) -> None:
    attempt = "Could not commit batch 7 to the table words of shop at db:5432"
    error = clienterrors.translate(raised, attempt, "host=db dbname=shop")
    assert (type(error), error.reason) == (kind, reason)
    assert error.message.startswith(f"{attempt}: {raised}; ")
    assert told in error.message
