"""The duration of writing a snapshot and the size of its new files, which the API reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from statefulspark.contract import api
from statefulspark.contract.manifest import QueryEntry


class Stopwatch:
    """Times the phases of one snapshot.

    Attributes:
        phases_ms: Whole milliseconds by phase, in the order in which they ended; the times of a repeated phase are added.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing measured."""
        self._clock = clock
        self.phases_ms: dict[str, int] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the block, also if it raises."""
        began_s = self._clock()
        try:
            yield
        finally:
            took_ms = round((self._clock() - began_s) * 1000)
            self.phases_ms[name] = self.phases_ms.get(name, 0) + took_ms


class Growth:
    """Remembers the files of the previous checkpoint, to find the new files of the next. Used by one thread."""

    def __init__(self, previous: Sequence[QueryEntry] = ()) -> None:
        """Begin with the files of the restored snapshot."""
        self._previous = _files(previous).keys()

    def new_bytes(self, entries: Sequence[QueryEntry]) -> int:
        """Return the size of the files that the previous checkpoint did not need, and remember the files."""
        files = _files(entries)
        new = sum(size for key, size in files.items() if key not in self._previous)
        self._previous = files.keys()
        return new


def measured(
    summary: api.SnapshotSummary, entries: Sequence[QueryEntry], new_bytes: int, watch: Stopwatch
) -> api.SnapshotSummary:
    """Return the summary of a snapshot with its measurements."""
    count = sum(len(entry.files) for entry in entries)
    changes = {"incremental_size_bytes": new_bytes, "files": count, "phases_ms": dict(watch.phases_ms)}
    return summary.model_copy(update=changes)


def _files(entries: Sequence[QueryEntry]) -> dict[str, int]:
    return {f"{entry.path}/{file.path}": file.size_bytes for entry in entries for file in entry.files}
