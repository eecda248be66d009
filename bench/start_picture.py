"""The picture of a start: a bar for each contender, cut at its moments, and what its processes were doing below it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import patches

from bench import picture
from bench.picture import INK, MUTED
from bench.processor_time import Role

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench.start_moments import Start

SPANS = ("#2f6f9f", "#7fa8c9")
ROLES = {Role.DRIVER: "#5b9a68", Role.JVM: "#c8553d", Role.WORKERS: "#7a4fa3"}
INCHES_EACH = 2.3
MOMENT = 0.015
"""Of the whole: what is closer together is written on one line."""


def draw(starts: Mapping[str, Start], target: Path) -> None:
    """Write the picture as PNG."""
    with picture.drawn(target, INCHES_EACH * len(starts) + 0.9, len(starts)) as (figure, rows):
        for axes, (name, start) in zip(rows, starts.items(), strict=True):
            _draw_spans(axes, start)
            _draw_use(axes, start)
            axes.set_title(f"{name}: {start.took_s:.1f} s", loc="left", fontweight="bold")
            picture.clean(axes, labels=MUTED)
        rows[-1].set_xlabel("seconds since the process was started (medians)", color=MUTED)
        labels = [patches.Rectangle((0, 0), 1, 1, color=color) for color in ROLES.values()]
        figure.legend(labels, [f"{role.value}, cores" for role in ROLES], loc="upper right", ncols=3, frameon=False)
        figure.tight_layout()


def _draw_spans(axes: Axes, start: Start) -> None:
    """Draw the bar, with the name of what ended at each cut; what ended within a moment shares a line."""
    edges = [0.0, *start.moments_s.values()]
    for number, (began_s, ended_s) in enumerate(pairwise(edges)):
        axes.broken_barh([(began_s, ended_s - began_s)], (2.2, 0.5), color=SPANS[number % 2])
    for at_s, names in _together(start.moments_s, edges[-1] * MOMENT):
        text = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        axes.annotate(text, (at_s, 2.75), rotation=24, ha="left", va="bottom", fontsize=7.5, color=INK)
    axes.set_ylim(0, 4.9)


def _together(moments_s: Mapping[str, float], within_s: float) -> list[tuple[float, list[str]]]:
    """Put moments together that are no further apart than this, at the first of them."""
    found: list[tuple[float, list[str]]] = []
    for name, at_s in moments_s.items():
        if found and at_s - found[-1][0] <= within_s:
            found[-1][1].append(name)
        else:
            found.append((at_s, [name]))
    return found


def _draw_use(axes: Axes, start: Start) -> None:
    """Stack how many cores were used in each span, by whom."""
    edges = [0.0, *start.moments_s.values()]
    used = [dict.fromkeys(Role, 0.0), *start.used_s.values()]
    for (began_s, ended_s), (before, after) in zip(pairwise(edges), pairwise(used), strict=True):
        bottom, length_s = 0.0, max(ended_s - began_s, 1e-3)
        for role, color in ROLES.items():
            cores = (after[role] - before[role]) / length_s
            axes.bar(began_s, cores, length_s, bottom=bottom, align="edge", color=color, linewidth=0)
            bottom += cores
    axes.set_yticks([0, 1, 2])
