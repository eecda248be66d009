"""What Prometheus answers, as lines to draw and as spans in which an alert was pending or fired. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from bench.dashboard import panels

Json = Mapping[str, object]
_BREAK_AFTER_STEPS = 1.5


@dataclass(frozen=True, slots=True)
class Line:
    """One series of an answer.

    Attributes:
        name: As in the legend.
        points: Moment in seconds since 1970, and value; a value that is no number separates what is not connected.
    """

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def latest(self) -> float:
        """Its last value that is a number."""
        return next((value for _, value in reversed(self.points) if not math.isnan(value)), math.nan)


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which an alert was in one state.

    Attributes:
        alert: Its name.
        subject: What it is about: a job, or nothing.
        state: `pending` or `firing`.
        began_s: Since 1970.
        ended_s: Likewise.
    """

    alert: str
    subject: str
    state: str
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Answered:
    """A panel and what its queries gave.

    Attributes:
        panel: The panel.
        lines: All lines of all its queries, in order.
        why_empty: Why there is none; nothing if there is one.
    """

    panel: panels.Panel
    lines: tuple[Line, ...]
    why_empty: str = ""


def read_lines(answer: Json, legend: str, step: float) -> tuple[Line, ...]:
    """Read the answer to a query over a time, or at a moment; lines are in the order of their names.

    Args:
        answer: Prometheus' answer, as JSON.
        legend: Template of the names.
        step: Seconds between two points; points that are further apart are not connected.

    Raises:
        DashboardError: Prometheus refused the query; the message has its words.
    """
    lines = [Line(panels.name_line(legend, _labels(one)), _broken(_points(one), step)) for one in _results(answer)]
    return tuple(sorted(lines, key=lambda line: line.name))


def read_spans(answer: Json, step: float) -> tuple[Span, ...]:
    """Read when alerts were pending and firing, from the series `ALERTS` that Prometheus writes; in order of their begin."""
    spans = (span for one in _results(answer) for span in _spans(_labels(one), _points(one), step))
    return tuple(sorted(spans, key=lambda span: (span.began_s, span.alert)))


def why_empty(expressions: Sequence[str], exists: Callable[[str], bool]) -> str:
    """Say why queries gave nothing.

    Args:
        expressions: The queries.
        exists: Tells whether a series of that name was scraped in the time.
    """
    missing = [name for text in expressions for name in panels.series_of(text) if not exists(name)]
    if missing:
        return f"No series {' or '.join(dict.fromkeys(missing))} in this time."
    return "Its series are there, and its queries select nothing of them."


def _results(answer: Json) -> Sequence[Json]:
    if answer.get("status") != "success":
        raise panels.DashboardError(f"Prometheus refused a query: {answer.get('error') or answer}")
    return cast("Sequence[Json]", cast("Json", answer["data"])["result"])


def _labels(result: Json) -> Mapping[str, str]:
    return cast("Mapping[str, str]", result["metric"])


def _points(result: Json) -> list[tuple[float, float]]:
    pairs = cast("list[tuple[float, str]]", result.get("values") or [result["value"]])
    return [(float(at), float(value)) for at, value in pairs]


def _broken(points: Sequence[tuple[float, float]], step: float) -> tuple[tuple[float, float], ...]:
    broken: list[tuple[float, float]] = []
    for at, value in points:
        if broken and at - broken[-1][0] > _BREAK_AFTER_STEPS * step:
            broken.append((broken[-1][0] + step, math.nan))
        broken.append((at, value))
    return tuple(broken)


def _spans(labels: Mapping[str, str], points: Sequence[tuple[float, float]], step: float) -> list[Span]:
    subject = "/".join(labels[name] for name in ("job_namespace", "job_name") if name in labels)
    edges: list[list[float]] = []
    for at, _ in points:
        if edges and at - edges[-1][1] <= _BREAK_AFTER_STEPS * step:
            edges[-1][1] = at
        else:
            edges.append([at, at])
    return [Span(labels["alertname"], subject, labels["alertstate"], began, ended + step) for began, ended in edges]
