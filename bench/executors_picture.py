"""The picture of throughput against executors: every run, the medians, and what as many times the first would be."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import picture
from bench.picture import INK, MUTED

COLOR, IDEAL = "#2f6f9f", "#9aa5b1"
HEIGHT_INCHES = 4.2


def draw(figures: Mapping[int, Sequence[float]], target: Path) -> None:
    """Write the picture as PNG.

    Args:
        figures: Rows per second of each run, by number of executors.
        target: The file.
    """
    numbers = sorted(figures)
    medians = [statistics.median(figures[number]) for number in numbers]
    each = medians[0] / numbers[0]
    with picture.drawn(target, HEIGHT_INCHES) as (figure, (axes,)):
        ideal = [each * number for number in numbers]
        axes.plot(
            numbers, ideal, color=IDEAL, linewidth=1.2, linestyle="--", label=f"as many times that of {numbers[0]}"
        )
        axes.plot(numbers, medians, color=COLOR, linewidth=2, marker="o", markersize=6, label="median")
        for number, median in zip(numbers, medians, strict=True):
            axes.scatter([number] * len(figures[number]), figures[number], s=14, color=COLOR, alpha=0.5)
            axes.annotate(f"  {median:,.0f}", (number, median), va="top", fontsize=8.5, color=INK)
        axes.set_xticks(numbers)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("executors with one core each", color=MUTED)
        axes.set_ylabel("rows per second", color=MUTED)
        axes.margins(x=0.12)
        picture.clean(axes)
        axes.grid(axis="y", color=picture.GRID)
        figure.legend(loc="upper center", ncols=2, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.93))
