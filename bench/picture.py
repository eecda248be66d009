"""What the pictures of the benchmarks share: colors, fonts, clean axes, and the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID = "#1f2933", "#7b8794", "#e4e7eb"
WIDTH_INCHES = 11.0
DPI = 110


@contextmanager
def drawn(target: Path, height_inches: float, rows: int = 1, columns: int = 1) -> Iterator[tuple[Figure, list[Axes]]]:
    """Give a figure to draw in, and write it as PNG when the block ends.

    Args:
        target: The file; its folder is made.
        height_inches: Of the figure.
        rows: Number of axes, one below the other with one scale of x.
        columns: Number of axes beside each other with one scale of y; one row of them, then.
    """
    with sheet(target, (WIDTH_INCHES, height_inches)) as figure:
        grid = figure.subplots(rows, columns, sharex="col", sharey="row", squeeze=False)
        yield figure, list(grid.flat)


@contextmanager
def sheet(target: Path, size_inches: tuple[float, float]) -> Iterator[Figure]:
    """Give an empty figure, and write it as PNG when the block ends.

    Args:
        target: The file; its folder is made.
        size_inches: Width and height.
    """
    with pyplot.rc_context({"font.family": "DejaVu Sans", "font.size": 9, "text.color": INK, "axes.edgecolor": GRID}):
        figure = pyplot.figure(figsize=size_inches)
        yield figure
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=DPI)
        pyplot.close(figure)


def clean(axes: Axes, *, labels: str = INK) -> None:
    """Leave of the frame the line below, and a grid for what is read off the scale of x.

    Args:
        axes: The axes.
        labels: Color of the labels at the scales.
    """
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=GRID)
    axes.tick_params(colors=labels, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
