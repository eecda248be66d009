"""Every error that Kafka's client knows is judged; a code of a new release fails here until somebody has judged it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from statefulspark import errors
from statefulspark.judgement import Remedy
from statefulspark.sinks.kafka import clienterrors, judgements
from statefulspark.sinks.kafka.session import KafkaTarget
from statefulspark.sinks.secret import Secret

_CODES = {name: code for name, code in vars(KafkaError).items() if name.strip("_").isupper() and isinstance(code, int)}
_TARGET = KafkaTarget("kafka:9092", "words", "id", "group", {"transaction.timeout.ms": "1000000"})


def told(code: int, *, hint: int | None = None, target: KafkaTarget = _TARGET, fatal: bool = False) -> Exception:
    trouble = None if hint is None else KafkaError(hint, "a connection fails")
    error = KafkaError(code, "it failed", fatal=fatal)
    return clienterrors.translate(error, action="commit batch 7", target=target, hint=trouble)


def test_each_error_is_judged_and_no_other() -> None:
    assert {KafkaError(code).name() for code in _CODES.values()} == judgements.NAMES.keys()


@pytest.mark.parametrize("fatal", [False, True])
@pytest.mark.parametrize(
    ("code", "kind", "reason", "advice"),
    [
        (KafkaError.NOT_COORDINATOR, errors.TransientError, "KafkaUnavailable", "settled who leads"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.TransientError, "KafkaUnavailable", "know the topic again"),
        (KafkaError.NOT_ENOUGH_REPLICAS, errors.TransientError, "KafkaUnavailable", "min.insync.replicas"),
        (KafkaError._TRANSPORT, errors.TransientError, "KafkaUnavailable", "waits until the brokers answer"),
        (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            errors.SpecRejectedError,
            "KafkaAccessDenied",
            "give the user",
        ),
        (KafkaError._AUTHENTICATION, errors.SpecRejectedError, "KafkaAccessDenied", "check the sasl. settings"),
        (KafkaError.MSG_SIZE_TOO_LARGE, errors.SpecRejectedError, "KafkaRefused", "raise message.max.bytes"),
        (KafkaError.POLICY_VIOLATION, errors.SpecRejectedError, "KafkaRefused", "change the policy"),
        (KafkaError.UNKNOWN_MEMBER_ID, errors.SpecRejectedError, "KafkaRefused", "a group of its own"),
        (
            KafkaError.INVALID_TRANSACTION_TIMEOUT,
            errors.SpecRejectedError,
            "KafkaRefused",
            "transaction.timeout.ms of the sink is 1000000, and the brokers allow at most their transaction.max.timeout.ms",
        ),
    ],
)
def test_an_error_says_what_is_waited_for_or_what_to_change(
    code: int, kind: type[errors.StatefulSparkError], reason: str, advice: str, *, fatal: bool
) -> None:
    error = told(code, fatal=fatal)
    assert isinstance(error, errors.StatefulSparkError)
    assert (type(error), error.reason) == (kind, reason)
    assert error.message.startswith("Could not commit batch 7 in the topic words at kafka:9092: it failed (")
    assert advice in error.message


@pytest.mark.parametrize("code", [KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError._FATAL])
def test_only_a_fence_means_another_producer(code: int) -> None:
    assert isinstance(told(code), clienterrors.ProducerLostError)


def test_brokers_that_do_not_answer_a_wrong_password_are_not_waited_for() -> None:
    error = told(KafkaError._TIMED_OUT, hint=KafkaError._AUTHENTICATION)
    assert isinstance(error, errors.SpecRejectedError)
    assert error.reason == "KafkaAccessDenied"


def test_trouble_with_tls_is_named_while_it_is_waited_for() -> None:
    error = told(KafkaError._TIMED_OUT, hint=KafkaError._SSL)
    assert isinstance(error, errors.TransientError)
    assert "security.protocol" in error.message


def test_a_password_in_a_file_is_read_again() -> None:
    target = KafkaTarget("kafka:9092", "words", "id", "group", {"sasl.password": Secret.file("/kafka/password")})
    assert isinstance(told(KafkaError.SASL_AUTHENTICATION_FAILED, target=target), errors.CredentialsRefusedError)


def test_a_code_that_the_client_has_no_name_for_is_waited_for() -> None:
    assert judgements.judge(KafkaError(999).name()).remedy is Remedy.WAIT
