"""Asks for every panel of the dashboard what Grafana would ask, and for the alerts of the same time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.dashboard import panels, prometheus, recording
from bench.dashboard.answers import Answered, Line, Span, read_lines, read_spans, why_empty

ALERTS_STEP_S = 15.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """A variable of the dashboard, set to all.

    Attributes:
        label: As it is shown.
        values: What "All" stands for.
    """

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that is drawn.

    Attributes:
        dashboard: What was asked for.
        recorded: When it was, and what happened.
        variables: What was chosen.
        panels: What each panel shows.
        alerts: When the chart's alerts were pending and firing.
    """

    dashboard: panels.Dashboard
    recorded: recording.Recording
    variables: tuple[Chosen, ...]
    panels: tuple[Answered, ...]
    alerts: tuple[Span, ...]


def ask(api: prometheus.Api, dashboard: panels.Dashboard, recorded: recording.Recording) -> Page:
    """Ask for everything.

    Raises:
        DashboardError: Prometheus refused a query.
    """
    began_s, ended_s = recorded.began_s, recorded.ended_s
    all_of = {variable.name: variable.all_value for variable in dashboard.variables}
    series = {
        variable.name: panels.fill_in(variable.series, all_of, panels.DEFAULT_MIN_STEP_S)
        for variable in dashboard.variables
    }
    chosen = tuple(
        Chosen(variable.label, api.label_values(variable.values_of, series[variable.name], began_s, ended_s))
        for variable in dashboard.variables
    )
    fired = api.over("ALERTS", began_s, ended_s, ALERTS_STEP_S)
    answered = tuple(_panel(api, panel, all_of, recorded) for panel in dashboard.panels)
    return Page(dashboard, recorded, chosen, answered, read_spans(fired, ALERTS_STEP_S))


def _panel(api: prometheus.Api, panel: panels.Panel, all_of: dict[str, str], recorded: recording.Recording) -> Answered:
    lines = tuple(line for target in panel.targets for line in _lines(api, panel, target, all_of, recorded))
    if any(not math.isnan(line.latest) for line in lines):
        return Answered(panel, lines)

    def exists(name: str) -> bool:
        return bool(api.label_values("__name__", name, recorded.began_s, recorded.ended_s))

    return Answered(panel, lines, why_empty([target.expression for target in panel.targets], exists))


def _lines(
    api: prometheus.Api,
    panel: panels.Panel,
    target: panels.Target,
    all_of: dict[str, str],
    recorded: recording.Recording,
) -> tuple[Line, ...]:
    step = panels.step_s(target, panel, recorded.ended_s - recorded.began_s)
    expression = panels.fill_in(target.expression, all_of, step, target.min_step_s)
    if target.is_instant:
        return read_lines(api.at(expression, recorded.ended_s), target.legend, step)
    # Grafana begins at a multiple of the step, so that a page that is asked for again shows the same points.
    began_s = recorded.began_s // step * step
    return read_lines(api.over(expression, began_s, recorded.ended_s, step), target.legend, step)
