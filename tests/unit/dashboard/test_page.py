"""The whole page: what is asked for each panel, and that it becomes a picture, with and without lines."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from bench.dashboard import asking, drawing, panels, prometheus, recording
from bench.dashboard.answers import Answered, Line, Span

PLACE = {"x": 0, "y": 0, "w": 12, "h": 7}
NAMESPACES = {"query": 'label_values(statefulspark_job_ready{job=~"$job"}, namespace)'}
VARIABLE = {"name": "namespace", "label": "Namespace", "type": "query", "query": NAMESPACES, "allValue": ".*"}
JOBS = {"query": "label_values(statefulspark_job_ready, job)"}
DASHBOARD = {
    "title": "Jobs",
    "templating": {"list": [VARIABLE, {**VARIABLE, "name": "job", "label": "Job", "query": JOBS}]},
    "panels": [
        {
            "title": "Ready",
            "type": "stat",
            "gridPos": PLACE,
            "fieldConfig": {"defaults": {}},
            "targets": [
                {"expr": 'sum(statefulspark_job_ready{job=~"$job"})', "legendFormat": "ready", "instant": True}
            ],
        },
        {
            "title": "Size",
            "type": "timeseries",
            "gridPos": {**PLACE, "x": 12},
            "fieldConfig": {"defaults": {"unit": "bytes"}},
            "targets": [{"expr": "statefulspark_size_bytes", "legendFormat": "{{namespace}}/{{job}}"}],
        },
        {
            "title": "Lag",
            "type": "timeseries",
            "gridPos": {**PLACE, "y": 7},
            "fieldConfig": {"defaults": {}},
            "targets": [{"expr": "statefulspark_lag_rows", "legendFormat": "{{job}}"}],
        },
    ],
}
RECORDED = recording.Recording(
    began_s=1000.0,
    ended_s=1600.0,
    marks=[recording.Mark(1200.0, "driver killed")],
    rules=[recording.Rule("Down", "ok")],
)
LABELS = {"namespace": "shop", "job": "totals"}
ANSWERS: Mapping[str, object] = {
    'sum(statefulspark_job_ready{job=~".*"})': [{"metric": {}, "value": [1600, "2"]}],
    "statefulspark_size_bytes": [{"metric": LABELS, "values": [[1005, "1024"], [1020, "2048"]]}],
    "statefulspark_lag_rows": [],
    "ALERTS": [{"metric": {**LABELS, "alertname": "Down", "alertstate": "firing"}, "values": [[1200, "1"]]}],
}


class Asked:
    """Answers as Prometheus does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.queries: list[dict[str, str]] = []

    def get(self, path: str) -> str:
        question = urllib.parse.urlsplit(path)
        parameters = dict(urllib.parse.parse_qsl(question.query))
        if question.path.endswith("/values"):
            return json.dumps({"status": "success", "data": self._values(question.path, parameters["match[]"])})
        self.queries.append(parameters)
        return json.dumps({"status": "success", "data": {"result": ANSWERS[parameters["query"]]}})

    def _values(self, path: str, series: str) -> list[str]:
        label = path.split("/")[-2]
        if label == "__name__":
            return []
        return {'namespace statefulspark_job_ready{job=~".*"}': ["shop"]}.get(f"{label} {series}", ["totals"])


def the_page(asked: Asked) -> asking.Page:
    return asking.ask(prometheus.Api(asked.get), panels.read(DASHBOARD), RECORDED)


def test_every_panel_has_the_answers_to_its_queries_and_one_without_says_why() -> None:
    page = the_page(Asked())

    assert page.variables == (asking.Chosen("Namespace", ("shop",)), asking.Chosen("Job", ("totals",)))
    assert [(one.panel.title, one.lines, one.why_empty) for one in page.panels] == [
        ("Ready", (Line("ready", ((1600.0, 2.0),)),), ""),
        ("Size", (Line("shop/totals", ((1005.0, 1024.0), (1020.0, 2048.0))),), ""),
        ("Lag", (), "No series statefulspark_lag_rows in this time."),
    ]
    assert page.alerts == (Span("Down", "shop/totals", "firing", 1200.0, 1215.0),)


def test_a_time_is_asked_from_a_multiple_of_the_step_on_and_a_number_for_its_end() -> None:
    asked = Asked()

    the_page(asked)

    (size,) = (query for query in asked.queries if query["query"] == "statefulspark_size_bytes")
    assert (size["start"], size["end"], size["step"]) == ("990.000", "1600.000", "15")
    (ready,) = (query for query in asked.queries if "ready" in query["query"])
    assert ready["time"] == "1600.000"


def test_the_page_is_drawn(tmp_path: Path) -> None:
    target = tmp_path / "images" / "dashboard.png"

    drawing.draw(the_page(Asked()), target)

    assert target.read_bytes().startswith(b"\x89PNG")


def test_a_page_on_which_nothing_has_a_line_is_drawn(tmp_path: Path) -> None:
    page = the_page(Asked())
    empty = tuple(Answered(one.panel, (), "No series.") for one in page.panels)

    drawing.draw(asking.Page(page.dashboard, RECORDED, (), empty, ()), tmp_path / "dashboard.png")

    assert (tmp_path / "dashboard.png").exists()


def test_what_a_run_has_left_is_read_as_it_was_written(tmp_path: Path) -> None:
    RECORDED.write(tmp_path)

    assert recording.read(tmp_path) == RECORDED
    assert recording.unhealthy([*RECORDED.rules, recording.Rule("Up", "err", "bad")]) == [
        recording.Rule("Up", "err", "bad")
    ]
