"""The chart's alerts in Prometheus's own engine: each trouble raises its alert and no other, and the alert ends with it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import processes
import pytest
import yaml
from apiserver import ROOT
from helmchart import of_kind, render
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

PROMTOOL = ROOT / "build" / "bin" / "promtool"
PAGE = ROOT / "docs" / "trouble" / "alerts.md"
MINUTES = 200
"""How long the series are, with a sample each minute."""
STARTS, ENDS = 60, 130
"""The minutes of a trouble's beginning and end."""
JOB = {"job_namespace": "shop", "job_name": "orders"}
READY, AVAILABLE, STORAGE = "Ready", "Available", "StorageReachable"
STALLED, BLOCKED, CHECKPOINTS = "Stalled", "UpgradeBlocked", "CheckpointHealthy"


def rules() -> Resource:
    """Return the rules as the chart renders them."""
    (rule,) = of_kind(render("monitoring.rules.enabled=true"), "PrometheusRule")
    return resources.section(rule, "spec")


RULES = rules()
ALERTS = {
    resources.text(alert, "alert"): alert
    for group in resources.items(RULES, "groups")
    for alert in resources.items(group, "rules")
}


def named(name: str, **labels: str) -> str:
    """Return the name of a series of the job."""
    written = ",".join(f'{label}="{text}"' for label, text in {**JOB, **labels}.items())
    return f"statefulspark_{name}{{{written}}}"


def condition(kind: str) -> str:
    return named("job_condition", condition=kind)


def changed(usual: float, troubled: float) -> str:
    """Return samples that differ while there is trouble."""
    return f"{usual}x{STARTS - 1} {troubled}x{ENDS - STARTS - 1} {usual}x{MINUTES - ENDS}"


def grown(each_minute: float, *, from_minute: int = 0, to_minute: int = MINUTES) -> str:
    """Return samples that grow for some minutes and stay otherwise."""
    top = each_minute * (to_minute - from_minute)
    before = [f"0x{from_minute - 1}"] if from_minute else []
    after = [f"{top}x{MINUTES - to_minute}"] if to_minute < MINUTES else []
    return " ".join((*before, f"0+{each_minute}x{to_minute - from_minute}", *after))


