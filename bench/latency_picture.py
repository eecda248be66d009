"""The picture of latencies: for each rate a line for each contender, from its median to its 99th percentile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench import picture
from bench.picture import INK, MUTED

COLORS = ("#2f6f9f", "#5b9a68", "#c8553d")
INCHES_EACH = 0.36

Figures = Mapping[str, Mapping[int, Mapping[int, float]]]
"""Seconds by contender, rate and percentile; the percentiles rise."""


def draw(figures: Figures, target: Path) -> None:
    """Write the picture as PNG."""
    rates = list(next(iter(figures.values())))
    lines = len(rates) * (len(figures) + 1) - 1
    with picture.drawn(target, INCHES_EACH * lines + 1.1) as (figure, (axes,)):
        for number, (name, by_rate) in enumerate(figures.items()):
            color = COLORS[number % len(COLORS)]
            for place, rate in enumerate(rates):
                row = place * (len(figures) + 1) + number
                seconds = list(by_rate[rate].values())
                axes.hlines(row, seconds[0], seconds[-1], color=color, linewidth=2.5, label=name if place == 0 else "")
                axes.scatter(seconds, [row] * len(seconds), s=[42, 20, 20], color=color, zorder=3)
                text = "  " + ", ".join(f"{value:.2f}" for value in seconds) + " s"
                axes.annotate(text, (seconds[-1], row), ha="left", va="center", fontsize=8.5, color=INK)
        middles = [place * (len(figures) + 1) + (len(figures) - 1) / 2 for place in range(len(rates))]
        axes.set_yticks(middles, [f"{rate:,} events/s" for rate in rates])
        axes.set_xlabel("seconds from an event to its output: median, 95th and 99th percentile", color=MUTED)
        axes.set_xlim(left=0)
        axes.margins(x=0.2)
        axes.invert_yaxis()
        picture.clean(axes)
        figure.legend(loc="upper center", ncols=len(figures), frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.95))
