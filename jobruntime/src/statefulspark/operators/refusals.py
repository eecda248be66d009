"""Why a function or sink could not prepare its part of a batch: recorded where the batch fails, in any thread.

The driver reads it, and declines the snapshots that wait for the batch.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from statefulspark import errors


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a participant could not prepare its part of a batch."""

    participant: str
    message: str


class Refusals:
    """The latest refusal of each query until the loop reads it; thread-safe."""

    def __init__(self) -> None:
        """Start without refusals."""
        self._by_query: dict[str, Refusal] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def noting(self, query_uid: str, participant: str) -> Iterator[None]:
        """Record why the block fails, and raise the error again."""
        try:
            yield
        except Exception as error:
            self.note(query_uid, participant, error)
            raise

    def note(self, query_uid: str, participant: str, error: Exception) -> None:
        """Record why a participant of a query could not prepare."""
        why = error.message if isinstance(error, errors.StatefulSparkError) else f"{type(error).__name__}: {error}"
        with self._lock:
            self._by_query[query_uid] = Refusal(participant, why)

    def take(self, query_uid: str) -> Refusal | None:
        """Remove and return the latest refusal of a query."""
        with self._lock:
            return self._by_query.pop(query_uid, None)
