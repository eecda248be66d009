"""A sink's connection to Kafka on the driver: one transactional producer, and the marker in its transactions.

The marker is an offset of a consumer group without members, with the position as the offset's metadata. The transaction with
the rows also changes the marker. `open` calls `init_transactions`, which completes or aborts an open transaction of an older
producer with the same transactional id; the marker is read after that, so no transaction of that producer can become visible
later.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from statefulspark import errors, threads
from statefulspark.sinks import marker, secret
from statefulspark.sinks.kafka import clienterrors, records

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

_T = TypeVar("_T")
_OPEN_TIMEOUT_S = 30.0
_LOOKUP_TIMEOUT_S = 5.0
_LOOKUP_POLL_S = 0.5
_COMMIT_TIMEOUT_S = 60.0
_GRACE_S = 5.0
"""How much longer than its timeout a call may take before it is given up, see `_within`."""
_DEFAULTS: Mapping[str, str | bool] = {
    "linger.ms": "20",
    "batch.size": "500000",
    "compression.type": "lz4",
    # Spark's Kafka sink, and every Java client, puts a key there.
    "partitioner": "murmur2_random",
    "queue.buffering.max.kbytes": "65536",
    # A delivery report for each successful record costs more than sending it.
    "delivery.report.only.error": True,
}
TRANSACTION_TIMEOUT = timedelta(minutes=1)
"""How long brokers keep a transaction whose driver is dead; meanwhile readers of committed data stand still."""
LONGEST_TRANSACTION_TIMEOUT = timedelta(minutes=15)
"""For a batch that takes longer to send: the brokers' default limit."""
_BELOW_TRANSACTION = ("message.timeout.ms", "delivery.timeout.ms", "socket.timeout.ms")
"""Settings of the user that the client allows no transaction to end before."""
_PRODUCER_ONLY = (
    "linger",
    "batch.",
    "compression",
    "queue.buffering",
    "transaction",
    "message.",
    "partitioner",
    "delivery",
)
"""Beginnings of settings that a consumer does not have."""
_NO_TOPIC = frozenset([KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC])


