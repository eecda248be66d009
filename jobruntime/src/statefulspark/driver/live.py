"""What a person sees while a job runs in the foreground: a line per query and second at most, with its newest batches.

A thread of its own looks at the published status, so a terminal that was paused (Ctrl-S) never holds the job up. Nothing
is shown where nobody looks on: in a pod, in a pipe, in a file.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TextIO

from statefulspark import launch, telemetry
from statefulspark.contract import api, durations

LOOK_S = 1.0
"""Time between two looks at the status."""

Status = Callable[[], api.JobStatus]


def is_watched() -> bool:
    """Tell whether a person looks on: the log is text, and goes to a terminal or to a notebook."""
    return telemetry.is_for_people() and (sys.stderr.isatty() or launch.is_interactive())


def news(before: api.JobStatus | None, now: api.JobStatus) -> tuple[str, ...]:
    """Return a sentence for each query that has run a batch since an earlier status.

    Args:
        before: The earlier status; None before the first.
        now: The status.
    """
    earlier = {query.uid: query for query in before.queries} if before is not None else {}
    return tuple(
        _sentence(earlier.get(query.uid), query) for query in now.queries if _has_run(earlier.get(query.uid), query)
    )


def _has_run(before: api.QueryStatus | None, now: api.QueryStatus) -> bool:
    """Tell by the measurements: Spark reports those of a batch a moment after it is committed."""
    return now.batch_duration_ms > 0 and (before is None or _measured(before) != _measured(now))


def _measured(query: api.QueryStatus) -> tuple[int, int, float]:
    return query.input_rows, query.batch_duration_ms, query.rows_per_second


def _sentence(before: api.QueryStatus | None, now: api.QueryStatus) -> str:
    new_rows = now.input_rows - (before.input_rows if before is not None else 0)
    duration = durations.format_short(timedelta(milliseconds=now.batch_duration_ms))
    rate = f" ({now.rows_per_second:,.0f} rows/s)" if new_rows else ""
    return f"{now.uid}: {new_rows:,} rows, batch {now.batch_id} in {duration}{rate}, {now.input_rows:,} rows since the start"


@contextlib.contextmanager
def watching(status: Status, target: TextIO | None = None, *, look_s: float = LOOK_S) -> Iterator[None]:
    """Show the news of a job while the block runs, and those of its last batches when it ends.

    Args:
        status: Returns the status of the job.
        target: Standard error when omitted.
        look_s: Time between two looks.
    """
    ended = threading.Event()
    stream = target or sys.stderr

    def watch() -> None:
        seen: api.JobStatus | None = None
        has_ended = False
        while not has_ended:
            has_ended = ended.wait(look_s)
            now = status()
            for sentence in news(seen, now):
                stream.write(f"  {sentence}\n")
            stream.flush()
            seen = now

    thread = threading.Thread(target=watch, name="live", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=look_s)
