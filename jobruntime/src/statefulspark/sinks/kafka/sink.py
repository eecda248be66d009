"""The Kafka sink: a batch's records become visible in one transaction, once.

Workers stage records on the job's object store. When a checkpoint that covers the batch is complete, the driver sends them
in one Kafka transaction that also moves the sink's marker. Killed anywhere, it does so again after a restart: the marker
tells whether the transaction took place. A transaction is never left open between prepare and commit, so none can expire
with the data in it, and readers wait for no checkpoint of another job.

Guaranteed, for consumers with `isolation.level=read_committed`: each record of a committed batch is there once, batches in
order, and within a partition of the stream records in order. A driver that has been replaced writes nothing any more.

The marker may be lost: brokers forget offsets of a group that has been idle (`offsets.retention.minutes`, 7 days unless
changed). The position is kept on the job's object store too, written after each commit, which settles everything but one
case: the driver died between Kafka's commit and that note, and stayed away for longer than brokers keep offsets. Then it
cannot be told whether the one batch in question was committed, and the sink refuses to guess (`KafkaMarkerLost`) until
`after_lost_marker` says what to do. `offsets_kept` says how long brokers surely keep offsets; a batch that was staged more
recently than that is never in doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from statefulspark import clock, errors, storage
from statefulspark.sinks import kinds, marker, secret, staging
from statefulspark.sinks.kafka import records
from statefulspark.storage import conditional

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.sinks.kafka import session as sessions
    from statefulspark.storage import ObjectStore, StorageOptions

NOTE = "marker.json"
"""The position on the object store, beside the staged files."""
_OWNED = {
    "bootstrap.servers": "it is the sink's bootstrap_servers",
    "transactional.id": "zombies are fenced by it",
    "enable.idempotence": "a transaction needs it",
    "acks": "a transaction needs all",
    "group.id": "the marker is kept under it",
    "isolation.level": "the marker is read committed",
    "enable.auto.commit": "the marker moves in transactions only",
}


class AfterLostMarker(StrEnum):
    """What to do with a batch of which it cannot be told whether it was committed."""

    FAIL = "fail"
    """Stop and ask."""
    COMMIT = "commit"
    """Write it: its records may be there twice."""
    SKIP = "skip"
    """Leave it out: its records may be missing."""


@dataclass(frozen=True)
class KafkaSink:
    """Writes each batch to a Kafka topic in one transaction.

    Attributes:
        topic: An existing topic.
        bootstrap_servers: `host:port`, several separated by commas.
        serializer: Makes a record of a row; None takes the columns `value`, `key`, `headers` and `partition` as they are.
        options: More settings of the client (librdkafka's names), for example `security.protocol`; secrets as `ss.Secret`.
        offsets_kept: How long the brokers keep an idle group's offsets at least.
        after_lost_marker: See `sinks.kafka.sink`.
    """

    topic: str
    bootstrap_servers: str
    serializer: records.Serializer | None = None
    options: Mapping[str, str | secret.Secret] = field(default_factory=dict, repr=False)
    offsets_kept: timedelta = timedelta(days=1)
    after_lost_marker: AfterLostMarker | str = AfterLostMarker.FAIL

    def __post_init__(self) -> None:
        """Refuse settings that would break a guarantee.

        Raises:
            SpecRejectedError: `SinkSettingRefused`, naming each and why.
        """
        refused = [f"{key} ({_OWNED[key]})" for key in sorted(self.options) if key in _OWNED]
        if refused:
            raise errors.SpecRejectedError(
                "SinkSettingRefused", f"These options belong to the Kafka sink; remove them: {'; '.join(refused)}"
            )
        AfterLostMarker(self.after_lost_marker)

    def check_schema(self, schema: pa.Schema, options: StorageOptions) -> None:
        """Refuse a stream whose columns make no record, before the query starts.

        Raises:
            SpecRejectedError: `SinkSchemaMismatch`.
        """
        records.check(schema, self.serializer)

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Stage one partition's records on a worker; nothing is sent to Kafka."""
        return staging.stage(records.encode(batches, self.serializer), context)

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Name the staged files of the batch."""
        staged = staging.merge(parts)
        return None if staged is None else staged.to_json().encode()

    def open(self, context: SinkContext) -> None:
        """Fence drivers of older epochs and look up how far the sink has committed.

        Raises:
            SpecRejectedError: `KafkaTopicMissing`, `KafkaAccessDenied`, `SecretMissing`, `ExtraMissing`.
            TransientError: `KafkaUnavailable`.
            FencedError: A newer epoch has opened the sink.
        """
        _sessions.open(self, context)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Send the batch and move the marker, in one transaction; does nothing if that has been done.

        Raises:
            TransientError: `KafkaUnavailable`: call again.
            FencedError: A newer epoch has opened the sink.
            StateUnknownError: `KafkaMarkerLost`, `StagedRowsMissing`.
        """
        staged = staging.parse(transaction, context)
        reached = _sessions.commit(self, staged, context)
        staging.sweep(context, reached.position)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Drop the staged records of a batch that will never be committed."""
        staging.discard(staging.parse(transaction, context), context)


def is_in_doubt(reached: marker.Marker, staged_at: datetime, offsets_kept: timedelta) -> bool:
    """Tell whether a batch may have been committed although the marker does not say so.

    It may if the marker was lost once, and the batch was staged so early that an offset which its commit wrote may have
    been forgotten by then.

    Args:
        reached: The marker.
        staged_at: When the batch was staged, which is before any commit of it.
        offsets_kept: How long offsets are surely kept.
    """
    return reached.lost_at is not None and staged_at < reached.lost_at - offsets_kept


def recovered_marker(found: marker.Marker | None, noted: marker.Marker | None, now: datetime) -> marker.Marker | None:
    """Return how far the sink has committed, from Kafka's marker and the note on storage.

    Args:
        found: Kafka's marker; None if there is none.
        noted: The note, which is written after each opening and commit; None before the first.
        now: The time to remember for a marker that is lost.

    Returns:
        The marker; None if the sink is new as far as this root knows.
    """
    if found is not None:
        return found
    return None if noted is None else noted.model_copy(update={"lost_at": now})


class _Sessions:
    """The open sessions of this process, by transactional id."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], tuple[sessions.Session, marker.Marker]] = {}

    def open(self, sink: KafkaSink, context: SinkContext) -> marker.Marker:
        kinds.KAFKA.require_client()
        from statefulspark.sinks.kafka import session as sessions

        self._close(sink, context)
        session = sessions.Session(_target(sink, context))
        try:
            found = recovered_marker(session.open(), _read_note(context), clock.utc_now())
            reached = marker.admitted(found, context, _where(sink))
            if found is None and context.descent.cuts:
                reached = reached.model_copy(update={"lost_at": clock.utc_now()})
            session.commit((), reached, "write the marker")
        except sessions.ProducerLostError as error:
            session.close()
            raise _raced(sink) from error
        except BaseException:
            session.close()
            raise
        _write_note(context, reached)
        self._open[_key(sink, context)] = session, reached
        return reached

    def commit(self, sink: KafkaSink, staged: staging.StagedRows, context: SinkContext) -> marker.Marker:
        """Commit, opening the session anew when a failure has spoilt it; return how far the sink is then."""
        from statefulspark.sinks.kafka import session as sessions

        try:
            return self._commit_once(sink, staged, context)
        except sessions.ProducerLostError:
            # Our own younger producer, or a driver that has been replaced: the marker tells which of both is newer.
            reached = self.open(sink, context)
        except errors.TransientError:
            self._close(sink, context)
            raise
        try:
            return reached if reached.covers(context) else self._commit_once(sink, staged, context)
        except sessions.ProducerLostError as error:
            self._close(sink, context)
            raise _raced(sink) from error

    def _commit_once(self, sink: KafkaSink, staged: staging.StagedRows, context: SinkContext) -> marker.Marker:
        session, reached = self._current(sink, context)
        marker.require_newest(reached, context, _where(sink))
        doubtful = is_in_doubt(reached, staged.staged_at, sink.offsets_kept)
        if reached.covers(context) and not (doubtful and context.is_inherited):
            return reached
        after = reached.after(context)
        if doubtful and sink.after_lost_marker == AfterLostMarker.FAIL:
            raise _lost(sink, staged, context)
        is_skipped = doubtful and sink.after_lost_marker == AfterLostMarker.SKIP
        rows = () if is_skipped else staging.read(staged, context)
        session.commit(rows, after, f"commit batch {context.batch_id}")
        self._open[_key(sink, context)] = session, after
        _write_note(context, after)
        return after

    def _current(self, sink: KafkaSink, context: SinkContext) -> tuple[sessions.Session, marker.Marker]:
        if _key(sink, context) not in self._open:
            self.open(sink, context)
        return self._open[_key(sink, context)]

    def _close(self, sink: KafkaSink, context: SinkContext) -> None:
        session, _ = self._open.pop(_key(sink, context), (None, None))
        if session is not None:
            session.close()


_sessions = _Sessions()


def _key(sink: KafkaSink, context: SinkContext) -> tuple[str, str]:
    return sink.bootstrap_servers, context.transactional_id


def _where(sink: KafkaSink) -> str:
    return f"the topic {sink.topic} at {sink.bootstrap_servers}"


def _target(sink: KafkaSink, context: SinkContext) -> sessions.Target:
    from statefulspark.sinks.kafka import session as sessions

    return sessions.Target(
        servers=sink.bootstrap_servers,
        topic=sink.topic,
        transactional_id=context.transactional_id,
        group=f"{context.transactional_id}/marker",
        settings=secret.reveal_all(sink.options),
    )


def _read_note(context: SinkContext) -> marker.Marker | None:
    store = storage.open_store(context.staging_uri, context.options)
    try:
        body = store.read(NOTE)
    except errors.ObjectNotFoundError:
        return None
    return marker.Marker.parse(body, f"{store.uri}/{NOTE}")


def _write_note(context: SinkContext, reached: marker.Marker) -> None:
    note(storage.open_store(context.staging_uri, context.options), reached)


def note(store: ObjectStore, reached: marker.Marker) -> None:
    """Write the position beside the staged files, unless a newer driver has; repeated, it changes nothing.

    A driver that was replaced, and writes late, must not put an older position there: it would count if Kafka forgot the
    marker.

    Args:
        store: Rooted at the staging folder.
        reached: The position, and the epoch that it was reached in.
    """
    body = reached.to_json().encode()
    while True:
        info = store.info(NOTE)
        if info is not None and not _is_older(store, reached):
            return
        if conditional.put(store, NOTE, body, etag=None if info is None else info.etag):
            return


def _is_older(store: ObjectStore, reached: marker.Marker) -> bool:
    try:
        present = marker.Marker.parse(store.read(NOTE), f"{store.uri}/{NOTE}")
    except errors.ObjectNotFoundError:
        return True  # It went since the look, which the write finds out.
    return present.lineage != reached.lineage or present.epoch <= reached.epoch


def _raced(sink: KafkaSink) -> errors.TransientError:
    return errors.TransientError(
        "KafkaRaced", f"Another producer opened {_where(sink)} under this sink's name meanwhile."
    )


def _lost(sink: KafkaSink, staged: staging.StagedRows, context: SinkContext) -> errors.StateUnknownError:
    staged_at = f"{staged.staged_at:%Y-%m-%d %H:%M} UTC"
    return errors.StateUnknownError(
        "KafkaMarkerLost",
        f"Batch {context.batch_id} of the sink {context.uid} ({staged.rows} rows, staged at {staged_at}) may be in "
        f"{_where(sink)} already: the sink's marker has expired meanwhile. Look for its records there, and set "
        f"after_lost_marker to {AfterLostMarker.SKIP.value!r} if they are there, else to {AfterLostMarker.COMMIT.value!r}.",
    )