class _Header(TypedDict):
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """The target of a sink, and the names that it uses there.

    Attributes:
        servers: Bootstrap servers.
        topic: The topic; the marker is an offset of its partition 0.
        transactional_id: One per sink and job.
        group: The marker's consumer group.
        options: The user's client settings; their secrets are looked up when a session is made.
        transaction_timeout: How long a transaction may take, unless the user has set it.
    """

    servers: str
    topic: str
    transactional_id: str
    group: str
    options: Mapping[str, str | secret.Secret] = field(default_factory=dict, repr=False)
    transaction_timeout: timedelta = TRANSACTION_TIMEOUT

    @property
    def transaction_timeout_ms(self) -> int:
        """How long a transaction may take, in the client's unit."""
        given = self.options.get("transaction.timeout.ms")
        if given is not None:
            return _milliseconds(given)
        below = [_milliseconds(self.options[name]) for name in _BELOW_TRANSACTION if name in self.options]
        return max(self.transaction_timeout // timedelta(milliseconds=1), *below, 0)


class Session:
    """One producer, from its opening until it is fenced or closed; not thread-safe."""

    def __init__(self, target: KafkaTarget) -> None:
        """Create the clients; `open` connects them.

        Raises:
            SpecRejectedError: `KafkaRefused`: the client rejects an option or its value; `SecretMissing`.
        """
        self._target = target
        self._hint: KafkaError | None = None
        self._undelivered: KafkaError | None = None
        client = {"bootstrap.servers": target.servers, "error_cb": self._record_hint, "log_level": 0}
        client |= secret.reveal_all(target.options)
        reader = {key: value for key, value in client.items() if not key.startswith(_PRODUCER_ONLY)} | {
            "group.id": target.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        limit = {"transaction.timeout.ms": str(target.transaction_timeout_ms)}
        writer = {**_DEFAULTS, **limit, **client, "transactional.id": target.transactional_id}
        self._consumer = self._call("use the options", lambda: Consumer(reader))
        self._producer = self._call("use the options", lambda: Producer(writer))

    def open(self) -> marker.Marker | None:
        """Fence every older producer and return the marker; None if there is none.

        Raises:
            SpecRejectedError: `KafkaTopicMissing`, `KafkaAccessDenied`, `KafkaRefused`.
            TransientError: `KafkaUnavailable`.
        """
        self._require_topic()
        return self.reopen()

    def reopen(self) -> marker.Marker | None:
        """Do what `open` does, for a topic that was there; brokers that restart may not know it for a moment."""
        self._call("open a transaction", lambda: self._producer.init_transactions(_OPEN_TIMEOUT_S))
        return self.reached()

    def stored_marker(self) -> marker.Marker | None:
        """Return the marker without fencing anybody; see `open`."""
        self._require_topic()
        return self.reached()

    def reached(self) -> marker.Marker | None:
        """Return the marker of an open session.

        A broker that starts does not know for a moment which broker has the group, and is asked again.
        """
        deadline = time.monotonic() + _LOOKUP_TIMEOUT_S
        while True:
            try:
                committed = self._committed()
                break
            except errors.TransientError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_LOOKUP_POLL_S)
        if committed.offset < 0:
            return None
        try:
            return marker.Marker.parse((committed.metadata or "").encode(), "The marker of this sink")
        except errors.FormatVersionError:
            raise
        except errors.SnapshotCorruptError as error:
            raise errors.StateUnknownError(
                "KafkaMarkerUnreadable",
                f"The marker of this sink holds {committed.metadata!r}, which it did not write; another program commits "
                "offsets to its consumer group. Change the group of that program, and restore the marker or delete the "
                "group.",
            ) from error

    def _committed(self) -> TopicPartition:
        action, partitions = "read the marker", [TopicPartition(self._target.topic, 0)]
        answers = self._call(action, lambda: self._consumer.committed(partitions, _LOOKUP_TIMEOUT_S))
        committed: TopicPartition = answers[0]
        if committed.error is not None:
            raise self._translated(committed.error, action)
        return committed

    def commit(self, batches: Iterable[pa.RecordBatch], after: marker.Marker, action: str) -> None:
        """Write records and the marker in one transaction; any failure aborts the transaction.

        Args:
            batches: Records in their staged form.
            after: The new marker.
            action: Name of the action in errors.

        Raises:
            clienterrors.ProducerLostError: The producer is fenced or broken.
            clienterrors.TookTooLongError: It is, after the time that brokers give a transaction.
            TransientError: `KafkaUnavailable`; the transaction may or may not be committed, so open a new session.
            SpecRejectedError: `KafkaRefused`, `KafkaAccessDenied`, `KafkaTopicMissing`.
        """
        self._undelivered = None
        began_s = time.monotonic()
        try:
            self._call(action, self._producer.begin_transaction)
            self._fill(batches, after, action)
            self._call(action, lambda: self._producer.commit_transaction(_COMMIT_TIMEOUT_S))
        except clienterrors.ProducerLostError as error:
            took_s, target = time.monotonic() - began_s, self._target
            if took_s * 1000 < target.transaction_timeout_ms:
                raise
            raise clienterrors.TookTooLongError(
                f"Could not {action} in the topic {target.topic} at {target.servers} within {took_s:.0f} s: brokers end a "
                f"transaction after transaction.timeout.ms={target.transaction_timeout_ms}. Give the sink a larger one in "
                "its options, up to the brokers' transaction.max.timeout.ms; or limit the rows of a batch at its source."
            ) from error

    def close(self) -> None:
        """Close the connections; an open transaction ends when the next producer opens, or by its timeout."""
        self._consumer.close()

    def _require_topic(self) -> None:
        problem = self._call("look up the topic", self._topic_error)
        if problem is None:
            return
        if problem.code() in _NO_TOPIC:
            raise clienterrors.no_topic(self._target)
        raise self._translated(problem, "look up the topic")

    def _topic_error(self) -> KafkaError | None:
        """Poll for the topic in short intervals; between them the client reports connection errors.

        A broker learns of a topic some time after the topic's creation, and of all topics some time after its own start.
        """
        deadline = time.monotonic() + _LOOKUP_TIMEOUT_S
        while True:
            try:
                metadata: ClusterMetadata = self._consumer.list_topics(self._target.topic, _LOOKUP_POLL_S)
            except KafkaException:
                self._consumer.poll(0)
                if clienterrors.is_about_credentials(self._hint) or time.monotonic() >= deadline:
                    raise
                continue
            problem: KafkaError | None = metadata.topics[self._target.topic].error
            if problem is None or problem.code() not in _NO_TOPIC or time.monotonic() >= deadline:
                return problem
            time.sleep(_LOOKUP_POLL_S)

    def _fill(self, batches: Iterable[pa.RecordBatch], after: marker.Marker, action: str) -> None:
        try:
            for batch in batches:
                columns = [batch.column(name).to_pylist() for name in records.STAGED.names]
                for key, value, headers, partition in zip(*columns, strict=True):
                    self._send(key, value, headers, -1 if partition is None else partition, action)
                self._call(action, lambda: self._producer.poll(0))
                if self._undelivered is not None:
                    raise self._translated(self._undelivered, action)
            self._send_marker(after, action)
        except BaseException:
            # A transaction that cannot be rolled back is ended by the next opening.
            with contextlib.suppress(KafkaException):
                _run(self._producer.purge)
                _run(lambda: self._producer.abort_transaction(_LOOKUP_TIMEOUT_S))
            raise

    def _send(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[_Header] | None,
        partition: int,
        action: str,
    ) -> None:
        pairs: list[tuple[str, str | bytes | None]] | None = None
        if headers:
            pairs = [(header["key"], header["value"]) for header in headers]
        while True:
            try:
                self._producer.produce(self._target.topic, value, key, partition, self._delivered, headers=pairs)
                return
            except BufferError:
                self._call(action, lambda: self._producer.poll(0.1))  # the queue is full: wait for deliveries
            except KafkaException as error:
                raise self._translated(clienterrors.cause(error), action) from error

    def _send_marker(self, after: marker.Marker, action: str) -> None:
        # Flush records first: a rejected record has the cause, later calls only report that something failed.
        deadline = time.monotonic() + _COMMIT_TIMEOUT_S
        while self._call(action, lambda: self._producer.flush(1.0)) and self._undelivered is None:
            if time.monotonic() >= deadline:
                break
        if self._undelivered is not None:
            raise self._translated(self._undelivered, action)
        # A number for people who look at the group: how many batches were committed.
        batches = 0 if after.newest is None else after.newest.batch_id + 1
        offset = TopicPartition(self._target.topic, 0, batches, metadata=after.to_json())
        group = self._consumer.consumer_group_metadata()
        self._call(
            action,
            lambda: _within(
                _COMMIT_TIMEOUT_S + _GRACE_S,
                lambda: self._producer.send_offsets_to_transaction([offset], group, _COMMIT_TIMEOUT_S),
            ),
        )

    def _call(self, action: str, call: Callable[[], _T]) -> _T:
        try:
            return _run(call)
        except KafkaException as error:
            raise self._translated(clienterrors.cause(error), action) from error
        except SystemError as error:
            # A delivery callback made the client forget the error that ended this producer. A producer that is lost says so
            # again at every call about transactions, and a rollback is due anyway.
            try:
                _run(lambda: self._producer.abort_transaction(_LOOKUP_TIMEOUT_S))
            except KafkaException as fatal:
                raise self._translated(clienterrors.cause(fatal), action) from error
            raise

    def _translated(self, error: KafkaError, action: str) -> Exception:
        return clienterrors.translate(error, action=action, target=self._target, hint=self._hint)

    def _record_hint(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._hint = error

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._undelivered is None:
            self._undelivered = error


def _milliseconds(setting: str | secret.Secret) -> int:
    """Return the value of a setting; 0 for one that the client refuses by name."""
    return int(setting) if isinstance(setting, str) and setting.isdigit() else 0


def _run(call: Callable[[], _T]) -> _T:
    """Call the client. A fenced producer raises from any call that runs callbacks, including `poll` and `flush`."""
    try:
        return call()
    except SystemError as error:
        # The client ran a delivery callback while its exception was pending; sometimes none is left, see `_call`.
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


def _within(limit_s: float, call: Callable[[], _T]) -> _T:
    """Call the client in a thread of its own, and give the call up when its time is over.

    `send_offsets_to_transaction` waits without end, whatever its timeout, while the broker that coordinates the marker's
    group is gone, and sometimes after it is back (issue 5456 of librdkafka, seen with 2.16). The thread stays with its
    producer, which the next one with its transactional id fences: what it sends late has no effect.

    Raises:
        KafkaException: `_TIMED_OUT` when the call was given up, or what the call raises.
    """
    try:
        return threads.beside(call, name="kafka-marker").result(limit_s)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {limit_s:.0f} s")) from None
