"""What Prometheus answers, read into lines and into the times of alerts; and why a panel has none."""

from __future__ import annotations

import math

import pytest

from bench.dashboard import answers, panels, units
from bench.dashboard.answers import Line, Span


def an_answer_of_prometheus(*results: dict[str, object]) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(results)}}


def test_a_line_has_a_name_and_its_points() -> None:
    result = {"metric": {"namespace": "shop", "job": "totals"}, "values": [[100, "1.5"], [115, "2"]]}

    lines = answers.read_lines(an_answer_of_prometheus(result), "{{namespace}}/{{job}}", 15)

    assert lines == (Line("shop/totals", ((100.0, 1.5), (115.0, 2.0))),)
    assert lines[0].latest == 2.0


def test_points_with_a_gap_between_them_are_not_connected() -> None:
    result = {"metric": {}, "values": [[100, "1"], [115, "1"], [160, "1"]]}

    (line,) = answers.read_lines(an_answer_of_prometheus(result), "a", 15)

    assert [at for at, value in line.points if math.isnan(value)] == [130.0]
    assert len(line.points) == 4


def test_the_answer_for_a_moment_is_a_line_of_one_point() -> None:
    assert answers.read_lines(an_answer_of_prometheus({"metric": {}, "value": [100, "3"]}), "jobs", 15) == (
        Line("jobs", ((100.0, 3.0),)),
    )


def test_a_query_that_prometheus_refuses_is_an_error_with_its_words() -> None:
    with pytest.raises(panels.DashboardError, match="parse error"):
        answers.read_lines({"status": "error", "error": "parse error at char 5"}, "", 15)


def test_an_alert_that_was_pending_and_fired_twice_has_a_span_for_each() -> None:
    labels = {"alertname": "Down", "namespace": "shop", "job": "totals"}
    pending = {"metric": {**labels, "alertstate": "pending"}, "values": [[100, "1"], [115, "1"]]}
    firing = {"metric": {**labels, "alertstate": "firing"}, "values": [[130, "1"], [400, "1"]]}

    assert answers.read_spans(an_answer_of_prometheus(firing, pending), 15) == (
        Span("Down", "shop/totals", "pending", 100.0, 130.0),
        Span("Down", "shop/totals", "firing", 130.0, 145.0),
        Span("Down", "shop/totals", "firing", 400.0, 415.0),
    )


def test_an_alert_of_no_job_has_no_subject() -> None:
    result = {"metric": {"alertname": "Down", "alertstate": "firing"}, "values": [[100, "1"]]}

    assert answers.read_spans(an_answer_of_prometheus(result), 15)[0].subject == ""


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({"statefulspark_a"}, "No series statefulspark_b in this time."),
        ({"statefulspark_a", "statefulspark_b"}, "Its series are there, and its queries select nothing of them."),
    ],
    ids=["a series is missing", "nothing is selected"],
)
def test_a_panel_without_lines_says_why(there: set[str], why: str) -> None:
    assert answers.why_empty(["statefulspark_a / statefulspark_b"], there.__contains__) == why


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "s", "0 s"),
        (0.25, "s", "250 ms"),
        (12.34, "s", "12.3 s"),
        (90, "s", "1.5 min"),
        (7200, "s", "2 hour"),
        (512, "bytes", "512 B"),
        (1536, "bytes", "1.5 KiB"),
        (3 << 30, "bytes", "3 GiB"),
        (2, "short", "2"),
        (62_000, "short", "62 K"),
        (2_500_000, "short", "2.5 Mil"),
        (300, "rowsps", "300 rows/s"),
    ],
)
def test_values_are_written_in_the_unit_of_their_panel(value: float, unit: str, text: str) -> None:
    assert units.written(value, unit) == text


def test_a_unit_that_is_not_known_is_refused() -> None:
    with pytest.raises(panels.DashboardError, match="'watt'"):
        units.written(1, "watt")


@pytest.mark.parametrize(
    ("unit", "span", "step"),
    [
        ("bytes", 3000, 1024),
        ("bytes", 9_300_000, 1 << 22),
        ("s", 0.9, 0.5),
        ("s", 3, 1),
        ("s", 31, 15),
        ("s", 500, 300),
        ("s", 300_000, 172_800),
        ("short", 1, 0.5),
        ("short", 6, 2),
        ("rowsps", 700, 500),
    ],
)
def test_a_scale_is_divided_where_people_would(unit: str, span: float, step: float) -> None:
    assert units.tick_step(unit, span, 3) == step
