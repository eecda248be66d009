"""Credentials that are refused are asked for again for their grace time, and then for a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from statefulspark import errors
from statefulspark.driver.output import retries
from statefulspark.sinks import secret
from statefulspark.sinks.secret import Secret

REFUSED = errors.CredentialsRefusedError("PostgresAccessDenied", "The password is refused.")
AWAY = errors.TransientError("PostgresUnavailable", "The server is away.")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(retries, "REFUSED_WAIT_S", 0.001)


def failing_with(failures: Sequence[Exception]) -> Callable[[], None]:
    left = list(failures)

    def act() -> None:
        if left:
            raise left.pop(0)

    return act


@pytest.mark.parametrize("failures", [[REFUSED, REFUSED], [REFUSED, AWAY, REFUSED]])
def test_a_commit_goes_on_when_the_new_password_has_arrived(failures: list[Exception]) -> None:
    attempts = retries.Retries()
    attempts.run(failing_with(failures))
    assert attempts.message is None


def test_a_commit_ends_when_the_grace_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors.CredentialsRefusedError, "GRACE_S", 0.0)
    with pytest.raises(errors.CredentialsRefusedError):
        retries.Retries().run(failing_with([REFUSED]))


def test_the_grace_time_begins_with_the_first_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors.CredentialsRefusedError, "GRACE_S", 0.05)
    with pytest.raises(errors.CredentialsRefusedError):
        retries.Retries().run(failing_with([REFUSED] * 1000))
    retries.Retries().run(failing_with([AWAY, AWAY, AWAY, AWAY, AWAY, AWAY, REFUSED]))


def test_a_start_waits_for_the_new_password_and_says_so() -> None:
    told: list[str] = []
    retries.while_refused(failing_with([REFUSED]), told.append)
    assert told == ["Refused, and tried again: The password is refused."]


def test_a_start_ends_when_the_grace_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors.CredentialsRefusedError, "GRACE_S", 0.0)
    with pytest.raises(errors.CredentialsRefusedError):
        retries.while_refused(failing_with([REFUSED]), print)


def test_a_start_does_not_wait_for_a_server_that_is_away() -> None:
    with pytest.raises(errors.TransientError):
        retries.while_refused(failing_with([AWAY]), print)


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        ("plain", errors.SpecRejectedError, "It is refused."),
        (
            Secret.env("PG_DSN"),
            errors.SpecRejectedError,
            "It is refused (a process keeps what PG_DSN was when it began; ss.Secret.file is read again).",
        ),
        (
            Secret.file("/pg/dsn"),
            errors.CredentialsRefusedError,
            "It is refused; /pg/dsn is read again for 3 minutes, since its Secret may be changing.",
        ),
    ],
    ids=["a plain value", "a variable", "a file"],
)
def test_only_a_file_is_worth_another_look(
    value: str | Secret, kind: type[errors.StatefulSparkError], told: str
) -> None:
    error = secret.credentials_refused("PostgresAccessDenied", "It is refused", ["other", value])
    assert (type(error), error.message) == (kind, told)


def test_a_file_that_is_not_there_may_be_on_its_way() -> None:
    with pytest.raises(errors.CredentialsRefusedError, match="SecretMissing"):
        Secret.file("/nowhere/token").reveal()
