"""The one line that shows where the demo is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from demo import observer, story, timeline

BAR_WIDTH = 24
RATE_WINDOW = timedelta(seconds=10)


def line(
    state: story.Story,
    look: observer.Look,
    *,
    started_at: datetime,
    commits: Sequence[timeline.CommitPoint],
    last_snapshot: int | None,
) -> str:
    """Say how far the job is: time, phase, flights, rate, batches, newest snapshot, epoch and chapter."""
    done, total = min(look.seen.flights, state.total), state.total
    return "  ".join(
        (
            clock(look.seen.at - started_at),
            f"{look.job.phase or 'Pending':<10}",
            f"{bar(done / total)} {done:>7,} of {total:,}",
            f"{rate(commits, look.seen.at):>6,.0f}/s",
            f"batches {batches(commits)}",
            f"snapshot {last_snapshot or '-'}",
            f"epoch {look.seen.epoch}",
            state.stage.value,
        )
    )


def clock(elapsed: timedelta) -> str:
    """Write a length of time as minutes and seconds."""
    minutes, seconds = divmod(max(0, int(elapsed.total_seconds())), 60)
    return f"{minutes:02d}:{seconds:02d}"


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """Draw a share between 0 and 1."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "░" * (width - full)


def rate(commits: Sequence[timeline.CommitPoint], now: datetime) -> float:
    """Return flights per second over the last seconds."""
    recent = [point.rows for point in commits if point.query == "aircraft" and point.at > now - RATE_WINDOW]
    return sum(recent) / RATE_WINDOW.total_seconds()


def batches(commits: Sequence[timeline.CommitPoint]) -> str:
    """Name the newest batch of each query."""
    newest = (max((p.batch_id for p in commits if p.query == query), default=-1) for query in observer.QUERIES)
    return "+".join("-" if batch < 0 else str(batch) for batch in newest)


def news(mark: timeline.Mark, started_at: datetime) -> str:
    """Say what happened, with the time since the start."""
    return f"{clock(mark.at - started_at)}  {mark.kind.value:<10}  {mark.text}"
