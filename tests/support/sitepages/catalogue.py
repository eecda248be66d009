"""Which pages are generated, and by what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sitepages import (
    chart,
    commands,
    driver_reasons,
    events,
    examples,
    httpapi,
    metrics,
    operator_reasons,
    other_systems,
    phases,
    pythonapi,
    resources,
    vocabulary,
)

DOCS = Path(__file__).resolve().parents[3] / "docs"

PAGES: Mapping[str, Callable[[], str]] = {
    "trouble/phases.md": phases.phases,
    "trouble/exit-codes.md": phases.exit_codes,
    "trouble/snapshot-failures.md": phases.snapshot_failures,
    "trouble/operator-reasons.md": operator_reasons.page,
    "trouble/driver-reasons.md": driver_reasons.page,
    "trouble/other-systems.md": other_systems.page,
    "reference/python.md": pythonapi.page,
    "reference/commands.md": commands.page,
    "reference/vocabulary.md": vocabulary.page,
    "reference/chart.md": chart.page,
    "reference/statefulsparkjob.md": resources.job,
    "reference/sparksavepoint.md": resources.savepoint,
    "reference/http.md": httpapi.page,
    "reference/operator-metrics.md": metrics.page,
    "reference/events.md": events.page,
    "examples.md": examples.page,
}


def outdated() -> tuple[str, ...]:
    """Return the pages that differ from what would be written, or are not there."""
    return tuple(name for name, render in PAGES.items() if _committed(name) != render())


def write() -> None:
    """Write all pages."""
    for name, render in PAGES.items():
        file = DOCS / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(render(), encoding="utf-8")


def _committed(name: str) -> str:
    file = DOCS / name
    return file.read_text(encoding="utf-8") if file.is_file() else ""
