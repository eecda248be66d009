"""The life of a driver in a test, and where it ends: from that moment on it changes nothing on storage any more.

What a driver does is told by what it writes: the record of what a sink has prepared is the last of a batch before Spark
commits it, and the manifest is the last of a checkpoint. So a life ends between two requests of its store.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from statefulspark.storage.port import ObjectStore
from statefulspark.testing.stores import FaultyStore

_T = TypeVar("_T")
_PREPARED = re.compile(r"(^|/)prepared/[^/]+/[^/]+\.json$")
_MANIFEST = re.compile(r"^checkpoints/\d+/_metadata\.json$")
_WRITES = frozenset({"write", "create"})


class KillPoint(StrEnum):
    """A moment in the life of a driver at which a test can kill it."""

    BEFORE_COMMIT = "before-commit"
    """A batch has run, its state is written and its output is prepared; Spark has not committed it. It runs again."""
    BEFORE_CHECKPOINT = "before-checkpoint"
    """All files of a checkpoint are there, and its manifest is not."""
    AFTER_CHECKPOINT = "after-checkpoint"
    """The manifest of a checkpoint is there, and nobody has been told: sinks have prepared output and not committed it."""


class KilledError(Exception):
    """A driver that was killed wanted to use storage."""


class Life:
    """Whether a driver lives.

    Attributes:
        over: Set when its life has ended.
    """

    def __init__(self) -> None:
        """Begin to live."""
        self.over = threading.Event()
        self._ends_at: KillPoint | None = None

    def end(self) -> None:
        """End it now."""
        self.over.set()

    def end_at(self, point: KillPoint) -> None:
        """End it when the driver gets to a point for the first time."""
        self._ends_at = point

    def before(self, name: str, key: str) -> None:
        """Note that a request is about to be made.

        Raises:
            KilledError: The driver makes no request any more.
        """
        if self._ends_at is KillPoint.BEFORE_CHECKPOINT and name in _WRITES and _MANIFEST.search(key):
            self.end()
        self._require_life(name, key)

    def after(self, name: str, key: str) -> None:
        """Note that a request was made.

        Raises:
            KilledError: The driver has no use for the answer any more.
        """
        ended_by = {KillPoint.BEFORE_COMMIT: _PREPARED, KillPoint.AFTER_CHECKPOINT: _MANIFEST}
        pattern = ended_by.get(self._ends_at) if self._ends_at else None
        if pattern is not None and name in _WRITES and pattern.search(key):
            self.end()
        self._require_life(name, key)

    def _require_life(self, name: str, key: str) -> None:
        if self.over.is_set():
            raise KilledError(f"killed by the test, at {name} {key}")


class MortalStore(FaultyStore):
    """A store that a driver uses until its life ends."""

    def __init__(self, wrapped: ObjectStore, life: Life) -> None:
        """Use a store during a life."""
        super().__init__(wrapped)
        self._life = life

    def child(self, prefix: str) -> MortalStore:
        """See the port."""
        below = super().child(prefix)
        store = MortalStore(below.wrapped, self._life)
        store._prefix, store._journal = below._prefix, below._journal
        return store

    def _perform(self, name: str, key: str, act: Callable[[], _T]) -> _T:
        self._life.before(name, self._full(key))
        result = super()._perform(name, key, act)
        self._life.after(name, self._full(key))
        return result
