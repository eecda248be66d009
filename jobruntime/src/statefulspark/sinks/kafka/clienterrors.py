"""Translates errors of Kafka's client to errors of the runtime, with the broker's message."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from confluent_kafka import KafkaError, KafkaException

from statefulspark import errors
from statefulspark.judgement import Remedy
from statefulspark.sinks import secret
from statefulspark.sinks.kafka import judgements

if TYPE_CHECKING:
    from statefulspark.sinks.kafka.session import KafkaTarget


class ProducerLostError(Exception):
    """This producer is unusable, usually because a newer one with its transactional id exists.

    The marker decides whether that one belongs to a newer driver.
    """


class TookTooLongError(ProducerLostError):
    """The producer was lost after the time that brokers give a transaction: it is they who have ended it."""


def cause(error: KafkaException) -> KafkaError:
    """Return the KafkaError of an exception."""
    wrapped = error.args[0]
    return wrapped if isinstance(wrapped, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def is_about_credentials(hint: KafkaError | None) -> bool:
    """Tell whether the client's last trouble with a connection is that the brokers do not believe it."""
    return hint is not None and hint.code() == KafkaError._AUTHENTICATION


def translate(error: KafkaError, *, action: str, target: KafkaTarget, hint: KafkaError | None = None) -> Exception:
    """Translate an error; a producer that was fenced is a `ProducerLostError`.

    Args:
        error: What the client reported.
        action: The failed action, for example "commit batch 7".
        target: What the sink writes to.
        hint: The client's last trouble with a connection; it distinguishes a wrong password from an unreachable server.
    """
    judgement = judgements.judge(error.name(), "" if hint is None else hint.name())
    advice = judgement.advice.format(transaction_timeout_ms=target.transaction_timeout_ms)
    said = "; ".join([f"{error.str() or error.name()} ({error.name()})", *([] if hint is None else [hint.str()])])
    message = f"Could not {action} in the topic {target.topic} at {target.servers}: {said}; {advice}"
    match judgement.remedy:
        case Remedy.WAIT:
            return errors.TransientError("KafkaUnavailable", f"{message}.")
        case Remedy.LOST_RACE:
            return ProducerLostError(error.str())
        case Remedy.CREDENTIALS:
            return secret.credentials_refused("KafkaAccessDenied", message, target.options.values())
        case Remedy.RIGHTS:
            return errors.SpecRejectedError("KafkaAccessDenied", f"{message}.")
        case Remedy.PERSON:
            return errors.SpecRejectedError("KafkaRefused", f"{message}.")
        case _ as never:
            assert_never(never)


def no_topic(target: KafkaTarget) -> errors.SpecRejectedError:
    """Return the error for a topic that does not exist."""
    return errors.SpecRejectedError(
        "KafkaTopicMissing",
        f"The topic {target.topic} does not exist at {target.servers}. A sink creates no topic; create it with the "
        "partitions and the retention that its readers need.",
    )
