"""What a fenced producer raises, wherever the client happens to raise it."""

from __future__ import annotations

import threading
from unittest import mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from sinkcontexts import a_marker
from statefulspark import errors
from statefulspark.sinks.kafka import clienterrors
from statefulspark.sinks.kafka import session as kafka_session

TARGET = kafka_session.KafkaTarget("127.0.0.1:9", "words", "default/words", "default/words/marker")


def fenced() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FENCED, "a newer instance", fatal=True))


def hidden() -> SystemError:
    """Return what Python makes of a callback that the client runs with its exception pending."""
    try:
        raise SystemError("a callback returned a result with an exception set") from fenced()
    except SystemError as error:
        return error


@pytest.mark.parametrize("raised", [fenced(), hidden()], ids=["plainly", "behind a callback"])
@pytest.mark.parametrize("call", ["begin_transaction", "flush", "commit_transaction"])
def test_a_fenced_producer_is_lost_whatever_call_says_so(call: str, raised: Exception) -> None:
    session = kafka_session.Session(TARGET)
    producer = mock.Mock(**{"flush.return_value": 0, f"{call}.side_effect": raised})
    with mock.patch.object(session, "_producer", producer), pytest.raises(clienterrors.ProducerLostError):
        session.commit((), a_marker(), "commit batch 7")


def test_a_fenced_producer_whose_exception_the_client_has_lost_says_it_when_it_is_asked_again() -> None:
    session = kafka_session.Session(TARGET)
    nothing = SystemError("flush returned NULL without setting an exception")
    producer = mock.Mock(**{"flush.side_effect": nothing, "abort_transaction.side_effect": fenced()})
    with mock.patch.object(session, "_producer", producer), pytest.raises(clienterrors.ProducerLostError):
        session.commit((), a_marker(), "commit batch 7")


def test_an_error_of_python_itself_is_no_fence() -> None:
    session = kafka_session.Session(TARGET)
    producer = mock.Mock(**{"begin_transaction.side_effect": SystemError("bad call")})
    with mock.patch.object(session, "_producer", producer), pytest.raises(SystemError, match="bad call"):
        session.commit((), a_marker(), "commit batch 7")


def test_a_marker_that_the_client_does_not_send_in_time_is_given_up_and_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_session, "_COMMIT_TIMEOUT_S", 0.0)
    monkeypatch.setattr(kafka_session, "_GRACE_S", 0.01)
    session, over = kafka_session.Session(TARGET), threading.Event()

    def wait(*_: object) -> None:
        over.wait()

    producer = mock.Mock(**{"flush.return_value": 0, "send_offsets_to_transaction.side_effect": wait})
    try:
        with (
            mock.patch.object(session, "_producer", producer),
            pytest.raises(errors.TransientError, match="KafkaUnavailable"),
        ):
            session.commit((), a_marker(), "commit batch 7")
    finally:
        over.set()
    assert (producer.abort_transaction.called, producer.commit_transaction.called) == (True, False)


def test_what_the_client_says_of_a_marker_is_said() -> None:
    session = kafka_session.Session(TARGET)
    producer = mock.Mock(**{"flush.return_value": 0, "send_offsets_to_transaction.side_effect": fenced()})
    with mock.patch.object(session, "_producer", producer), pytest.raises(clienterrors.ProducerLostError):
        session.commit((), a_marker(), "commit batch 7")


@pytest.mark.parametrize(
    ("settings", "expected_ms"),
    [
        pytest.param({}, 60_000, id="a minute"),
        pytest.param({"transaction.timeout.ms": "5000"}, 5000, id="what the user says"),
        pytest.param({"message.timeout.ms": "300000"}, 300_000, id="no less than a message may take"),
        pytest.param({"socket.timeout.ms": "90000"}, 90_000, id="no less than a request may take"),
        pytest.param({"message.timeout.ms": "0"}, 60_000, id="a message that may take any time"),
    ],
)
def test_a_transaction_may_take_as_long_as_the_client_accepts(settings: dict[str, str], expected_ms: int) -> None:
    target = kafka_session.KafkaTarget("127.0.0.1:9", "words", "default/words", "default/words/marker", settings)
    kafka_session.Session(target).close()
    assert target.transaction_timeout_ms == expected_ms


@pytest.mark.parametrize("moves", ["raised", "answered"])
def test_a_broker_that_does_not_know_yet_who_has_the_group_is_asked_again(
    moves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_session, "_LOOKUP_POLL_S", 0.0)
    session, moving = kafka_session.Session(TARGET), KafkaError(KafkaError.NOT_COORDINATOR)
    nothing = mock.Mock(error=None, offset=-1001)
    first = KafkaException(moving) if moves == "raised" else [mock.Mock(error=moving)]
    consumer = mock.Mock(**{"committed.side_effect": [first, [nothing]]})
    with mock.patch.object(session, "_consumer", consumer):
        assert session.reached() is None
