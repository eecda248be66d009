"""Who takes part in a snapshot, and who cannot: acknowledgements and declines, as the coordinator hears of them.

A participant is a query, or a function or sink whose part is durable with the query's batches. It acknowledges with the last
batch that its query has committed. It declines when its query is not at work, when its part of a batch could not be prepared
while the snapshot waited for that batch, or when what it had acknowledged turns out not to be readable.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.coordinator import model
from statefulspark.spark.queries import RunningQuery


class DeclinedError(errors.StatefulSparkError):
    """A participant's part of a snapshot cannot be had; the snapshot is given up and the job goes on.

    Operator action: none if the next snapshot succeeds; else do what the message says.

    Attributes:
        participant: Who, as the coordinator names it.
    """

    def __init__(self, participant: str, why: errors.StatefulSparkError) -> None:
        super().__init__(why.reason, why.message)
        self.participant = participant


@contextlib.contextmanager
def taking_part(participant: str) -> Iterator[None]:
    """Say who declines when the block fails.

    Raises:
        DeclinedError: Instead of any error of ours; a newer driver's fence stays what it is.
    """
    try:
        yield
    except errors.FencedError:
        raise
    except errors.StatefulSparkError as error:
        raise DeclinedError(participant, error) from error


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a participant could not prepare its part of a batch."""

    participant: str
    message: str


class Refusals:
    """What participants could not prepare, until the loop asks: noted where a batch fails, by whatever thread runs it."""

    def __init__(self) -> None:
        """Know of none."""
        self._by_query: dict[str, Refusal] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def noting(self, query_uid: str, participant: str) -> Iterator[None]:
        """Note why the block fails; the error goes on its way."""
        try:
            yield
        except Exception as error:
            self.note(query_uid, participant, error)
            raise

    def note(self, query_uid: str, participant: str, error: Exception) -> None:
        """Note why a participant of a query could not prepare."""
        why = error.message if isinstance(error, errors.StatefulSparkError) else f"{type(error).__name__}: {error}"
        with self._lock:
            self._by_query[query_uid] = Refusal(participant, why)

    def take(self, query_uid: str) -> Refusal | None:
        """Return what was noted last for a query, once."""
        with self._lock:
            return self._by_query.pop(query_uid, None)


def answers(
    snapshot_id: int,
    now_s: float,
    *,
    participants: Mapping[str, str],
    running: Sequence[RunningQuery],
    is_ending: bool,
) -> tuple[model.Acknowledged | model.Declined, ...]:
    """Return what every participant says to a snapshot now.

    Args:
        snapshot_id: The snapshot.
        now_s: Now.
        participants: Their names, each with the query whose batches make it durable.
        running: The queries.
        is_ending: The job is about to end, so that nobody would announce the snapshot.
    """
    queries = {query.uid: query for query in running}
    return tuple(
        _answer(snapshot_id, now_s, name, queries[query_uid], is_ending=is_ending)
        for name, query_uid in participants.items()
    )


def _answer(
    snapshot_id: int, now_s: float, participant: str, query: RunningQuery, *, is_ending: bool
) -> model.Acknowledged | model.Declined:
    if is_ending or query.error is not None:
        why = f"the query {query.uid!r} is ending"
        reason = model.AbortReason.CHECKPOINT_DECLINED_TASK_CLOSING
        return model.Declined(now_s, snapshot_id, participant, why, reason)
    if query.is_starting:
        why = f"the query {query.uid!r} is being started again and does not run yet"
        reason = model.AbortReason.CHECKPOINT_DECLINED_TASK_NOT_READY
        return model.Declined(now_s, snapshot_id, participant, why, reason)
    return model.Acknowledged(now_s, snapshot_id, participant, query.committed_batch)
