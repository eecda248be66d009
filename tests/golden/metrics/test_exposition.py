"""What a scraper finds at the driver and at the operator: names, types, help, labels and values of every metric.

Dashboards and alerts hold on to them. A wanted change is written with `UPDATE_GOLDEN=1 pytest tests/golden/metrics` and
read in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from everymetric import a_driver_with_metrics, job_families, scraped, two_jobs
from statefulspark.server import metrics as driver_metrics
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.telemetry import metrics as operator_metrics

FOLDER = Path(__file__).parent
HEARD = {JobKey("demo", "flights"): a_driver_with_metrics()[0]}


def of_the_operator() -> str:
    own = operator_metrics.operator_families(
        jobs=2,
        passes=12,
        failed_passes=1,
        hung_passes=2,
        freed_bytes={"pruned": 3, "purged": 4, "disposed": 5},
        upgrades_running=6,
        upgrades_waiting={"UpgradeQueued": 7, "UpgradeHalted": 8},
        starts_waiting=9,
    )
    return operator_metrics.render((*own, *job_families(two_jobs(), HEARD)))


CASES = [("driver", driver_metrics.render(*a_driver_with_metrics())), ("operator", of_the_operator())]


@pytest.mark.parametrize(("name", "text"), CASES, ids=[name for name, _ in CASES])
def test_a_scraper_finds_what_it_always_found(name: str, text: str) -> None:
    file = FOLDER / f"{name}.prom"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)

    assert scraped(text) == scraped(file.read_text())
