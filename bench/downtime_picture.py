"""The picture of the times without output: a line for each kind, a dot for each turn, its median and its 95th percentile."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, GRID = "#1f2933", "#7b8794", "#e4e7eb"
DOT, MEDIAN = "#7fa8c9", "#2f6f9f"
WIDTH_INCHES, INCHES_EACH = 11.0, 0.62
DPI = 110
HALF_LINE = 0.28
"""Half the height of a median's mark, and of what dots are spread over; a line is 1 high."""
ROWS_OF_DOTS = 5


def percentile_95(seconds: Sequence[float]) -> float:
    """Return the 95th percentile, within what was measured; of a single measurement it is that."""
    return statistics.quantiles(seconds, n=20, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]


def draw(seconds: Mapping[str, Sequence[float]], target: Path) -> None:
    """Write the picture as PNG.

    Args:
        seconds: Times without output by the name of their kind, in the order in which the lines are drawn; a kind without
            any is left out.
        target: The file.
    """
    measured = {name: times for name, times in seconds.items() if times}
    with pyplot.rc_context({"font.family": "DejaVu Sans", "font.size": 9, "text.color": INK, "axes.edgecolor": GRID}):
        figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES, INCHES_EACH * len(measured) + 0.8))
        for row, times in enumerate(measured.values()):
            _draw_line(axes, row, times)
        axes.set_yticks(range(len(measured)), [f"{name} ({len(times)})" for name, times in measured.items()])
        axes.set_xlabel("seconds without output; a dot is a turn, the line its median", color=MUTED)
        axes.set_xlim(left=min(0.0, *(min(times) for times in measured.values())) - 0.3)
        axes.invert_yaxis()
        _clean(axes)
        figure.tight_layout()
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=DPI)
        pyplot.close(figure)


def _draw_line(axes: Axes, row: int, times: Sequence[float]) -> None:
    spread = [
        row - HALF_LINE / 2 + HALF_LINE * (turn % ROWS_OF_DOTS) / (ROWS_OF_DOTS - 1) for turn in range(len(times))
    ]
    axes.scatter(times, spread, s=26, color=DOT, alpha=0.8, linewidths=0, zorder=2)
    median_s = statistics.median(times)
    axes.vlines(median_s, row - HALF_LINE, row + HALF_LINE, color=MEDIAN, linewidth=2.5, zorder=3)
    text = f"  {median_s:.1f} s, p95 {percentile_95(times):.1f} s"
    axes.annotate(text, (max(times), row), ha="left", va="center", fontsize=8.5, color=INK)


def _clean(axes: Axes) -> None:
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=GRID)
    axes.tick_params(colors=INK, length=0)
    axes.margins(x=0.12)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
