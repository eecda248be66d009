"""The dashboard as its JSON file says it: panels, their places and their queries, with the variables filled in. Pure.

What Grafana does to a query before it asks is done here: `$namespace` and `$job` become the value for "All", and
`$__rate_interval` follows from the step, which follows from the time shown, the panel's width and the query's smallest step.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

DEFAULT_MIN_STEP_S = 15.0
"""What Grafana takes for the scrape interval of a Prometheus that does not say it."""
COLUMNS = 24
"""Grafana's grid has so many columns, whatever the width of the screen."""
POINTS_EACH_COLUMN = 50
"""How many points a panel may show, for each column that it covers: about its width in pixels."""

Json = Mapping[str, object]


class DashboardError(Exception):
    """The dashboard has what cannot be drawn; the message names the panel."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable that a reader chooses a value of.

    Attributes:
        name: As in the queries, without the dollar sign.
        label: As it is shown.
        series: The series that its values are read from.
        values_of: The label of it that has them.
        all_value: What stands for all of them.
    """

    name: str
    label: str
    series: str
    values_of: str
    all_value: str


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel.

    Attributes:
        expression: With variables.
        legend: Template of the name of a line; `{{label}}` is the value of a label.
        min_step_s: Its smallest step.
        is_instant: It is asked for one moment.
    """

    expression: str
    legend: str
    min_step_s: float
    is_instant: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: Above it.
        description: What its title does not say.
        kind: `timeseries` or `stat`.
        unit: Grafana's name of the unit.
        x: Its left column, of `COLUMNS`.
        y: Its upper row.
        width: In columns.
        height: In rows.
        targets: Its queries.
    """

    title: str
    description: str
    kind: str
    unit: str
    x: int
    y: int
    width: int
    height: int
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The whole file.

    Attributes:
        title: Of the page.
        variables: What a reader chooses.
        panels: In the order of the file.
    """

    title: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]

    @property
    def rows(self) -> int:
        """How many rows of the grid it covers."""
        return max(panel.y + panel.height for panel in self.panels)


def read(document: Json) -> Dashboard:
    """Read a dashboard.

    Raises:
        DashboardError: A panel is of a kind, or a variable of a form, that this cannot draw.
    """
    templating = cast("Json", document.get("templating") or {})
    listed = cast("list[Json]", templating.get("list") or [])
    return Dashboard(
        title=str(document["title"]),
        variables=tuple(_variable(one) for one in listed if one["type"] == "query"),
        panels=tuple(_panel(one) for one in cast("list[Json]", document["panels"])),
    )


def step_s(target: Target, panel: Panel, shown_s: float) -> float:
    """Return the time between two points, in whole seconds, so that a panel shows no more than its width has room for."""
    points = POINTS_EACH_COLUMN * panel.width
    return float(math.ceil(max(shown_s / points, target.min_step_s)))


def fill_in(expression: str, variables: Mapping[str, str], step: float, min_step_s: float = DEFAULT_MIN_STEP_S) -> str:
    """Return a query as Prometheus takes it.

    Args:
        expression: The query.
        variables: Value of each variable.
        step: Time between two points, in seconds.
        min_step_s: The smallest step of the query.

    Raises:
        DashboardError: A variable has no value.
    """
    rate_s = max(step + min_step_s, 4 * min_step_s)
    values = {**variables, "__rate_interval": f"{rate_s:.0f}s", "__interval": f"{step:.0f}s"}

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in values:
            raise DashboardError(f"The query {expression!r} uses ${name}, which no variable of the dashboard is.")
        return values[name]

    return re.sub(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))", value, expression)


def name_line(legend: str, labels: Mapping[str, str]) -> str:
    """Return the name of a line; a label that it has not is left out, as Grafana does."""
    return " ".join(re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), legend).split())


def series_of(expression: str) -> tuple[str, ...]:
    """Return the names of the series that a query selects, each once."""
    return tuple(dict.fromkeys(re.findall(r"\bstatefulspark_\w+", expression)))


def _variable(document: Json) -> Variable:
    query = cast("Json", document["query"])
    match = re.fullmatch(r"label_values\((.+), *(\w+)\)", str(query["query"]))
    if match is None or not document.get("allValue"):
        raise DashboardError(
            f"The variable {document['name']} has to be label_values(series, label), with an allValue."
        )
    return Variable(str(document["name"]), str(document["label"]), match[1], match[2], str(document["allValue"]))


def _panel(document: Json) -> Panel:
    title, kind = str(document["title"]), str(document["type"])
    if kind not in ("timeseries", "stat"):
        raise DashboardError(f"The panel {title!r} is a {kind}; draw that kind in bench/dashboard/drawing.py, too.")
    place = cast("Mapping[str, int]", document["gridPos"])
    defaults = cast("Json", cast("Json", document["fieldConfig"])["defaults"])
    return Panel(
        title=title,
        description=str(document.get("description") or ""),
        kind=kind,
        unit=str(defaults.get("unit") or "short"),
        x=place["x"],
        y=place["y"],
        width=place["w"],
        height=place["h"],
        targets=tuple(_target(one, title) for one in cast("list[Json]", document["targets"])),
    )


def _target(document: Json, title: str) -> Target:
    least = str(document.get("interval") or f"{DEFAULT_MIN_STEP_S:.0f}s")
    match = re.fullmatch(r"(\d+)(s|m)", least)
    if match is None:
        raise DashboardError(f"A query of the panel {title!r} has the smallest step {least!r}; write it as 30s or 1m.")
    return Target(
        expression=str(document["expr"]),
        legend=str(document.get("legendFormat") or ""),
        min_step_s=float(match[1]) * (60 if match[2] == "m" else 1),
        is_instant=bool(document.get("instant")),
    )
