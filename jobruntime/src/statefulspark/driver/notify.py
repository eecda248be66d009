"""Tells everybody what became of a snapshot, in Flink's order: sinks commit, functions hear of it, positions are published.

Completion is announced for checkpoints and for the savepoint of a stop; one that is taken while the job runs serves nobody's
recovery and announces nothing (A.49, A.102). `complete` and `aborted` are called
in a lane of their own, one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from statefulspark.contract import api
from statefulspark.contract.manifest import QueryEntry
from statefulspark.driver import commit

Publisher = Callable[[Sequence[QueryEntry]], None]
"""Tells the outside how far a completed snapshot has come; called last. It must not raise for what may pass."""


_REMEMBERED = 8
"""While a sink is away, snapshots complete and cannot be announced; the newest ones name everything that waits."""


class Listener(Protocol):
    """Hears of snapshots."""

    def snapshot_begun(self, snapshot_id: int) -> None:
        """Take note that a snapshot has begun."""
        ...

    def snapshot_covers(self, snapshot_id: int, queries: Sequence[QueryEntry]) -> None:
        """Take note of what a snapshot holds, before its completion is announced."""
        ...

    def notify_complete(self, checkpoint_id: int) -> None:
        """Take note that a snapshot, and every one before it, is complete; an error fails the job (A.47)."""
        ...

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Take note that a snapshot was given up."""
        ...


class Announcer:
    """Knows everybody, and what each snapshot that is being written covers."""

    def __init__(
        self,
        committer: commit.Committer,
        listeners: Sequence[Listener] = (),
        publishers: Sequence[Publisher] = (),
    ) -> None:
        """Announce to these."""
        self._committer = committer
        self._listeners = tuple(listeners)
        self._publishers = tuple(publishers)
        self._covered: dict[int, tuple[QueryEntry, ...]] = {}
        self._lock = threading.Lock()

    @property
    def trouble(self) -> str | None:
        """Why an announcement takes long; None if it does not."""
        return self._committer.trouble

    def sinks(self) -> tuple[api.SinkStatus, ...]:
        """Return how far the sinks are."""
        return self._committer.statuses()

    def begun(self, snapshot_id: int) -> None:
        """A snapshot has begun."""
        for listener in self._listeners:
            listener.snapshot_begun(snapshot_id)

    def covers(self, snapshot_id: int, queries: tuple[QueryEntry, ...]) -> None:
        """Note what a snapshot will cover, before its manifest is written.

        Raises:
            SnapshotCorruptError: See `Committer.require_named`.
        """
        self._committer.require_named(queries)
        with self._lock:
            self._covered[snapshot_id] = tuple(query.model_copy(update={"files": ()}) for query in queries)
            for oldest in sorted(self._covered)[:-_REMEMBERED]:
                del self._covered[oldest]

    def forget(self, snapshot_id: int) -> None:
        """A snapshot ended that nobody has to hear of."""
        self._pop(snapshot_id)

    def complete(self, snapshot_id: int) -> None:
        """Announce that a snapshot is complete; sinks that are unavailable are waited for.

        Raises:
            FencedError: A newer driver runs.
            StatefulSparkError: A sink or a function failed; the job has to fail, and its successor commits.
        """
        queries = self._pop(snapshot_id)
        self._committer.commit(queries)
        for listener in self._listeners:
            listener.snapshot_covers(snapshot_id, queries)
            listener.notify_complete(snapshot_id)
        for publish in self._publishers:
            publish(queries)

    def aborted(self, snapshot_id: int) -> None:
        """Announce that a snapshot was given up.

        Raises:
            StatefulSparkError: A function failed.
        """
        self._pop(snapshot_id)
        for listener in self._listeners:
            listener.notify_aborted(snapshot_id)

    def hurry(self) -> None:
        """Wait for unavailable sinks no longer than a stop may take."""
        self._committer.hurry()

    def stop_trying(self) -> None:
        """Let a commit that waits for another try fail now."""
        self._committer.stop_trying()

    def _pop(self, snapshot_id: int) -> tuple[QueryEntry, ...]:
        with self._lock:
            return self._covered.pop(snapshot_id, ())


def uncommitted(location: str, why: str) -> str:
    """Return what to tell somebody whose stop completed its snapshot and not its commits (A.164)."""
    return (
        f"A snapshot has been created at {location}, and the job failed while it stopped: {why} The snapshot is consistent, "
        "and may hold transactions that are not committed yet; whoever restores it commits them."
    )
