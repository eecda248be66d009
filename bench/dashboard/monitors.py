"""What the Prometheus operator makes of the chart's monitors and rules: the configuration of Prometheus. Pure.

The bundled cluster has no Prometheus operator, so the few fields that the chart uses are translated here, with the labels
and the relabelings that it adds. A field that is not translated is an error; nothing is left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

Json = Mapping[str, object]
Document = dict[str, object]
EVALUATED_EVERY = "15s"
RULES_FILE = "rules.json"
_ENDPOINT_FIELDS = {"port", "interval", "relabelings"}
_CAMEL = re.compile(r"(?<!^)([A-Z])")


class MonitorError(Exception):
    """A monitor asks for what is not translated; the message names the field."""


def configure(objects: Sequence[Json]) -> Document:
    """Return the configuration of Prometheus for the monitors among a chart's objects."""
    monitors = [one for one in objects if one["kind"] in ("ServiceMonitor", "PodMonitor")]
    return {
        "global": {"scrape_interval": "30s", "evaluation_interval": EVALUATED_EVERY},
        "rule_files": [RULES_FILE],
        "scrape_configs": [_scrape(monitor) for monitor in monitors],
    }


def rules(objects: Sequence[Json]) -> Document:
    """Return the file of rules for the PrometheusRules among a chart's objects."""
    found = [one for one in objects if one["kind"] == "PrometheusRule"]
    return {"groups": [group for rule in found for group in cast("list[Json]", cast("Json", rule["spec"])["groups"])]}


def _scrape(monitor: Json) -> Document:
    metadata, spec = cast("Mapping[str, str]", monitor["metadata"]), cast("Json", monitor["spec"])
    is_of_pods = monitor["kind"] == "PodMonitor"
    (endpoint,) = cast("list[Json]", spec["podMetricsEndpoints" if is_of_pods else "endpoints"])
    unknown = endpoint.keys() - _ENDPOINT_FIELDS
    if unknown:
        raise MonitorError(f"{monitor['kind']} {metadata['name']} has {', '.join(sorted(unknown))}; translate it here.")
    discovery: Document = {"role": "pod" if is_of_pods else "endpoints"}
    names = _namespaces(spec, metadata["namespace"])
    if names:
        discovery["namespaces"] = {"names": names}
    return {
        "job_name": f"{monitor['kind']}/{metadata['namespace']}/{metadata['name']}",
        "scrape_interval": endpoint["interval"],
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": [
            *_selecting(spec, "pod" if is_of_pods else "service"),
            *_naming(str(endpoint["port"]), metadata, is_of_pods=is_of_pods),
            *(_in_snake_case(rule) for rule in cast("list[Json]", endpoint.get("relabelings") or [])),
        ],
    }


def _namespaces(spec: Json, own: str) -> list[str]:
    selector = cast("Json", spec.get("namespaceSelector") or {})
    return [] if selector.get("any") else cast("list[str]", selector.get("matchNames") or [own])


def _selecting(spec: Json, kind: str) -> list[Document]:
    wanted = cast("Mapping[str, str]", cast("Json", spec["selector"])["matchLabels"])
    return [
        {
            "action": "keep",
            "source_labels": [f"__meta_kubernetes_{kind}_label_{re.sub(r'[^0-9A-Za-z_]', '_', label)}"],
            "regex": re.escape(value),
        }
        for label, value in wanted.items()
    ]


def _naming(port: str, metadata: Mapping[str, str], *, is_of_pods: bool) -> Iterator[Document]:
    """Keep the port, leave out pods that have ended, and set the labels of a target."""
    port_label = "__meta_kubernetes_pod_container_port_name" if is_of_pods else "__meta_kubernetes_endpoint_port_name"
    named = {
        "namespace": "__meta_kubernetes_namespace",
        "pod": "__meta_kubernetes_pod_name",
        "container": "__meta_kubernetes_pod_container_name",
    }
    job: Document = {"target_label": "job", "replacement": f"{metadata['namespace']}/{metadata['name']}"}
    if not is_of_pods:
        job = {"target_label": "job", "source_labels": ["__meta_kubernetes_service_name"]}
    yield {"action": "keep", "source_labels": [port_label], "regex": re.escape(port)}
    yield {"action": "drop", "source_labels": ["__meta_kubernetes_pod_phase"], "regex": "(Failed|Succeeded)"}
    for label, source in named.items():
        yield {"target_label": label, "source_labels": [source]}
    yield {"target_label": "endpoint", "replacement": port}
    yield job


def _in_snake_case(rule: Json) -> Document:
    return {_CAMEL.sub(r"_\1", name).lower(): value for name, value in rule.items()}
