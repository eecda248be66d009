"""Translates errors of Kafka's client to errors of the runtime, with the broker's message."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from statefulspark import errors

_ENDS_PRODUCER = frozenset(
    [KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FATAL]
)
_DENIED = frozenset(
    [
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ]
)
_WRONG = frozenset(
    [
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_RECORD,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._INVALID_ARG,
    ]
)
_NO_TOPIC = frozenset([KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC])


def cause(error: KafkaException) -> KafkaError:
    """Return the KafkaError of an exception."""
    wrapped = error.args[0]
    return wrapped if isinstance(wrapped, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def is_end_of_producer(error: KafkaError) -> bool:
    """Tell whether the producer is unusable: a newer one with its transactional id has fenced it, or a fatal error."""
    return error.fatal() or error.code() in _ENDS_PRODUCER


def is_about_credentials(hint: str) -> bool:
    """Tell whether a connection message of the client is about authentication; it has no error code."""
    return "uthentication fail" in hint


def translate(error: KafkaError, *, action: str, servers: str, topic: str, hint: str = "") -> errors.StatefulSparkError:
    """Translate an error.

    Args:
        error: What the client reported.
        action: The failed action, for example "commit batch 7".
        servers: The bootstrap servers.
        topic: The sink's topic.
        hint: The client's last connection message; it distinguishes a wrong password from an unreachable server.
    """
    description = error.str() or error.name()
    where = f"Could not {action} in the topic {topic} at {servers}"
    if error.code() in _NO_TOPIC:
        return no_topic(topic, servers)
    if error.code() in _DENIED or is_about_credentials(hint):
        return errors.SpecRejectedError(
            "KafkaAccessDenied",
            f"{where}: {hint or description}; check the sink's credentials and its rights on the topic.",
        )
    if error.code() in _WRONG:
        return errors.SpecRejectedError("KafkaRefused", f"{where}: {description} ({error.name()}).")
    return errors.TransientError(
        "KafkaUnavailable",
        f"{where}: {description} ({error.name()}{'; ' + hint if hint else ''}); check that the brokers run and can be "
        "reached.",
    )


def no_topic(topic: str, servers: str) -> errors.SpecRejectedError:
    """Return the error for a topic that does not exist."""
    return errors.SpecRejectedError(
        "KafkaTopicMissing",
        f"The topic {topic} does not exist at {servers}, and a sink creates none; create it with the partitions and the "
        "retention that its readers need.",
    )
