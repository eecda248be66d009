"""The metrics of the operator, from the families that it exposes."""

from __future__ import annotations

from sitepages import markdown
from statefulspark_operator.telemetry import metrics


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Metrics of the operator",
        "The operator serves them at `/metrics` on port 9090, in Prometheus's text format. They tell about jobs also while "
        "no driver runs. What they repeat of a driver (lag, rates, checkpoints) has the driver's name for it, is up to half "
        "a minute old, and is absent while no driver answers. A job's own metrics are those of [its driver](../metrics.md).",
    )
    families = (*metrics.JobMetrics().families(), *metrics.operator_families(jobs=0, passes=0, failed_passes=0))
    rows = []
    for family in families:
        labels = [name for name in getattr(family, "_labelnames", ()) if name not in ("job_namespace", "job_name")]
        name = f"{family.name}_total" if family.type == "counter" else family.name
        both = "yes" if "job_name" in getattr(family, "_labelnames", ()) else ""
        further = ", ".join(map(markdown.code, labels))
        rows.append((markdown.code(name), family.type, both, further, markdown.prose(family.documentation)))
    lines.extend(
        markdown.table(("metric", "type", "`job_namespace`, `job_name`", "further labels", "what it says"), rows)
    )
    return markdown.finish(lines)
