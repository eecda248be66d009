"""The picture of the times without output: a line for each kind, a dot for each turn, its median and its 95th percentile."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench import machine, picture
from bench.picture import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOT, MEDIAN = "#7fa8c9", "#2f6f9f"
INCHES_EACH = 0.62
HALF_LINE = 0.28
"""Half the height of a median's mark, and of what dots are spread over; a line is 1 high."""
ROWS_OF_DOTS = 5


def draw(seconds: Mapping[str, Sequence[float]], target: Path) -> None:
    """Write the picture as PNG.

    Args:
        seconds: Times without output by the name of their kind, in the order in which the lines are drawn; a kind without
            any is left out.
        target: The file.
    """
    measured = {name: times for name, times in seconds.items() if times}
    with picture.drawn(target, INCHES_EACH * len(measured) + 0.8) as (figure, (axes,)):
        for row, times in enumerate(measured.values()):
            _draw_line(axes, row, times)
        axes.set_yticks(range(len(measured)), [f"{name} ({len(times)})" for name, times in measured.items()])
        axes.set_xlabel("seconds without output; a dot is a turn, the line its median", color=MUTED)
        axes.set_xlim(left=min(0.0, *(min(times) for times in measured.values())) - 0.3)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        picture.clean(axes)
        figure.tight_layout()


def _draw_line(axes: Axes, row: int, times: Sequence[float]) -> None:
    spread = [
        row - HALF_LINE / 2 + HALF_LINE * (turn % ROWS_OF_DOTS) / (ROWS_OF_DOTS - 1) for turn in range(len(times))
    ]
    axes.scatter(times, spread, s=26, color=DOT, alpha=0.8, linewidths=0, zorder=2)
    median_s = statistics.median(times)
    axes.vlines(median_s, row - HALF_LINE, row + HALF_LINE, color=MEDIAN, linewidth=2.5, zorder=3)
    text = f"  {median_s:.1f} s, p95 {machine.percentile(times, 95):.1f} s"
    axes.annotate(text, (max(times), row), ha="left", va="center", fontsize=8.5, color=INK)
