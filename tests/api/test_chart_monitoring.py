"""What the chart gives Prometheus and Grafana: queries that parse, of metrics that exist, and a page for each alert."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import cast

import promql_parser
import pytest
import yaml
from apiserver import ROOT
from everymetric import scraped
from helmchart import of_kind, render
from statefulspark.server import metrics as driver_metrics
from statefulspark_operator.api import names
from statefulspark_operator.api.conditions import ConditionType
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.telemetry import metrics as operator_metrics

RULES = "monitoring.rules.enabled=true"
MONITORS = ("monitoring.serviceMonitor.enabled=true", "monitoring.podMonitor.enabled=true")
ALERT_PAGE = ROOT / "docs" / "trouble" / "alerts.md"


def alerts(*values: str) -> tuple[Resource, ...]:
    (rule,) = of_kind(render(RULES, *values), "PrometheusRule")
    (group,) = resources.items(rule, "spec", "groups")
    return resources.items(group, "rules")


def dashboard() -> Resource:
    found = of_kind(render("monitoring.dashboard.enabled=true"), "ConfigMap")[0]
    return cast("Resource", json.loads(resources.text(found, "data", "statefulspark.json")))


def queries_of_the_dashboard() -> Iterator[tuple[str, str]]:
    for panel in resources.items(dashboard(), "panels"):
        for target in resources.items(panel, "targets"):
            expression = resources.text(target, "expr").replace("$__rate_interval", "5m")
            yield resources.text(panel, "title"), expression


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    """Parse a query with Prometheus's own grammar, and return the series that it selects."""
    found: list[promql_parser.VectorSelector] = []

    def visit(part: promql_parser.Expr) -> bool:
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit, lambda _part: True)
    return found


def series() -> frozenset[str]:
    """Return the names of all series that drivers and the operator expose."""
    operators = (
        *operator_metrics.JobMetrics().families(),
        *operator_metrics.operator_families(jobs=0, passes=0, failed_passes=0),
    )
    own = (f"{family.name}_total" if family.type == "counter" else family.name for family in operators)
    return frozenset((*own, *_series_of_drivers()))


def _series_of_drivers() -> Iterator[str]:
    for family in driver_metrics.FAMILIES:
        suffixes = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
        yield from (f"{driver_metrics.PREFIX}{family.name}{suffix}" for suffix in suffixes)


EVERY_QUERY = [
    *((resources.text(alert, "alert"), resources.text(alert, "expr")) for alert in alerts()),
    *queries_of_the_dashboard(),
]
every_query = pytest.mark.parametrize(("title", "expression"), EVERY_QUERY, ids=[title for title, _ in EVERY_QUERY])


@every_query
def test_a_query_parses_and_every_series_in_it_exists(title: str, expression: str) -> None:
    names = [selector.name for selector in selectors(expression)]

    assert names
    assert set(names) - series() == set()


@every_query
def test_a_query_names_conditions_and_phases_that_exist(title: str, expression: str) -> None:
    known = {"condition": {kind.value for kind in ConditionType}, "phase": {phase.value for phase in Phase}}

    for selector in selectors(expression):
        for matcher in selector.matchers.matchers:
            assert set(matcher.value.split("|")) <= known.get(matcher.name, {matcher.value})


def test_an_alert_tells_which_job_and_what_to_do() -> None:
    sections = set(re.findall(r"^## (\S+)$", ALERT_PAGE.read_text(), re.M))

    for alert in alerts():
        name = resources.text(alert, "alert")
        annotations = resources.section(alert, "annotations")
        assert annotations["runbook_url"] == f"docs/trouble/alerts.md#{name.lower()}"
        assert ("$labels.job_name" in str(annotations["summary"])) is not name.startswith("StatefulSparkOperator")
        assert resources.text(alert, "labels", "severity") in ("critical", "warning")
    assert sections == {resources.text(alert, "alert") for alert in alerts()}


