"""The live display of a job at a terminal, as text: what is shown of a status, in how many columns. Pure.

A line is a row of spans, each with a tone; `written` makes text of it for a terminal, which fits the width and contains no
control characters but its own. It knows nothing of cursors: `live` places lines.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from statefulspark import durations, outgoing
from statefulspark.contract import api, observations, sizes
from statefulspark.driver.running import source_lag

_RULE = "─"
_CUT = "…"
_GAP = "  "
_HEAD = ("query", "batch", "took", "rate", "rows read", "behind")


class Tone(Enum):
    """The look of a span; the value is its parameter of SGR (ECMA-48)."""

    PLAIN = ""
    QUIET = "2"
    STRONG = "1"
    GOOD = "32"
    WARNING = "33"
    BAD = "31"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]

_TONES = {
    api.JobState.RUNNING: Tone.GOOD,
    api.JobState.FAILED: Tone.BAD,
    api.JobState.FENCED: Tone.BAD,
    api.JobState.STOPPED: Tone.QUIET,
    api.JobState.STANDBY: Tone.QUIET,
    api.JobState.STARTING: Tone.WARNING,
    api.JobState.STOPPING: Tone.WARNING,
}


@dataclass(frozen=True, slots=True)
class LiveView:
    """What is shown.

    Attributes:
        status: The status of the job.
        state: The sizes of its state.
        now: The time, by the clock that the status is from.
    """

    status: api.JobStatus
    state: observations.StateSizes
    now: datetime


def lines(view: LiveView, most: int) -> tuple[Line, ...]:
    """Return the display, the head first.

    Args:
        view: What is shown.
        most: The most lines that there is room for, at least 4. Queries that have no room are counted.
    """
    status = view.status
    head = (
        Span(f"{_RULE * 2} ", Tone.QUIET),
        Span(status.job, Tone.STRONG),
        Span(" "),
        Span(status.state.value, _TONES[status.state]),
        Span(
            f" for {durations.format_short(view.now - status.started_at)}, epoch {status.epoch}; Ctrl-C ends it at a batch "
            f"boundary {_RULE}",
            Tone.QUIET,
        ),
    )
    below = tuple(_below(view))
    room = max(1, most - 2 - len(below))
    shown = status.queries if len(status.queries) <= room else status.queries[: max(1, room - 1)]
    rows = [_HEAD]
    for query in shown:
        took = (
            durations.format_short(timedelta(milliseconds=query.batch_duration_ms)) if query.batch_duration_ms else ""
        )
        rate, read = f"{query.rows_per_second:,.0f} rows/s", f"{query.input_rows:,}"
        rows.append((query.uid, _batch(query, view.now), took, rate, read, _behind(query)))
    rest = len(status.queries) - len(shown)
    more: tuple[Line, ...] = ((Span(f"and {rest} more queries", Tone.QUIET),),) if rest else ()
    return (head, *_table(rows), *more, *below)[:most]


def written(line: Line, width: int, *, coloured: bool) -> str:
    """Return a line as text for a terminal.

    Args:
        line: The line. One whose text ends with a rule is continued to the width.
        width: Columns of the terminal; what does not fit is cut, and marked.
        coloured: Whether tones are written.
    """
    text, left = "", width
    spans = [(outgoing.join_lines(span.text), span.tone) for span in line]
    if line and line[-1].text.endswith(_RULE):
        missing = width - sum(_columns(part) for part, _ in spans)
        spans[-1] = (spans[-1][0] + _RULE * max(0, missing), spans[-1][1])
    for part, tone in spans:
        if _columns(part) > left:
            while part and _columns(part) > left - 1:
                part = part[:-1]
            part = part + _CUT if left > 0 else ""
        left -= _columns(part)
        text += f"\x1b[{tone.value}m{part}\x1b[0m" if coloured and part and tone is not Tone.PLAIN else part
    return text


def summary(status: api.JobStatus) -> tuple[str, ...]:
    """Return what stays on the terminal when the display is gone: a sentence for each query that has run a batch."""
    return tuple(
        f"{query.uid}: {query.input_rows:,} rows since the start, the last batch is {query.batch_id}"
        for query in status.queries
        if query.batch_id >= 0
    )


def _batch(query: api.QueryStatus, now: datetime) -> str:
    if not query.active:
        return "failed" if query.error else "ended"
    if query.batch_since is not None:
        return f"{query.batch_id + 1} for {durations.format_short(now - query.batch_since)}"
    return str(query.batch_id) if query.batch_id >= 0 else "none yet"


def _behind(query: api.QueryStatus) -> str:
    """Tell how far a query is behind; a source that does not tell is never counted as read."""
    lag = source_lag.total(query.sources)
    if lag is None:
        return "unknown" if query.sources else ""
    is_whole = all(source.lag_rows is not None for source in query.sources)
    return f"{lag:,} rows" if is_whole else f"{lag:,} rows or more"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[Line]:
    widths = [max(_columns(row[column]) for row in rows) for column in range(len(_HEAD))]
    for number, row in enumerate(rows):
        tones = [Tone.QUIET] * len(row) if number == 0 else [Tone.STRONG, *[Tone.PLAIN] * (len(row) - 1)]
        padded = [f"{cell}{' ' * (width - _columns(cell))}{_GAP}" for cell, width in zip(row, widths, strict=True)]
        yield tuple(Span(cell, tone) for cell, tone in zip((*padded[:-1], row[-1]), tones, strict=True))


def _below(view: LiveView) -> Iterator[Line]:
    status, operators = view.status, view.state.operators
    state = "none in a checkpoint yet"
    if operators:
        total = sizes.format_short(sum(operator.size_bytes for operator in operators))
        state = f"{total} in {_counted(len(operators), 'operator')}, {view.state.snapshot or 'as restored'}"
    yield _named("state", state)
    counts, newest = status.checkpoints, status.last_checkpoint
    text = f"{counts.completed} completed, {counts.failed} failed"
    if counts.in_progress:
        text += f", {counts.in_progress} in progress"
    if newest is None:
        text += "; none is on storage yet"
    else:
        ago = durations.format_short(view.now - newest.completed_at)
        took = durations.format_short(newest.completed_at - newest.triggered_at)
        text += f"; the newest is {newest.id}, {ago} ago, took {took}, {sizes.format_short(newest.size_bytes)}"
    yield _named("checkpoints", text)
    pending = sum(sink.pending_transactions for sink in status.sinks)
    if pending:
        yield _named("sinks", f"{_counted(pending, 'prepared transaction')} for the next checkpoint")
    if status.message:
        yield _named("now", status.message)
    if status.last_error is not None:
        ago = durations.format_short(view.now - status.last_error.failed_at)
        yield _named("error", f"{ago} ago: {status.last_error.message}", Tone.BAD)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _named(name: str, text: str, tone: Tone = Tone.PLAIN) -> Line:
    return Span(f"{name:<12}", Tone.QUIET), Span(text, tone)


def _columns(text: str) -> int:
    visible = (letter for letter in text if not unicodedata.combining(letter))
    return sum(2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1 for letter in visible)
