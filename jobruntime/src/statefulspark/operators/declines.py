"""Participants that cannot do their part of a snapshot: noted where a batch fails, by whatever runs it.

Nothing here knows the coordinator: the driver turns what is noted into what the coordinator hears of.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from statefulspark import errors


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