def test_thresholds_and_the_address_of_the_page_are_values() -> None:
    changed = alerts(
        "monitoring.rules.checkpointAgeSeconds=77",
        "monitoring.rules.restartsIn30Minutes=9",
        "monitoring.rules.runbookUrl=https://wiki.example/alerts",
    )
    by_name = {resources.text(alert, "alert"): alert for alert in changed}

    assert "> 77" in resources.text(by_name["StatefulSparkCheckpointTooOld"], "expr")
    assert resources.text(by_name["StatefulSparkJobRestarts"], "expr").endswith("> 9")
    runbook = resources.text(by_name["StatefulSparkJobStalled"], "annotations", "runbook_url")
    assert runbook == "https://wiki.example/alerts#statefulsparkjobstalled"


def test_an_idle_job_whose_checkpoints_wait_for_input_is_no_alert() -> None:
    (too_old,) = (alert for alert in alerts() if alert["alert"] == "StatefulSparkCheckpointTooOld")

    compared = {selector.name for selector in selectors(resources.text(too_old, "expr"))}

    assert "statefulspark_query_last_commit_timestamp_seconds" in compared


def test_no_series_has_a_label_that_prometheus_gives_a_target() -> None:
    """Prometheus would rename it to `exported_...`, and the rules would find nothing."""
    exposed = (ROOT / "tests" / "golden" / "metrics" / f"{name}.prom" for name in ("driver", "operator"))
    samples = [sample for page in exposed for family in scraped(page.read_text()) for sample in family.samples]

    assert {name for sample in samples for name in sample.labels} & {"job", "namespace", "instance", "pod"} == set()


def test_monitors_select_the_metrics_service_and_the_pods_of_drivers() -> None:
    objects = render(*MONITORS)
    (monitor,) = of_kind(objects, "ServiceMonitor")
    (service,) = of_kind(objects, "Service")
    (deployment,) = of_kind(objects, "Deployment")
    wanted = resources.section(monitor, "spec", "selector", "matchLabels")

    assert wanted.items() <= resources.section(service, "metadata", "labels").items()
    pod = resources.section(deployment, "spec", "template", "metadata", "labels")
    assert resources.section(service, "spec", "selector").items() <= pod.items()


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [((), {"any": True}), (("watchNamespaces={shop,billing}",), {"matchNames": ["shop", "billing"]})],
    ids=["whole cluster", "two namespaces"],
)
def test_drivers_are_scraped_where_jobs_are_looked_after(values: tuple[str, ...], namespaces: object) -> None:
    (monitor,) = of_kind(render(*MONITORS, *values), "PodMonitor")

    assert resources.section(monitor, "spec", "namespaceSelector") == namespaces


_NAME_IN_PROMETHEUS = re.compile(r"\W")


def _target(pod: Resource, monitor: Resource) -> dict[str, str]:
    """Return a driver's target as Prometheus has it after the relabelings of a monitor."""
    (endpoint,) = resources.items(monitor, "spec", "podMetricsEndpoints")
    annotations = resources.section(pod, "metadata").get("annotations") or {}
    pod_labels = resources.section(pod, "metadata", "labels")
    target = {
        "__scheme__": "http",
        "__address__": "10.0.0.7:9090",
        "__meta_kubernetes_namespace": resources.text(pod, "metadata", "namespace"),
        **{
            f"__meta_kubernetes_pod_annotationpresent_{_NAME_IN_PROMETHEUS.sub('_', name)}": "true"
            for name in annotations
        },
        **{
            f"__meta_kubernetes_pod_label_{_NAME_IN_PROMETHEUS.sub('_', name)}": text
            for name, text in pod_labels.items()
        },
    }
    for rule in resources.items(endpoint, "relabelings"):
        joined = ";".join(target.get(str(name), "") for name in cast("list[str]", rule["sourceLabels"]))
        match = re.fullmatch(resources.text(rule, "regex"), joined)
        if match is not None:
            replacement = re.sub(r"\$(\d)", r"\\\1", resources.text(rule, "replacement"))
            target[resources.text(rule, "targetLabel")] = match.expand(replacement)
    return target


