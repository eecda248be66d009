"""The picture of the fault matrix: for each scenario what was lost, repeated and wrong, and the time to the first commit."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import picture
from bench.picture import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {"lost": "#c8553d", "wrong": "#8a4f9e", "repeated": "#e0a93b"}
CONTENDERS = ("#2f6f9f", "#7b8794", "#b4bcc5")
INCHES_EACH = 0.2
_ROOM_FOR_TEXT = 100
"""How far the scale goes beyond the longest bar."""
_ROWS = "rows that are lost, wrong or there once more"
_SECONDS = "seconds from the end of the fault to the first commit"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a fault has cost.

    Attributes:
        lost: Rows that are not there.
        repeated: Rows that are there once more.
        wrong: Rows that are not the truth's, or out of order.
        first_commit_s: From the end of the fault to the first commit of any query; None if there was none, or a person had
            to come first.
    """

    lost: int
    repeated: int
    wrong: int
    first_commit_s: float | None

    @property
    def counts(self) -> str:
        """Lost, repeated and wrong, for a table."""
        return f"{self.lost:,} / {self.repeated:,} / {self.wrong:,}"


class Panels(enum.Enum):
    """What is drawn, as the number of panels."""

    COUNTS = 1
    """Rows that are lost, wrong and repeated."""
    TIMES = 2
    """Beside them the times to the first commit."""


def draw(figures: Mapping[str, Mapping[str, Figures]], target: Path, panels: Panels) -> None:
    """Write the picture as PNG.

    Args:
        figures: By contender and scenario; all contenders have the same scenarios.
        target: The file.
        panels: What is drawn.
    """
    scenarios = list(next(iter(figures.values())))
    each = len(figures) + 1
    height = INCHES_EACH * each * len(scenarios) + 1.2
    with picture.drawn(target, height, columns=panels.value) as (figure, grid):
        for number, (name, by_scenario) in enumerate(figures.items()):
            for place, scenario in enumerate(scenarios):
                line = place * each + number
                _draw_counts(grid[0], line, name, by_scenario[scenario])
                if panels is Panels.TIMES:
                    label = name if place == 0 else ""
                    _draw_time(grid[1], line, by_scenario[scenario].first_commit_s, CONTENDERS[number], label)
        if panels is Panels.TIMES:
            grid[1].margins(x=0.25)
        for kind, color in COLORS.items():
            grid[0].barh(0, 0, color=color, label=kind)
        grid[0].set_yticks([place * each + (len(figures) - 1) / 2 for place in range(len(scenarios))], scenarios)
        grid[0].set_xscale("symlog", linthresh=1)
        most = max(max(one.lost, one.repeated, one.wrong) for by in figures.values() for one in by.values())
        grid[0].set_xlim(0, max(1, most) * _ROOM_FOR_TEXT)
        grid[0].set_ylim(each * len(scenarios) - 1, -1)
        for axes, text in zip(grid, (_ROWS, _SECONDS), strict=False):
            axes.set_xlabel(text, color=MUTED)
            picture.clean(axes)
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
        figure.tight_layout()


def _draw_counts(axes: Axes, line: int, name: str, figures: Figures) -> None:
    """Draw a bar for each kind that there is, the largest below the others, and say what they are."""
    counts = {"lost": figures.lost, "wrong": figures.wrong, "repeated": figures.repeated}
    there = sorted(((count, kind) for kind, count in counts.items() if count), reverse=True)
    for count, kind in there:
        axes.barh(line, count, color=COLORS[kind], height=0.8)
    told = ", ".join(f"{count:,} {kind}" for count, kind in there) or "exact"
    end = there[0][0] if there else 0
    axes.annotate(f" {name}: {told}", (end, line), va="center", fontsize=7, color=INK if there else MUTED)


def _draw_time(axes: Axes, line: int, seconds: float | None, color: str, label: str) -> None:
    axes.barh(line, seconds or 0, color=color, height=0.8, label=label)
    text = " not without a person" if seconds is None else f" {seconds:.1f}"
    axes.annotate(text, (seconds or 0, line), va="center", fontsize=7, color=INK)
