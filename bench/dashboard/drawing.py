"""The dashboard as one picture: its panels where it places them, what happened as lines through all, and the alerts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.ticker import MultipleLocator

from bench import picture
from bench.dashboard import asking, panels, recording, units
from bench.dashboard.answers import Answered, Line, Span
from bench.picture import GRID, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#2f6f9f", "#c8553d", "#5b9a68", "#7a4fa3", "#d19a2a", "#4aa3a2", "#9b5d73", "#6b7280")
STATES = {"pending": "#e3b95b", "firing": "#c8553d"}
WIDTH_INCHES = 16.0
INCHES_EACH_ROW = 0.27
HEAD_INCHES, ALERT_INCHES, FOOT_INCHES = 0.95, 0.24, 1.25
MARGIN_INCHES = 0.12
"""Around every panel."""
TITLE_INCHES, LEGEND_INCHES, SCALE_INCHES = 0.27, 0.17, 0.62
LEGEND_COLUMNS, LEGEND_LETTERS = 2, 34
TICKS = 5
SHORT_LETTERS = 2
LABELS = 3


def draw(page: asking.Page, target: Path) -> None:
    """Write the picture as PNG."""
    alerts = sorted({(span.alert, span.subject) for span in page.alerts})
    foot = FOOT_INCHES + ALERT_INCHES * max(1, len(alerts))
    height = HEAD_INCHES + INCHES_EACH_ROW * page.dashboard.rows + foot
    with picture.sheet(target, (WIDTH_INCHES, height)) as figure:
        _draw_head(figure, page, height)
        for answered in page.panels:
            _draw_panel(figure, page, answered, height)
        _draw_alerts(figure, page, alerts, height, foot)


def _draw_head(figure: Figure, page: asking.Page, height: float) -> None:
    left = MARGIN_INCHES / WIDTH_INCHES
    figure.text(left, 1 - 0.34 / height, page.dashboard.title, fontsize=15, fontweight="bold")
    chosen = "   ".join(f"{one.label}: All ({', '.join(one.values)})" for one in page.variables)
    began, ended = (datetime.fromtimestamp(at, UTC) for at in (page.recorded.began_s, page.recorded.ended_s))
    figure.text(left, 1 - 0.6 / height, f"{chosen}   {began:%Y-%m-%d %H:%M} to {ended:%H:%M} UTC", color=MUTED)
    says = "Drawn by matplotlib from the queries of charts/statefulspark-operator/files/dashboard.json; not by Grafana."
    figure.text(left, 1 - 0.8 / height, says, color=MUTED)


def _draw_panel(figure: Figure, page: asking.Page, answered: Answered, height: float) -> None:
    panel = answered.panel
    column, row = WIDTH_INCHES / panels.COLUMNS, INCHES_EACH_ROW
    left, top = panel.x * column + MARGIN_INCHES, height - HEAD_INCHES - panel.y * row - MARGIN_INCHES / 2
    wide, high = panel.width * column - 2 * MARGIN_INCHES, panel.height * row - MARGIN_INCHES
    frame = _axes(figure, height, left, top - high, wide, high)
    frame.set_xticks([])
    frame.set_yticks([])
    frame.annotate(
        panel.title,
        (6, -6),
        xycoords=("axes points", "axes points"),
        xytext=(6, high * 72 - 6),
        va="top",
        fontweight="bold",
    )
    if panel.kind == "stat":
        _draw_stat(frame, answered)
        return
    legend = LEGEND_INCHES * math.ceil(len(answered.lines) / LEGEND_COLUMNS) + 0.3
    axes = _axes(
        figure,
        height,
        left + SCALE_INCHES,
        top - high + legend,
        wide - SCALE_INCHES - 0.1,
        high - legend - TITLE_INCHES,
    )
    _draw_lines(axes, page, answered)
    _draw_legend(frame, answered, wide, legend)


def _axes(figure: Figure, height: float, left: float, bottom: float, wide: float, high: float) -> Axes:
    return figure.add_axes((left / WIDTH_INCHES, bottom / height, wide / WIDTH_INCHES, high / height))


def _draw_stat(frame: Axes, answered: Answered) -> None:
    text = answered.why_empty or " ".join(units.written(line.latest, answered.panel.unit) for line in answered.lines)
    size = 8 if answered.why_empty else 20
    frame.text(0.5, 0.38, text, transform=frame.transAxes, ha="center", va="center", fontsize=size, wrap=True)


def _draw_lines(axes: Axes, page: asking.Page, answered: Answered) -> None:
    for number, line in enumerate(answered.lines):
        _draw_line(axes, line, COLORS[number % len(COLORS)])
    _draw_marks(axes, page, [str(number + 1) for number in range(len(page.recorded.marks))])
    if answered.why_empty:
        axes.text(
            0.5, 0.5, answered.why_empty, transform=axes.transAxes, ha="center", va="center", color=MUTED, wrap=True
        )
        axes.set_yticks([])
    _scale(axes, page)
    axes.yaxis.set_major_formatter(lambda value, _: units.written(value, answered.panel.unit))
    axes.grid(axis="y", color=GRID)
    _room_above(axes, answered)
    if not answered.why_empty:
        step = units.tick_step(answered.panel.unit, axes.get_ylim()[1] - axes.get_ylim()[0], LABELS)
        axes.yaxis.set_major_locator(MultipleLocator(step))


def _draw_line(axes: Axes, line: Line, color: str) -> None:
    moments, values = zip(*line.points, strict=True)
    axes.plot(moments, values, color=color, linewidth=1.3, marker="o", markersize=1.6, zorder=3)
    axes.fill_between(moments, values, color=color, alpha=0.06, linewidth=0)


def _room_above(axes: Axes, answered: Answered) -> None:
    """Begin the scale at zero, unless something is below, and leave a flat line at zero visible."""
    values = [value for line in answered.lines for _, value in line.points if not math.isnan(value)]
    top, low = max(values, default=0.0), min(values, default=0.0)
    axes.set_ylim(min(0.0, low * 1.1), top * 1.12 if top > 0 else 1.0)


def _scale(axes: Axes, page: asking.Page) -> None:
    began, ended = page.recorded.began_s, page.recorded.ended_s
    axes.set_xlim(began, ended)
    step = max(60.0, units.tick_step("s", ended - began, TICKS))
    axes.set_xticks([step * number for number in range(math.ceil(began / step), math.floor(ended / step) + 1)])
    axes.xaxis.set_major_formatter(lambda at, _: f"{datetime.fromtimestamp(at, UTC):%H:%M}")
    picture.clean(axes, labels=MUTED)
    axes.tick_params(labelsize=7.5)
    axes.grid(visible=False, axis="x")


def _draw_legend(frame: Axes, answered: Answered, wide: float, legend: float) -> None:
    for number, line in enumerate(answered.lines):
        column, row = number % LEGEND_COLUMNS, number // LEGEND_COLUMNS
        x = 8 + column * (wide * 72 - 8) / LEGEND_COLUMNS
        y = (legend - 0.3 - LEGEND_INCHES * (row + 1)) * 72 + 6
        text = line.name if len(line.name) <= LEGEND_LETTERS else f"{line.name[: LEGEND_LETTERS - 1]}…"
        color = COLORS[number % len(COLORS)]
        frame.annotate("—", (x, y), xycoords="axes points", color=color, fontweight="bold", fontsize=8)
        frame.annotate(text, (x + 13, y), xycoords="axes points", fontsize=7.5, color=INK)


def _draw_alerts(figure: Figure, page: asking.Page, alerts: list[tuple[str, str]], height: float, foot: float) -> None:
    left = 4.4
    axes = _axes(figure, height, left, 0.35, WIDTH_INCHES - left - 2 * MARGIN_INCHES, foot - FOOT_INCHES)
    for span in page.alerts:
        _draw_span(axes, span, alerts.index((span.alert, span.subject)))
    axes.set_yticks(range(len(alerts)), [f"{alert}  {subject}" for alert, subject in alerts])
    axes.set_ylim(max(1, len(alerts)) - 0.5, -0.5)
    _scale(axes, page)
    axes.tick_params(axis="y", labelcolor=INK)
    top = 0.35 + foot - FOOT_INCHES
    _draw_marks(axes, page, [f"{number + 1} {mark.text}" for number, mark in enumerate(page.recorded.marks)])
    rules = page.recorded.rules
    evaluated = len(rules) - len(recording.unhealthy(rules))
    says = f"Alerts, yellow while pending and red while firing; {evaluated} of the chart's {len(rules)} rules were evaluated"
    figure.text(MARGIN_INCHES / WIDTH_INCHES, (top + 0.62) / height, says, fontweight="bold")


def _draw_marks(axes: Axes, page: asking.Page, texts: Sequence[str]) -> None:
    """Draw a line for everything that was done; long texts stand in three rows, so that neighbours do not meet."""
    is_short = all(len(text) <= SHORT_LETTERS for text in texts)
    for number, (mark, text) in enumerate(zip(page.recorded.marks, texts, strict=True)):
        axes.axvline(mark.at_s, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=1)
        axes.annotate(
            text,
            (mark.at_s, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0 if is_short else 2, 1 if is_short else 3 + 9 * (number % 3)),
            textcoords="offset points",
            ha="center" if is_short else "left",
            fontsize=6 if is_short else 7.5,
            color=MUTED,
        )


def _draw_span(axes: Axes, span: Span, row: int) -> None:
    axes.barh(row, span.ended_s - span.began_s, left=span.began_s, height=0.55, color=STATES[span.state], zorder=2)