@pytest.mark.parametrize(
    ("golden", "scraped"),
    [
        pytest.param("driver-small", "http://10.0.0.7:9090", id="without TLS"),
        pytest.param(
            "driver-full", f"https://{names.server_name('flights', 'demo')}:{names.METRICS_PORT}", id="with TLS"
        ),
    ],
)
def test_a_driver_is_scraped_in_its_own_scheme_and_by_the_name_of_its_certificate(golden: str, scraped: str) -> None:
    pod = yaml.safe_load((ROOT / "tests" / "golden" / "operator" / f"{golden}.yaml").read_text())
    (monitor,) = of_kind(render(*MONITORS), "PodMonitor")

    target = _target(pod, monitor)

    assert f"{target['__scheme__']}://{target['__address__']}" == scraped


def test_the_authority_of_drivers_is_a_value() -> None:
    authority = "monitoring.podMonitor.tlsConfig.ca.secret"
    (plain,) = of_kind(render(*MONITORS), "PodMonitor")
    (given,) = of_kind(render(*MONITORS, f"{authority}.name=internal-ca", f"{authority}.key=ca.crt"), "PodMonitor")

    (without,), (endpoint,) = (resources.items(one, "spec", "podMetricsEndpoints") for one in (plain, given))

    assert endpoint == {**without, "tlsConfig": {"ca": {"secret": {"name": "internal-ca", "key": "ca.crt"}}}}


def test_nothing_of_the_prometheus_operator_is_rendered_unless_it_is_asked_for() -> None:
    kinds = {found["kind"] for found in render()}

    assert kinds & {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap", "Service"} == set()


def test_a_network_policy_lets_scrapers_in_and_nobody_else() -> None:
    (policy,) = of_kind(render(), "NetworkPolicy")

    assert resources.section(policy, "spec")["policyTypes"] == ["Ingress"]
    assert resources.items(policy, "spec", "ingress") == ({"ports": [{"port": "metrics", "protocol": "TCP"}]},)


@pytest.mark.parametrize(("title", "expression"), list(queries_of_the_dashboard()))
def test_a_line_of_the_dashboard_goes_on_when_another_pod_tells_it(title: str, expression: str) -> None:
    """A driver's series has its pod among its labels: as it is, each start of a job is one more line of the same name."""
    bare: list[promql_parser.Expr] = []
    depth = 0

    def enter(part: promql_parser.Expr) -> bool:
        nonlocal depth
        depth += isinstance(part, promql_parser.AggregateExpr)
        if isinstance(part, promql_parser.VectorSelector) and not depth:
            bare.append(part)
        return True

    def leave(part: promql_parser.Expr) -> bool:
        nonlocal depth
        depth -= isinstance(part, promql_parser.AggregateExpr)
        return True

    promql_parser.walk(promql_parser.parse(expression), enter, leave)

    assert bare == []


def test_rates_of_what_the_operator_tells_look_back_over_four_of_its_scrapes() -> None:
    """Grafana takes the smallest step of a query for the time between two scrapes; without one, that of the drivers'."""
    own = {family.name for family in operator_metrics.JobMetrics().families()}
    interval = resources.items(of_kind(render(*MONITORS), "ServiceMonitor")[0], "spec", "endpoints")[0]["interval"]
    targets = [
        target for panel in resources.items(dashboard(), "panels") for target in resources.items(panel, "targets")
    ]
    of_operator = [
        target
        for target in targets
        for rated in re.findall(r"(statefulspark_\w+)[^\]]*\[\$__rate_interval", resources.text(target, "expr"))
        if "_operator_" in rated or rated.removesuffix("_total") in own
    ]

    assert [target.get("interval") for target in of_operator] == [interval] * 3


def test_every_panel_of_the_dashboard_has_a_place_of_its_own() -> None:
    places = [
        (square, row)
        for panel in resources.items(dashboard(), "panels")
        for place in [resources.section(panel, "gridPos")]
        for square in range(resources.number(place, "x"), resources.number(place, "x") + resources.number(place, "w"))
        for row in range(resources.number(place, "y"), resources.number(place, "y") + resources.number(place, "h"))
    ]

    assert len(places) == len(set(places))
    assert max(square for square, _ in places) < 24
