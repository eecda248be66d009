"""The live display of a job at a terminal, as text: what is shown of a status, in how many columns. Pure.

A line is a row of spans, each with a tone; `written` makes text of it for a terminal, which fits the width and contains no
control characters but its own. It knows nothing of cursors: `live_screen` places lines.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from statefulspark import outgoing
from statefulspark.contract import api, durations, observations, sizes
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
    queries = view.status.queries
    below = tuple(_below(view))
    room = max(1, most - 2 - len(below))
    shown = queries if len(queries) <= room else queries[: max(1, room - 1)]
    rest = len(queries) - len(shown)
    more: tuple[Line, ...] = ((Span(f"and {rest} more queries", Tone.QUIET),),) if rest else ()
    table = _table([_HEAD, *(_cells(query, view.now) for query in shown)])
    return (_head(view), *table, *more, *below)[:most]


def written(line: Line, width: int, *, coloured: bool) -> str:
    """Return a line as text for a terminal.

    Args:
        line: The line. One whose text ends with a rule is continued to the width.
        width: Columns of the terminal; what does not fit is cut, and marked.
        coloured: Whether tones are written.
    """
    text, left = "", width
    for span in _filled(line, width):
        part = _fitting(_printable(span.text), left)
        left -= _columns(part)
        text += f"\x1b[{span.tone.value}m{part}\x1b[0m" if coloured and part and span.tone is not Tone.PLAIN else part
    return text


def summary(status: api.JobStatus) -> tuple[str, ...]:
    """Return what stays on the terminal when the display is gone: a sentence for each query that has run a batch."""
    return tuple(
        f"{query.uid}: {query.input_rows:,} rows since the start, the last batch is {query.batch_id}"
        for query in status.queries
        if query.batch_id >= 0
    )


def _head(view: LiveView) -> Line:
    status = view.status
    since = durations.format_short(view.now - status.started_at)
    return (
        Span(f"{_RULE * 2} ", Tone.QUIET),
        Span(status.job, Tone.STRONG),
        Span(" "),
        Span(status.state.value, _TONES[status.state]),
        Span(f" for {since}, epoch {status.epoch}; Ctrl-C ends it at a batch boundary {_RULE}", Tone.QUIET),
    )


def _cells(query: api.QueryStatus, now: datetime) -> tuple[str, ...]:
    return (
        query.uid,
        _batch(query, now),
        durations.format_short(timedelta(milliseconds=query.batch_duration_ms)) if query.batch_duration_ms else "",
        f"{query.rows_per_second:,.0f} rows/s",
        f"{query.input_rows:,}",
        _behind(query),
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
    status = view.status
    yield _named("state", _state(view.state))
    yield _named("checkpoints", _checkpoints(view))
    pending = sum(sink.pending_transactions for sink in status.sinks)
    if pending:
        yield _named("sinks", f"{_counted(pending, 'prepared transaction')} for the next checkpoint")
    if status.message:
        yield _named("now", status.message)
    if status.last_error is not None:
        ago = durations.format_short(view.now - status.last_error.failed_at)
        yield _named("error", f"{ago} ago: {status.last_error.message}", Tone.BAD)


def _state(state: observations.StateSizes) -> str:
    if not state.operators:
        return "none in a checkpoint yet"
    total = sum(operator.size_bytes for operator in state.operators)
    return f"{sizes.format_short(total)} in {_counted(len(state.operators), 'operator')}, {state.snapshot or 'as restored'}"


def _checkpoints(view: LiveView) -> str:
    counts, newest = view.status.checkpoints, view.status.last_checkpoint
    text = f"{counts.completed} completed, {counts.failed} failed"
    if counts.in_progress:
        text += f", {counts.in_progress} in progress"
    if newest is None:
        return f"{text}; none is on storage yet"
    ago = durations.format_short(view.now - newest.completed_at)
    took = durations.format_short(newest.completed_at - newest.triggered_at)
    return f"{text}; the newest is {newest.id}, {ago} ago, took {took}, {sizes.format_short(newest.size_bytes)}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _named(name: str, text: str, tone: Tone = Tone.PLAIN) -> Line:
    return Span(f"{name:<12}", Tone.QUIET), Span(text, tone)


def _filled(line: Line, width: int) -> Line:
    if not line or not line[-1].text.endswith(_RULE):
        return line
    missing = width - sum(_columns(_printable(span.text)) for span in line)
    return (*line[:-1], Span(line[-1].text + _RULE * max(0, missing), line[-1].tone))


def _fitting(text: str, width: int) -> str:
    """Cut a text to a number of columns, and mark the cut."""
    if _columns(text) <= width:
        return text
    kept = text
    while kept and _columns(kept) > width - 1:
        kept = kept[:-1]
    return kept + _CUT if width > 0 else ""


def _printable(text: str) -> str:
    """Return one line without commands of the terminal: a message may hold anything."""
    return outgoing.in_one_line(text)


def _columns(text: str) -> int:
    return sum(_width_of(letter) for letter in text)


def _width_of(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1
