"""The Kafka sink: a batch's records become visible in one transaction, once. Small batches that wait share one.

Workers stage records on the job's object store. When the batch is to be visible, the driver sends them in one Kafka
transaction that also moves the sink's marker. After a failure at any point, it does so again after a restart: the marker
shows whether the transaction was committed. No transaction stays open between prepare and commit, so none can expire with
data in it, and readers do not wait for checkpoints of other jobs; nor long for a driver that died in a commit.

Guaranteed, for consumers with `isolation.level=read_committed`: each record of a committed batch exists once, batches are
in order, and records are in order within a partition of the stream. A replaced driver writes nothing any more.

The marker may be older than what was committed, if somebody has set the group's offset back, or brokers have lost what they
had acknowledged. Offsets and records are replicated apart from one another, so it is unknown whether the records are there:
the sink fails with `KafkaMarkerLost`, too.

The marker may be lost: brokers delete offsets of an idle group (`offsets.retention.minutes`, 7 days by default). The
position is also written to the job's object store after each commit (the note), which leaves one unknown case: the
driver died between Kafka's commit and the note, and the job was down for longer than brokers keep offsets. Then it is
unknown whether that batch was committed, and the sink fails with `KafkaMarkerLost` until `after_lost_marker` is set.
`offsets_kept` is the time that brokers certainly keep offsets; a batch that was staged more recently is never in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from statefulspark import clock, durations, errors, storage
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks import kinds, marker, secret, staging, standing, visibility
from statefulspark.sinks.base import Machine, Sink
from statefulspark.sinks.kafka import connection, records
from statefulspark.storage import port

if TYPE_CHECKING:
    from statefulspark.contract.manifest import Position
    from statefulspark.sinks.base import SinkContext, TwoPhaseSink
    from statefulspark.sinks.kafka import session as sessions
    from statefulspark.storage import ObjectStore, StorageOptions

NOTE = "marker.json"
"""Key of the position on the object store, in the sink's folder."""
_OWNED = {
    "bootstrap.servers": "it is the sink's bootstrap_servers",
    "transactional.id": "it fences older producers",
    "enable.idempotence": "a transaction needs it",
    "acks": "a transaction needs all",
    "group.id": "it names the marker",
    "isolation.level": "the marker is read committed",
    "enable.auto.commit": "the marker moves in transactions only",
}
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
"""Names that brokers take (`Topic.validate` of Kafka 3.9)."""


