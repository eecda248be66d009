"""The picture of checkpoints and savepoints: a line for each, seconds against the size of the state, both logarithmic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench import picture
from bench.picture import INK, MUTED

LINES = {
    "savepoint_s": ("savepoint, while the job goes on", "#2f6f9f"),
    "gap_savepoint_s": ("longest time between commits while saving", "#5b9a68"),
    "gap_quiet_s": ("longest time between commits otherwise", "#9aa5b1"),
    "pause_s": ("pause of a stop with savepoint", "#c8553d"),
    "checkpoint_s": ("checkpoint", "#8a6fb0"),
}
"""What is drawn: the figure's name, its label and its color."""
HEIGHT_INCHES = 4.6


def draw(figures: Mapping[int, Mapping[str, float]], target: Path) -> None:
    """Write the picture as PNG.

    Args:
        figures: Seconds by size of the state in MB and by figure.
        target: The file.
    """
    sizes = sorted(figures)
    with picture.drawn(target, HEIGHT_INCHES) as (figure, (axes,)):
        for name, (label, color) in LINES.items():
            seconds = [figures[size][name] for size in sizes]
            axes.plot(sizes, seconds, color=color, linewidth=2, marker="o", markersize=5, label=label)
            axes.annotate(f"  {seconds[-1]:.2f} s", (sizes[-1], seconds[-1]), va="center", fontsize=8.5, color=INK)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sizes, [f"{size:,} MB" for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("state", color=MUTED)
        axes.set_ylabel("seconds", color=MUTED)
        axes.margins(x=0.12)
        picture.clean(axes)
        axes.grid(axis="y", color=picture.GRID)
        figure.legend(loc="upper center", ncols=3, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.88))
