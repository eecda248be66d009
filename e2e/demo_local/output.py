"""What the job has made visible so far, read as any reader of its files does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from oracle import results
from statefulspark import storage

QUERIES = ("aircraft", "carriers")
_RATE_WINDOW_S = 10.0


@dataclass
class Output:
    """The commits of both queries.

    Attributes:
        folder: Where the sinks write.
        is_replaced: Whether a driver may replace any commit, since the job goes back: each look reads all of them.
    """

    folder: Path
    is_replaced: bool = False
    _commits: dict[str, dict[int, results.Commit]] = field(default_factory=lambda: {query: {} for query in QUERIES})
    _rows_at: list[tuple[float, int]] = field(default_factory=list)

    def look(self) -> None:
        """Read the commits that are new; the newest known one is read again, since a driver may replace it."""
        for query, commits in self._commits.items():
            if (self.folder / query / results.COMMITS).is_dir():
                after = -1 if self.is_replaced else max(commits, default=0) - 1
                read = {commit.batch_id: commit for commit in results.read_commits(self.sink(query), after)}
                self._commits[query] = read if self.is_replaced else commits | read
        self._rows_at = [*self._rows_at[-200:], (time.monotonic(), self.rows)]

    @property
    def rows(self) -> int:
        """Flights that are visible."""
        return sum(commit.rows for commit in self._commits["aircraft"].values())

    @property
    def rows_per_s(self) -> float:
        """Flights that became visible a second, in the last ten seconds."""
        recent = [(at, rows) for at, rows in self._rows_at if at > time.monotonic() - _RATE_WINDOW_S]
        if len(recent) < 2:
            return 0.0
        return max(0.0, (recent[-1][1] - recent[0][1]) / max(recent[-1][0] - recent[0][0], 0.001))

    def first_of(self, epoch: int) -> datetime | None:
        """Return when a driver showed its first output, None before."""
        return min((commit.committed_at for commit in self._all() if commit.epoch == epoch), default=None)

    def last_before(self, epoch: int) -> datetime | None:
        """Return when the drivers before one showed their last output."""
        return max((commit.committed_at for commit in self._all() if commit.epoch < epoch), default=None)

    def batches(self) -> dict[str, tuple[results.Batch, ...]]:
        """Read all rows of both queries."""
        return {query: results.read_batches(self.sink(query)) for query in QUERIES}

    def sink(self, query: str) -> storage.ObjectStore:
        """Return the folder of a query's sink as a reader opens it."""
        return storage.open_store((self.folder / query).as_uri(), storage.StorageOptions(allow_local_files=True))

    def _all(self) -> Iterator[results.Commit]:
        return (commit for commits in self._commits.values() for commit in commits.values())
