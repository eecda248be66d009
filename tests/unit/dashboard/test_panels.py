"""The dashboard's queries as Grafana would ask them: variables, steps, legends, and what cannot be drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.dashboard import panels

FILE = Path(__file__).resolve().parents[3] / "charts" / "statefulspark-operator" / "files" / "dashboard.json"
ALL = {"namespace": ".*", "job": ".*"}


def a_query_of_a_panel(**changed: object) -> dict[str, object]:
    return {"expr": "statefulspark_up", "legendFormat": "{{job}}", **changed}


def a_dashboard_of_one_panel(**changed: object) -> dict[str, object]:
    panel = {
        "title": "Up",
        "type": "timeseries",
        "gridPos": {"x": 8, "y": 4, "w": 8, "h": 7},
        "fieldConfig": {"defaults": {"unit": "s"}},
        "targets": [a_query_of_a_panel()],
    }
    return {"title": "Jobs", "panels": [{**panel, **changed}]}


def the_panel(**changed: object) -> panels.Panel:
    return panels.read(a_dashboard_of_one_panel(**changed)).panels[0]


def test_a_panel_has_its_place_its_unit_and_its_queries() -> None:
    assert the_panel() == panels.Panel(
        title="Up",
        description="",
        kind="timeseries",
        unit="s",
        x=8,
        y=4,
        width=8,
        height=7,
        targets=(panels.Target("statefulspark_up", "{{job}}", 15.0, is_instant=False),),
    )


def test_every_panel_of_the_chart_can_be_drawn_and_every_query_filled_in() -> None:
    dashboard = panels.read(json.loads(FILE.read_text()))

    filled = [
        panels.fill_in(target.expression, ALL, panels.step_s(target, panel, 1800), target.min_step_s)
        for panel in dashboard.panels
        for target in panel.targets
    ]

    assert [query for query in filled if "$" in query] == []
    assert [variable.name for variable in dashboard.variables] == list(ALL)
    assert dashboard.rows == max(panel.y + panel.height for panel in dashboard.panels)


@pytest.mark.parametrize("written", ["$job", "${job}", "${job:regex}"])
def test_a_variable_is_filled_in_however_it_is_written(written: str) -> None:
    assert panels.fill_in(f'up{{job=~"{written}"}}', ALL, 15) == 'up{job=~".*"}'


def test_a_variable_that_the_dashboard_does_not_have_is_refused() -> None:
    with pytest.raises(panels.DashboardError, match=r"\$cluster"):
        panels.fill_in('up{c="$cluster"}', ALL, 15)


@pytest.mark.parametrize(
    ("step", "min_step_s", "rate"),
    [(15, 15, "60s"), (15, 30, "120s"), (300, 15, "315s")],
    ids=["four scrapes", "four scrapes of the operator", "a step and a scrape, seen from afar"],
)
def test_rates_look_back_over_four_scrapes_at_least(step: float, min_step_s: float, rate: str) -> None:
    assert panels.fill_in("rate(a[$__rate_interval])", {}, step, min_step_s) == f"rate(a[{rate}])"


@pytest.mark.parametrize(
    ("shown_s", "interval", "step"),
    [(1800, None, 15), (1800, "30s", 30), (1800, "1m", 60), (86_400, None, 216)],
    ids=["as often as it is scraped", "as the query says", "in minutes", "as often as there is room"],
)
def test_points_are_as_close_as_a_query_and_a_panel_allow(shown_s: float, interval: str | None, step: float) -> None:
    panel = the_panel(targets=[a_query_of_a_panel(**({"interval": interval} if interval else {}))])

    assert panels.step_s(panel.targets[0], panel, shown_s) == step


def test_a_legend_has_the_values_of_labels_and_leaves_out_those_that_are_not_there() -> None:
    labels = {"namespace": "shop", "job": "clicks"}

    assert panels.name_line("{{namespace}}/{{ job }} {{query}} all", labels) == "shop/clicks all"


def test_the_series_of_a_query_are_named_once() -> None:
    query = "time() - max by (job) (statefulspark_a) > on (job) (statefulspark_b - statefulspark_a)"

    assert panels.series_of(query) == ("statefulspark_a", "statefulspark_b")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"type": "heatmap"}, "'Up' is a heatmap", id="a kind of panel"),
        pytest.param({"targets": [a_query_of_a_panel(interval="1h")]}, "smallest step '1h'", id="a step"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_name_of_the_panel(changed: dict[str, object], words: str) -> None:
    with pytest.raises(panels.DashboardError, match=words):
        the_panel(**changed)


def test_a_variable_without_a_value_for_all_is_refused() -> None:
    variable = {"name": "job", "label": "Job", "type": "query", "query": {"query": "label_values(up, job)"}}

    with pytest.raises(panels.DashboardError, match="variable job"):
        panels.read({**a_dashboard_of_one_panel(), "templating": {"list": [variable]}})