class AfterLostMarker(StrEnum):
    """Handling of a batch when it is unknown whether it was committed."""

    FAIL = "fail"
    """Fail the job."""
    COMMIT = "commit"
    """Write it; its records may be duplicated."""
    SKIP = "skip"
    """Skip it; its records may be missing."""


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Writes each batch to a Kafka topic in one transaction, with small batches that wait together.

    Attributes:
        topic: An existing topic.
        bootstrap_servers: `host:port`, several separated by commas; or a `KafkaConnection`, which also says how to log in.
        serializer: Converts a row to a record; None uses the columns `value`, `key`, `headers` and `partition`.
        options: Further settings of the client (librdkafka's names), for example `security.protocol`; secrets as
            `ss.Secret`.
        offsets_kept: Minimum time that the brokers keep offsets of an idle group, for example `7d`.
        after_lost_marker: Handling of a lost marker; see `sinks.kafka.sink`.
        visible: `checkpoint`: a batch is visible when a checkpoint covers it; `batch`: as soon as Spark has committed it.
    """

    topic: str
    _: KW_ONLY
    bootstrap_servers: str | connection.KafkaConnection
    serializer: records.Serializer | None = None
    options: Mapping[str, str | secret.Secret] = field(default_factory=dict, repr=False)
    offsets_kept: timedelta | str = timedelta(days=1)
    after_lost_marker: AfterLostMarker | Literal["fail", "commit", "skip"] = AfterLostMarker.FAIL
    visible: visibility.Visibility | Literal["checkpoint", "batch"] = visibility.Visibility.CHECKPOINT

    def __post_init__(self) -> None:
        """Reject settings that would break a guarantee, and a topic that no broker can have.

        Raises:
            InvalidArgumentError: `SinkSettingRefused`, with each setting and the cause; `DurationInvalid`.
        """
        given = self.bootstrap_servers
        if isinstance(given, connection.KafkaConnection):
            object.__setattr__(self, "options", {**given.client_options(), **self.options})
            object.__setattr__(self, "bootstrap_servers", given.bootstrap_servers)
        if _TOPIC.fullmatch(self.topic) is None:
            raise errors.InvalidArgumentError(
                "SinkSettingRefused",
                f"The Kafka sink cannot write to the topic {self.topic!r}: a topic's name has 1 to 249 letters, digits, "
                "dots, underscores and dashes of ASCII, and is not . or ..",
            )
        refused = [f"{key} ({_OWNED[key]})" for key in sorted(self.options) if key in _OWNED]
        if refused:
            raise errors.InvalidArgumentError(
                "SinkSettingRefused", f"These options belong to the Kafka sink; remove them: {'; '.join(refused)}"
            )
        durations.of(self.offsets_kept, "offsets_kept")
        AfterLostMarker(self.after_lost_marker)
        visibility.parse(self.visible, kinds.KAFKA.name)

    def _machine(self) -> TwoPhaseSink:
        return KafkaMachine(self)


class KafkaMachine(Machine[KafkaSink]):
    """Stages the records of a topic, and sends them."""

    def check_schema(self, schema: pa.Schema, options: StorageOptions) -> None:
        """Reject a stream whose columns do not fit a record, before the query starts.

        Raises:
            SpecRejectedError: `SinkSchemaMismatch`.
        """
        records.check(schema, self.settings.serializer)

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Stage the records of one partition on a worker; nothing is sent to Kafka."""
        given = self.settings.options.get("message.max.bytes", "")  # The client refuses a value that is no number.
        largest_bytes = int(given) if isinstance(given, str) and given.isdigit() else records.LARGEST_BYTES
        return staging.stage(records.encode(batches, self.settings.serializer, largest_bytes), context)

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Return the list of staged files of the batch."""
        staged = staging.merge(parts)
        return None if staged is None else staged.to_json().encode()

    def merge(self, earlier: bytes, later: bytes) -> bytes | None:
        """Return one transaction for two small batches."""
        return staging.merge_batches(earlier, later)

    @property
    def target(self) -> str:
        """Servers and topic."""
        return f"kafka://{self.settings.bootstrap_servers}/{self.settings.topic}"

    def stored_marker(self, context: SinkContext) -> marker.Marker | None:
        """Read the committed position without fencing anybody.

        Raises:
            SpecRejectedError: `KafkaTopicMissing`, `KafkaAccessDenied`, `SecretMissing`, `ExtraMissing`.
            TransientError: `KafkaUnavailable`.
        """
        return _sessions.stored_marker(self.settings, context)

    def open(self, context: SinkContext) -> None:
        """Fence drivers of older epochs and read the committed position.

        Raises:
            SpecRejectedError: `KafkaTopicMissing`, `KafkaAccessDenied`, `KafkaRefused`, `SecretMissing`, `ExtraMissing`.
            TransientError: `KafkaUnavailable`, `KafkaRaced`.
            FencedError: A newer epoch has opened the sink.
            StateUnknownError: `KafkaMarkerLost`.
        """
        _sessions.open(self.settings, context)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Send the batch and set the marker in one transaction; no effect if already done.

        Raises:
            TransientError: `KafkaUnavailable`: call again.
            FencedError: A newer epoch has opened the sink.
            StateUnknownError: `KafkaMarkerLost`, `SinkBehind`, `StagedRowsMissing`.
        """
        staged = staging.parse(transaction, context)
        _sessions.commit(self.settings, staged, context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Leave the staged records to retention: nothing was sent."""


def is_in_doubt(reached: marker.Marker, staged_at: datetime, offsets_kept: timedelta) -> bool:
    """Tell whether a batch may have been committed although the marker does not cover it.

    That is possible if the marker was lost once, and the batch was staged so early that the brokers may have deleted the
    offset of its commit by then.

    Args:
        reached: The marker.
        staged_at: When the batch was staged, which is before any commit of it.
        offsets_kept: Minimum time that offsets are kept.
    """
    return reached.lost_at is not None and staged_at < reached.lost_at - offsets_kept


def recovered_marker(noted: marker.Marker | None, context: SinkContext, now: datetime) -> marker.Marker | None:
    """Return what is committed without Kafka's marker, from the note on storage or the restored snapshot.

    Args:
        noted: The note, which is written after each opening and commit; None before the first.
        context: Context of the driver, with what it knows to be committed.
        now: The time to store for a lost marker.

    Returns:
        The marker; None if the sink is new.
    """
    committed = context.expected.committed
    if noted is None and context.expected.was_opened:
        begun = marker.Marker.beginning(context)
        noted = begun if committed is None else begun.counting(committed)
    return None if noted is None else noted.model_copy(update={"lost_at": now})


def settled_marker(
    sink: KafkaSink, stored: marker.Marker, once: tuple[Position | None, ...], context: SinkContext
) -> marker.Marker:
    """Return the marker after a look whether it lacks a batch that was committed: then `after_lost_marker` decides.

    Args:
        sink: The sink.
        stored: Kafka's marker.
        once: Batches that are known to be committed.
        context: Context of the driver.

    Raises:
        StateUnknownError: `KafkaMarkerLost`.
    """
    lacking = next((batch for batch in once if standing.lacks(stored, batch, context)), None)
    is_repeated = sink.after_lost_marker == AfterLostMarker.COMMIT or SinkRight.REPEAT in context.descent.rights
    if lacking is None or is_repeated:
        return stored
    if sink.after_lost_marker == AfterLostMarker.SKIP:
        return stored.counting(lacking)
    raise errors.StateUnknownError(
        "KafkaMarkerLost",
        f"The marker of the sink {context.uid} in {_where(sink)} has gone back: it lacks batch {lacking.batch_id} "
        f"(generation {lacking.generation}), which was committed. Somebody has set the offset of the group "
        f"{context.transactional_id}/marker back, or the brokers have lost it. Look for the batch's records in the topic, "
        f"and set after_lost_marker to {AfterLostMarker.SKIP.value!r} if they exist, else to "
        f"{AfterLostMarker.COMMIT.value!r}.",
    )


_Opening = Callable[["sessions.Session"], "marker.Marker | None"]
"""Fences older producers by a session, and returns the marker that the brokers have."""


class _Sessions:
    """The open sessions of this process, by transactional id."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], tuple[sessions.Session, marker.Marker]] = {}

    def open(self, sink: KafkaSink, context: SinkContext) -> None:
        """Open the first session of this driver."""
        self._open_by(lambda session: session.open(), sink, context, marker.open_marker)

    def _reopen(self, sink: KafkaSink, context: SinkContext, timeout: timedelta | None = None) -> None:
        """Open a session in place of one that failed."""
        self._open_by(lambda session: session.reopen(), sink, context, marker.require_newest, timeout)

    def _open_by(
        self,
        opening: _Opening,
        sink: KafkaSink,
        context: SinkContext,
        judge: marker.Judge,
        timeout: timedelta | None = None,
    ) -> None:
        """Open a session; `judge` decides whether this driver may go on with the marker."""
        kinds.KAFKA.require_client()
        from statefulspark.sinks.kafka import clienterrors
        from statefulspark.sinks.kafka import session as sessions

        for named in (context, *map(context.named, context.descent.other_jobs)):
            self._close(sink, named)
        session = sessions.Session(_target(sink, context, timeout or sessions.TRANSACTION_TIMEOUT))
        try:
            at_brokers = opening(session)
            stored = None if context.continues else _recovered(sink, at_brokers, context)
            reached = judge(stored, context, _where(sink)).opened_by(context)
            is_new = stored is None and context.continues is None
            if is_new and context.descent.cuts and context.expected.elsewhere is None:
                reached = reached.model_copy(update={"lost_at": clock.utc_now()})
            session.commit((), reached, "write the marker")
        except clienterrors.ProducerLostError as error:
            session.close()
            raise _conflict_error(sink) from error
        except BaseException:
            session.close()
            raise
        _write_note(context, reached)
        self._open[_key(sink, context)] = session, reached

    def stored_marker(self, sink: KafkaSink, context: SinkContext) -> marker.Marker | None:
        kinds.KAFKA.require_client()
        from statefulspark.sinks.kafka import session as sessions

        session = sessions.Session(_target(sink, context, sessions.TRANSACTION_TIMEOUT))
        try:
            return _recovered(sink, session.stored_marker(), context)
        finally:
            session.close()

    def commit(self, sink: KafkaSink, staged: staging.StagedRows, context: SinkContext) -> None:
        """Commit, with a new session after a failure; a batch that took too long gets all the time there is."""
        from statefulspark.sinks.kafka import clienterrors
        from statefulspark.sinks.kafka import session as sessions

        try:
            self._commit_once(sink, staged, context)
            return
        except clienterrors.ProducerLostError as lost:
            # Another producer fenced this one: the marker shows whether a newer driver has replaced this driver.
            took_too_long = isinstance(lost, clienterrors.TookTooLongError)
        except (errors.TransientError, errors.SpecRejectedError):
            self._close(sink, context)
            raise
        self._reopen(sink, context, sessions.LONGEST_TRANSACTION_TIMEOUT if took_too_long else None)
        try:
            self._commit_once(sink, staged, context)
        except clienterrors.TookTooLongError as error:
            self._close(sink, context)
            raise errors.TransientError("KafkaUnavailable", str(error)) from error
        except clienterrors.ProducerLostError as error:
            self._close(sink, context)
            raise _conflict_error(sink) from error

    def _commit_once(self, sink: KafkaSink, staged: staging.StagedRows, context: SinkContext) -> None:
        if _key(sink, context) not in self._open:
            self._reopen(sink, context)
        session, held = self._open[_key(sink, context)]
        # An idle group's offset may expire while nobody else has written it.
        stored = settled_marker(sink, session.reached() or held, (held.newest, context.expected.committed), context)
        reached = marker.require_newest(stored, context, _where(sink))
        doubtful = is_in_doubt(reached, staged.staged_at, durations.of(sink.offsets_kept, "offsets_kept"))
        if reached.covers(context) and not (doubtful and context.is_inherited):
            return
        after = reached.after(context)
        if doubtful and sink.after_lost_marker == AfterLostMarker.FAIL:
            staged_at = f"{staged.staged_at:%Y-%m-%d %H:%M} UTC"
            raise errors.StateUnknownError(
                "KafkaMarkerLost",
                f"Batch {context.batch_id} of the sink {context.uid} ({staged.rows} rows, staged at {staged_at}) may be in "
                f"{_where(sink)} already: the sink's marker has expired meanwhile. Look for its records there, and set "
                f"after_lost_marker to {AfterLostMarker.SKIP.value!r} if they exist, else to "
                f"{AfterLostMarker.COMMIT.value!r}.",
            )
        is_skipped = doubtful and sink.after_lost_marker == AfterLostMarker.SKIP
        rows = () if is_skipped else staging.read(staged, context)
        session.commit(rows, after, f"commit batch {context.batch_id}")
        self._open[_key(sink, context)] = session, after
        _write_note(context, after)

    def _close(self, sink: KafkaSink, context: SinkContext) -> None:
        session, _ = self._open.pop(_key(sink, context), (None, None))
        if session is not None:
            session.close()


_sessions = _Sessions()


def _recovered(sink: KafkaSink, stored: marker.Marker | None, context: SinkContext) -> marker.Marker | None:
    # The note of another topic tells nothing about this one.
    is_new = context.expected.elsewhere is not None
    noted = None if is_new else _read_note(storage.open_store(context.notes_uri, context.options))
    if stored is not None:
        once = (noted.newest if noted is not None else None, context.expected.committed)
        return settled_marker(sink, stored, once, context)
    return recovered_marker(noted, context, clock.utc_now())


def _key(sink: KafkaSink, context: SinkContext) -> tuple[str, str]:
    return str(sink.bootstrap_servers), context.transactional_id


def _where(sink: KafkaSink) -> str:
    return f"the topic {sink.topic} at {sink.bootstrap_servers}"


def _target(sink: KafkaSink, context: SinkContext, timeout: timedelta) -> sessions.KafkaTarget:
    from statefulspark.sinks.kafka import session as sessions

    return sessions.KafkaTarget(
        servers=str(sink.bootstrap_servers),
        topic=sink.topic,
        transactional_id=context.transactional_id,
        group=f"{context.transactional_id}/marker",
        options=sink.options,
        transaction_timeout=timeout,
    )


def _read_note(store: ObjectStore) -> marker.Marker | None:
    try:
        return marker.Marker.parse(store.read(NOTE), f"{store.uri}/{NOTE}")
    except errors.ObjectNotFoundError:
        return None


def _write_note(context: SinkContext, reached: marker.Marker) -> None:
    write_note(storage.open_store(context.notes_uri, context.options), reached)


def write_note(store: ObjectStore, reached: marker.Marker) -> None:
    """Write the position to the sink's folder, unless a newer driver has written it; idempotent.

    A replaced driver that writes late must not store an older position: it would be used if Kafka lost the marker.

    Args:
        store: Rooted at the sink's folder.
        reached: The position and its epoch.
    """
    body = reached.to_json().encode()
    while True:
        info = store.info(NOTE)
        # A note that was deleted meanwhile lets the conditional write fail.
        present = None if info is None else _read_note(store)
        if present is not None and present.lineage == reached.lineage and present.epoch > reached.epoch:
            return
        if port.put_unless_changed(store, NOTE, body, etag=None if info is None else info.etag):
            return


def _conflict_error(sink: KafkaSink) -> errors.TransientError:
    return errors.TransientError(
        "KafkaRaced", f"Another producer opened {_where(sink)} under this sink's name meanwhile."
    )
