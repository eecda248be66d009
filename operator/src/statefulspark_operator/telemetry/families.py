"""How a metric of a job is declared: its name begins as all do, and it says which job it is about. Pure."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

PREFIX = "statefulspark_job"

Family = GaugeMetricFamily | CounterMetricFamily
Sample = tuple[str, tuple[str, ...], float]
"""The name of a metric without the prefix, the labels of its own, and a value."""

_LABELS = ("namespace", "job")


def counter(name: str, meaning: str, *labels: str) -> CounterMetricFamily:
    """Declare a counter with labels beside namespace and job."""
    return CounterMetricFamily(f"{PREFIX}_{name}", meaning, labels=(*_LABELS, *labels))


def gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    """Declare a gauge with labels beside namespace and job."""
    return GaugeMetricFamily(f"{PREFIX}_{name}", meaning, labels=(*_LABELS, *labels))
