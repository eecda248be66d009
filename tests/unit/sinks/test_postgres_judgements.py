"""Every error that psycopg knows is judged; a code of a new release fails here until somebody has judged it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors as postgres_errors
from statefulspark import errors
from statefulspark.sinks.postgres import judgements
from statefulspark.sinks.postgres.client import PostgresClient
from statefulspark.verdicts import Verdict

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
        ('FATAL:  password authentication failed for user "writer"', Verdict.CREDENTIALS),
        ("fe_sendauth: no password supplied", Verdict.CREDENTIALS),
        ("FATAL:  SASL authentication failed", Verdict.CREDENTIALS),
        ('FATAL:  role "nobody" does not exist', Verdict.CREDENTIALS),
        ('FATAL:  role "reader" is not permitted to log in', Verdict.RIGHTS),
        (
            'FATAL:  permission denied for database "shop" DETAIL:  User does not have CONNECT privilege.',
            Verdict.RIGHTS,
        ),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "writer"', Verdict.RIGHTS),
        ('FATAL:  database "shop" does not exist', Verdict.PERSON),
        ("FATAL:  unsupported startup parameter: options", Verdict.PERSON),
        ("server does not support SSL, but SSL was required", Verdict.PERSON),
        ("SSL error: certificate verify failed", Verdict.PERSON),
        ('FATAL:  unrecognized configuration parameter "foo"', Verdict.PERSON),
        ("FATAL:  sorry, too many clients already", Verdict.WAIT),
        ('FATAL:  too many connections for role "writer"', Verdict.WAIT),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", Verdict.WAIT),
        ("FATAL:  no more connections allowed (max_client_conn)", Verdict.WAIT),
        ("FATAL:  the database system is starting up", Verdict.WAIT),
        ("FATAL:  the database system is shutting down", Verdict.WAIT),
        ("FATAL:  the database system is not yet accepting connections", Verdict.WAIT),
        ("session is read-only", Verdict.WAIT),
        ("Connection refused Is the server running on that host and accepting TCP/IP connections?", Verdict.WAIT),
        ("SSL error: unexpected eof while reading", Verdict.WAIT),
    ],
)
def test_a_refused_connection_is_judged_by_what_it_says(words: str, verdict: Verdict) -> None:
    assert judgements.judge(None, "OperationalError", _REFUSED + words).verdict is verdict


def test_what_a_pooler_calls_a_violation_of_the_protocol_is_judged_by_what_it_says() -> None:
    assert judgements.judge("08P01", "ProtocolViolation", "query_wait_timeout").verdict is Verdict.WAIT
    assert judgements.judge("08P01", "ProtocolViolation", "server conn crashed?").verdict is Verdict.PERSON


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
    error = PostgresClient("host=db dbname=shop", "words", ())._translated(raised, "commit batch 7 to")
    assert (type(error), error.reason) == (kind, reason)
    assert error.message.startswith(f"Could not commit batch 7 to the table words of shop at db:5432: {raised}; ")
    assert told in error.message
