"""The picture of the demo: flights per second over time, with every kill, every upgrade and the snapshots marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes

from demo import report, timeline

BIN_S = 2.0
INK, MUTED, GRID = "#1f2933", "#7b8794", "#e4e7eb"
FLOW, STOP, CHANGE, SAVED = "#2f6f9f", "#c8553d", "#7a4fa3", "#5b9a68"
_REPLACEMENTS = (
    (timeline.MarkKind.KILLED, "driver killed", STOP),
    (timeline.MarkKind.KILLED_GUARDED, "killed, standby ready", STOP),
    (timeline.MarkKind.CHANGED, "version 2, warm", CHANGE),
    (timeline.MarkKind.CHANGED_COLD, "cold upgrade", CHANGE),
)
_LATE = 0.85
"""Beyond this share of the width a text stands to the left of its line."""
SIZE_INCHES = (11.0, 5.4)
DPI = 150


@dataclass(frozen=True, slots=True)
class _Step:
    """One replacement: when it was asked for, the time without output, and what is written beside it."""

    at: datetime
    began_at: datetime
    ended_at: datetime
    text: str
    color: str


def draw(outcome: report.Outcome, target: Path) -> None:
    """Write the picture as PNG."""
    with pyplot.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.edgecolor": GRID}):
        figure, (above, below) = pyplot.subplots(
            2, 1, figsize=SIZE_INCHES, sharex=True, gridspec_kw={"height_ratios": [5, 0.9], "hspace": 0.06}
        )
        _draw_flow(above, outcome)
        _draw_pauses(above, outcome)
        _draw_snapshots(below, outcome)
        figure.text(0.09, 0.95, _headline(outcome), fontsize=14, fontweight="bold")
        figure.text(0.09, 0.907, _subtitle(outcome), fontsize=10, color=MUTED)
        figure.subplots_adjust(left=0.09, right=0.985, top=0.87, bottom=0.1)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=DPI)
        pyplot.close(figure)


def _headline(outcome: report.Outcome) -> str:
    found = outcome.comparison
    return f"{outcome.flights:,} flights through two kills and three upgrades: {found.lost} lost, {found.repeated} repeated"


def _subtitle(outcome: report.Outcome) -> str:
    machine = outcome.machine
    return (
        f"Rows of the per-flight ledger written per second, averaged over {BIN_S:.0f} s; seconds are without output   ·   "
        f"{machine.get('cpus', '?')} CPUs, {machine.get('memory', '?')}, {outcome.started_at:%Y-%m-%d}"
    )


def _draw_flow(axes: Axes, outcome: report.Outcome) -> None:
    ledger = (point for point in outcome.history.commits if point.query == "aircraft")
    commits = sorted(ledger, key=lambda point: point.worked_until)
    points = timeline.throughput(commits, outcome.started_at, BIN_S)
    seconds, rates = [at for at, _ in points], [rate for _, rate in points]
    axes.fill_between(seconds, rates, step="mid", color=FLOW, alpha=0.28, linewidth=0)
    axes.step(seconds, rates, where="mid", color=FLOW, linewidth=1.4)
    end_s = (outcome.finished_at - outcome.started_at).total_seconds()
    axes.set_xlim(0, end_s)
    axes.set_ylim(0, max(rates, default=1.0) * 1.6)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylabel("flights per second", color=MUTED)
    axes.grid(axis="y", color=GRID)
    _clean(axes)


def _draw_pauses(axes: Axes, outcome: report.Outcome) -> None:
    for level, step in enumerate(sorted(_steps(outcome.history), key=lambda step: step.at)):
        _mark(axes, outcome, step, level)


def _steps(history: timeline.Timeline) -> Iterator[_Step]:
    for kind, what, color in _REPLACEMENTS:
        at, pause = history.first(kind), history.pause(kind)
        if at is not None:
            began_at, ended_at = (pause.began_at, pause.ended_at) if pause is not None else (at, at)
            took = f"{pause.seconds:.1f} s" if pause is not None else "never came back"
            yield _Step(at, began_at, ended_at, f"{what}\n{took}", color)
    at, blocked_at = history.first(timeline.MarkKind.BROKEN), history.first(timeline.MarkKind.BLOCKED)
    if at is not None:
        text = f"broken version\n{history.bad_upgrade_downtime_s() or 0:.1f} s"
        yield _Step(at, at, blocked_at or at, text, MUTED)


def _mark(axes: Axes, outcome: report.Outcome, step: _Step, level: int) -> None:
    """Mark a moment and the span that it cost; texts of neighbours stand at different heights, so as not to meet."""
    at_s = _at_s(outcome, step.at)
    axes.axvspan(
        _at_s(outcome, step.began_at), _at_s(outcome, step.ended_at), color=step.color, alpha=0.14, linewidth=0
    )
    axes.axvline(at_s, color=step.color, linewidth=1.4)
    top, is_late = axes.get_ylim()[1], at_s > _LATE * axes.get_xlim()[1]
    axes.annotate(
        step.text,
        (at_s, top * (0.98 - 0.105 * (level % 4))),
        xytext=(-5 if is_late else 5, 0),
        textcoords="offset points",
        va="top",
        ha="right" if is_late else "left",
        color=step.color,
        fontweight="bold",
        fontsize=8.5,
        linespacing=1.3,
    )


def _draw_snapshots(axes: Axes, outcome: report.Outcome) -> None:
    rows = (
        ("savepoint", timeline.MarkKind.SAVEPOINT, CHANGE, "D"),
        ("checkpoints", timeline.MarkKind.CHECKPOINT, SAVED, "|"),
    )
    for height, (_, kind, color, marker) in enumerate(rows):
        times = _times(outcome, kind)
        axes.scatter(times, [height] * len(times), color=color, marker=marker, s=46, linewidths=1.6, zorder=3)
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows], color=MUTED)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlabel("seconds since the job was applied", color=MUTED)
    axes.grid(axis="y", color=GRID)
    _clean(axes)


def _times(outcome: report.Outcome, kind: timeline.MarkKind) -> Sequence[float]:
    return [_at_s(outcome, mark.at) for mark in outcome.history.marks if mark.kind is kind]


def _at_s(outcome: report.Outcome, at: datetime) -> float:
    return (at - outcome.started_at).total_seconds()


def _clean(axes: Axes) -> None:
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
