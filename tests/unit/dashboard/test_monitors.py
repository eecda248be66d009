"""The chart's monitors and rules as configuration of Prometheus: what is scraped, by which labels, what is refused."""

from __future__ import annotations

import pytest
from helmchart import render
from statefulspark_operator.api import names

from bench.dashboard import monitors

ON = tuple(f"monitoring.{name}.enabled=true" for name in ("serviceMonitor", "podMonitor", "rules"))


def scraped(*values: str) -> dict[str, dict[str, object]]:
    """Return the scrape configurations of the chart by the kind of their monitor."""
    configured = monitors.configure(render(*ON, *values))["scrape_configs"]
    assert isinstance(configured, list)
    return {str(one["job_name"]).split("/")[0]: one for one in configured}


def kept(scrape: dict[str, object]) -> dict[str, str]:
    """Return what a label of a target has to be, so that it is scraped."""
    rules = scrape["relabel_configs"]
    assert isinstance(rules, list)
    return {rule["source_labels"][0]: rule["regex"] for rule in rules if rule.get("action") == "keep"}


def test_the_operator_is_scraped_behind_its_service_and_drivers_wherever_they_are() -> None:
    configured = scraped()

    assert [configured[kind]["kubernetes_sd_configs"] for kind in ("ServiceMonitor", "PodMonitor")] == [
        [{"role": "endpoints", "namespaces": {"names": ["default"]}}],
        [{"role": "pod"}],
    ]
    assert [one["scrape_interval"] for one in configured.values()] == ["15s", "30s"]
    assert all(one["honor_labels"] for one in configured.values())


def test_drivers_are_looked_for_where_jobs_are_looked_after() -> None:
    assert scraped("watchNamespaces={shop,billing}")["PodMonitor"]["kubernetes_sd_configs"] == [
        {"role": "pod", "namespaces": {"names": ["shop", "billing"]}}
    ]


def test_of_the_pods_of_jobs_only_drivers_are_scraped_at_the_port_of_their_metrics() -> None:
    assert kept(scraped()["PodMonitor"]) == {
        "__meta_kubernetes_pod_label_app_kubernetes_io_name": "statefulspark",
        "__meta_kubernetes_pod_label_statefulspark_io_role": names.ROLE_DRIVER,
        "__meta_kubernetes_pod_container_port_name": names.METRICS_PORT_NAME,
    }


def test_relabelings_of_the_chart_follow_those_that_name_a_target() -> None:
    rules = scraped()["PodMonitor"]["relabel_configs"]

    assert isinstance(rules, list)
    assert rules[-2] == {
        "source_labels": ["__meta_kubernetes_pod_annotationpresent_statefulspark_io_api_tls"],
        "regex": "true",
        "target_label": "__scheme__",
        "replacement": "https",
    }


def test_a_field_that_is_not_translated_is_refused() -> None:
    with pytest.raises(monitors.MonitorError, match="tlsConfig"):
        scraped("monitoring.podMonitor.tlsConfig.insecureSkipVerify=true")


def test_all_rules_of_the_chart_are_loaded() -> None:
    (group,) = monitors.rules(render(*ON))["groups"]  # type: ignore[misc]

    assert "StatefulSparkUpgradeBlocked" in [rule["alert"] for rule in group["rules"]]
