"""Announces the end of a snapshot: sinks commit, functions are notified, positions are published.

Completion is announced for checkpoints and for the savepoint of a stop. A savepoint that is taken while the job runs is
not used for recovery and announces nothing (A.49, A.102). Sinks that show each batch commit between snapshots too.
Each sink commits in a lane of its own (`commit`), so a sink that is away holds back only itself. `notify_complete` and
`notify_aborted` are called in another lane, one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from statefulspark.contract import api
from statefulspark.contract.manifest import QueryEntry
from statefulspark.driver.output import commit

Publisher = Callable[[Sequence[QueryEntry]], None]
"""Publishes the positions of a completed snapshot; called last. It must not raise errors that may pass."""


class Listener(Protocol):
    """Is notified of snapshots."""

    def snapshot_begun(self, snapshot_id: int) -> None:
        """Handle the begin of a snapshot."""
        ...

    def snapshot_covers(self, snapshot_id: int, queries: Sequence[QueryEntry]) -> None:
        """Handle the contents of a snapshot, before its completion is announced."""
        ...

    def notify_complete(self, checkpoint_id: int) -> None:
        """Handle the completion of a snapshot and all before it; an error fails the job (A.47)."""
        ...

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Handle that a snapshot was aborted."""
        ...


class Announcer:
    """Notifies sinks, functions and publishers; remembers what each unfinished snapshot covers."""

    def __init__(
        self,
        committer: commit.Committer,
        listeners: Sequence[Listener] = (),
        publishers: Sequence[Publisher] = (),
    ) -> None:
        """Keep the receivers of announcements."""
        self._committer = committer
        self._listeners = tuple(listeners)
        self._publishers = tuple(publishers)
        self._covered: dict[int, tuple[QueryEntry, ...]] = {}
        self._lock = threading.Lock()

    @property
    def retry_message(self) -> str | None:
        """Why an announcement is being retried; None if none is."""
        return self._committer.retry_message

    def sinks(self) -> tuple[api.SinkStatus, ...]:
        """Return the progress of the sinks."""
        return self._committer.statuses()

    def snapshot_begun(self, snapshot_id: int) -> None:
        """Announce that a snapshot has begun."""
        for listener in self._listeners:
            listener.snapshot_begun(snapshot_id)

    def snapshot_covers(self, snapshot_id: int, queries: tuple[QueryEntry, ...]) -> None:
        """Remember what a snapshot will cover, before its manifest is written.

        Raises:
            SnapshotCorruptError: See `Committer.require_named`.
        """
        self._committer.require_named(queries)
        with self._lock:
            self._covered[snapshot_id] = tuple(query.model_copy(update={"files": ()}) for query in queries)

    def snapshot_completed(self, snapshot_id: int) -> None:
        """Let the sinks commit what a complete snapshot covers."""
        with self._lock:
            queries = self._covered.get(snapshot_id, ())
        self._committer.cover(queries)

    def due_sinks(self, batches: Mapping[str, int]) -> tuple[commit.SinkKey, ...]:
        """Return the sinks that have something to commit; see `Committer.due_sinks`."""
        return self._committer.due_sinks(batches)

    def commit(self, sink: commit.SinkKey, batches: Mapping[str, int]) -> None:
        """Let a sink commit what it may; waits for it while it is unavailable.

        Args:
            sink: The sink; no other call of it is under way.
            batches: The last committed batch of each query, by uid.

        Raises:
            FencedError: A newer driver runs.
            StatefulSparkError: The sink failed; the job must fail, and the next driver commits.
        """
        self._committer.sink(sink).commit(batches.get(sink[0], -1))

    def forget(self, snapshot_id: int) -> None:
        """Forget a snapshot that is not to be committed: it was aborted, or was taken while the job runs."""
        self._pop(snapshot_id)

    def notify_complete(self, snapshot_id: int) -> None:
        """Announce to functions and publishers that a snapshot is complete.

        Raises:
            StatefulSparkError: A function failed; the job must fail.
        """
        queries = self._pop(snapshot_id)
        for listener in self._listeners:
            listener.snapshot_covers(snapshot_id, queries)
            listener.notify_complete(snapshot_id)
        for publish in self._publishers:
            publish(queries)

    def notify_aborted(self, snapshot_id: int) -> None:
        """Announce that a snapshot was aborted.

        Raises:
            StatefulSparkError: A function failed.
        """
        for listener in self._listeners:
            listener.notify_aborted(snapshot_id)

    def limit_waiting(self) -> None:
        """Wait for each unavailable sink at most as long as a stop may take."""
        self._committer.limit_waiting()

    def cancel_retries(self) -> None:
        """Make a commit that waits for its next attempt fail now."""
        self._committer.cancel_retries()

    def _pop(self, snapshot_id: int) -> tuple[QueryEntry, ...]:
        with self._lock:
            return self._covered.pop(snapshot_id, ())


def uncommitted(location: str, why: str) -> str:
    """Return the message for a stop whose snapshot is complete and whose commits are not (A.164)."""
    return (
        f"A snapshot has been created at {location}, and the job failed while it stopped: {why} The snapshot is consistent, "
        "and may hold transactions that are not committed yet; a restore commits them."
    )