LEADER, FAILED_PASSES = "statefulspark_operator_leader", "statefulspark_operator_failed_passes_total"
LAG, COMMITTED = named("query_lag_rows", query="q"), named("query_last_commit_timestamp_seconds", query="q")
CHECKPOINT = named("last_checkpoint_completed_timestamp_seconds")
HEALTHY = {
    LEADER: f"1x{MINUTES}",
    FAILED_PASSES: f"0x{MINUTES}",
    named("job_ready"): f"1x{MINUTES}",
    named("job_phase", phase="Running"): f"1x{MINUTES}",
    named("job_phase", phase="Suspended"): f"0x{MINUTES}",
    **{condition(kind): f"1x{MINUTES}" for kind in (READY, AVAILABLE, STORAGE, CHECKPOINTS)},
    **{condition(kind): f"0x{MINUTES}" for kind in (STALLED, BLOCKED)},
    LAG: f"10x{MINUTES}",
    named("job_restarts_total"): f"0x{MINUTES}",
    CHECKPOINT: grown(60),
    COMMITTED: grown(60),
    named("job_savepoint_failed"): f"0x{MINUTES}",
    named("job_executors_requested"): f"3x{MINUTES}",
    named("job_executors_running"): f"3x{MINUTES}",
    named("fallback"): f"0x{MINUTES}",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A trouble between two minutes.

    Attributes:
        raises: The alerts that fire before it ends.
        series: The series that it changes.
        quiet_at: The minute from which no alert fires any more.
    """

    raises: tuple[str, ...]
    series: dict[str, str] = field(default_factory=dict)
    quiet_at: int = ENDS + 2


NOT_READY = {named("job_ready"): changed(1, 0), condition(READY): changed(1, 0)}
DOWN = {**NOT_READY, condition(AVAILABLE): changed(1, 0)}
TROUBLES = {
    "none": Trouble(()),
    "suspended": Trouble(
        (),
        {
            condition(AVAILABLE): changed(1, 0),
            named("job_phase", phase="Running"): changed(1, 0),
            named("job_phase", phase="Suspended"): changed(0, 1),
        },
    ),
    "no operator leads": Trouble(("OperatorDown",), {LEADER: changed(1, 0)}),
    "no operator at all": Trouble(("OperatorDown",), {LEADER: f"1x{STARTS - 1} _x{ENDS - STARTS} 1x{MINUTES - ENDS}"}),
    "the operator fails": Trouble(
        ("OperatorFails",), {FAILED_PASSES: grown(2, from_minute=STARTS, to_minute=ENDS)}, quiet_at=ENDS + 16
    ),
    "an upgrade hangs": Trouble(("JobNotReady",), NOT_READY),
    "no progress": Trouble(("JobNotAvailable",), DOWN),
    "a wrong spec": Trouble(("JobStalled",), {**DOWN, condition(STALLED): changed(0, 1)}),
    "storage": Trouble(("StorageUnreachable",), {**DOWN, condition(STORAGE): changed(1, 0)}),
    "no bucket": Trouble(
        ("StorageUnreachable",), {**DOWN, condition(STORAGE): changed(1, 0), condition(STALLED): changed(0, 1)}
    ),
    "a bad commit": Trouble(
        ("UpgradeBlocked",), {**NOT_READY, condition(STALLED): changed(0, 1), condition(BLOCKED): changed(0, 1)}
    ),
    "a bad commit, and down": Trouble(
        ("JobNotAvailable", "UpgradeBlocked"),
        {**DOWN, condition(STALLED): changed(0, 1), condition(BLOCKED): changed(0, 1)},
    ),
    "lag": Trouble(("LagGrows",), {LAG: grown(100, from_minute=STARTS, to_minute=ENDS)}, quiet_at=ENDS + 31),
    "restarts": Trouble(
        ("JobRestarts",),
        {named("job_restarts_total"): grown(0.5, from_minute=STARTS, to_minute=ENDS)},
        quiet_at=ENDS + 31,
    ),
    "no checkpoint": Trouble(
        ("CheckpointTooOld",),
        {CHECKPOINT: f"0+60x{STARTS - 1} {60 * STARTS}x{ENDS - STARTS - 1} {60 * ENDS}+60x{MINUTES - ENDS}"},
    ),
    "checkpoints fail": Trouble(("CheckpointsFail",), {condition(CHECKPOINTS): changed(1, 0)}),
    "a savepoint failed": Trouble(("SavepointFailed",), {named("job_savepoint_failed"): changed(0, 1)}),
    "executors": Trouble(("ExecutorsMissing",), {named("job_executors_running"): changed(3, 1)}),
    "damage": Trouble(("Fallback",), {named("fallback"): changed(0, 1)}),
}


def expected(alert: str, minute: int, *, fires: bool) -> Resource:
    """Return what promtool expects of an alert at a minute."""
    firing: list[Resource] = []
    if fires:
        labels = {} if alert.startswith("StatefulSparkOperator") else JOB
        annotations = dict(resources.section(ALERTS[alert], "annotations"))
        summary = str(annotations["summary"]).replace(
            "{{ $labels.job_namespace }}/{{ $labels.job_name }}", "shop/orders"
        )
        severity = resources.text(ALERTS[alert], "labels", "severity")
        shown: Resource = {**annotations, "summary": summary}
        firing = [{"exp_labels": {**labels, "severity": severity}, "exp_annotations": shown}]
    return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": firing}  # type: ignore[dict-item]


def test_a_trouble_raises_its_alert_alone_until_it_is_over(tmp_path: Path) -> None:
    processes.require(PROMTOOL, "build/bin/promtool")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [
                {"series": series, "values": values} for series, values in {**HEALTHY, **trouble.series}.items()
            ],
            "alert_rule_test": [
                expected(alert, minute, fires=fires and alert.removeprefix("StatefulSpark") in trouble.raises)
                for minute, fires in ((STARTS - 1, False), (ENDS - 1, True), (trouble.quiet_at, False))
                for alert in ALERTS
            ],
        }
        for name, trouble in TROUBLES.items()
    ]
    cases = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "troubles.yaml").write_text(yaml.safe_dump(cases))

    command = [str(PROMTOOL), "test", "rules", "troubles.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_raised_by_a_trouble() -> None:
    raised = {f"StatefulSpark{name}" for trouble in TROUBLES.values() for name in trouble.raises}

    assert raised == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_the_page_of_alerts_says_how_bad_an_alert_is_and_when_it_fires(name: str) -> None:
    row = re.search(rf"^\| \[{name}\]\(#{name.lower()}\) \| `(\w+)` \| (.+) \|$", PAGE.read_text(), re.M)

    assert row is not None
    severity, after = resources.text(ALERTS[name], "labels", "severity"), resources.text(ALERTS[name], "for")
    assert row.groups() == (severity, "at once" if after == "0m" else after)
