"""The cluster of all scenarios, and a job in a namespace of its own for each."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed import bed, job, report

_LONGEST = 44  # the names of pods and Services follow it, and 63 is the end
_FAILED = pytest.StashKey[bool]()
REPRESENTATIVE = (
    "test_bad_spec.py::test_state_on_a_node_is_refused[file]",
    "test_code.py::test_code_in_a_config_map[driver]",
    "test_executors.py::test_executors_that_hang_go_before_those_of_the_next_epoch[process]",
    "test_executors.py::test_lost_executor_is_counted_with_its_reason",
    "test_killed.py::test_driver_process_killed",
    "test_killed.py::test_operator_killed_during_an_upgrade[SavepointPreCopy]",
    "test_network_policies.py::test_only_a_jobs_own_pods_and_those_named_reach_it",
    "test_network_policies.py::test_only_scrapers_reach_the_operator_and_its_probes_pass",
    "test_never_down.py::test_bad_version_never_touches_the_running_one[raises]",
    "test_never_down.py::test_killed_driver_is_replaced_by_its_standby[pod]",
    "test_never_down.py::test_warm_upgrade_goes_on_in_place",
    "test_storage_away.py::test_running_job_outlives_an_outage",
    "test_tls.py::test_job_with_tls_is_seen_handed_over_and_suspended",
    "test_uninstall.py::test_the_chart_stays_until_the_last_job_is_deleted",
)
"""Scenarios that `make e2e` runs: each kind of trouble once, in less than twenty minutes; `make e2e-full` runs all."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add where a report is kept, and what part is run."""
    group = parser.getgroup("e2e")
    group.addoption("--report", type=Path, help="keep a row for each scenario in this file, and leave out what is done")
    group.addoption("--representative", action="store_true", help="run one scenario for each kind of trouble")


def pytest_configure(config: pytest.Config) -> None:
    """Keep a report if one is asked for."""
    file: Path | None = config.getoption("--report")
    if file is not None:
        config.pluginmanager.register(report.Plugin(file, report.code_of(Path(__file__).parent)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave all but the representative scenarios, if that is asked for; each of them has to be there."""
    if not config.getoption("--representative"):
        return
    left_out = [item for item in items if not report.is_chosen(item.nodeid, REPRESENTATIVE)]
    items[:] = [item for item in items if report.is_chosen(item.nodeid, REPRESENTATIVE)]
    if len(items) != len(REPRESENTATIVE):
        raise pytest.UsageError(
            "A representative scenario has another name now: see REPRESENTATIVE in e2e/conftest.py."
        )
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def cluster() -> Iterator[bed.Bed]:
    """A cluster with S3 and the operator; down at the end, whatever happened."""
    raised = bed.raise_up(os.environ)
    try:
        yield raised
    finally:
        bed.take_down(raised)


def namespace_of(test: str) -> str:
    """Return the name of a test as that of a namespace; two cases of one test differ where their names are cut."""
    name = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_")).strip("-")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST].strip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


@pytest.fixture
def subject(cluster: bed.Bed, request: pytest.FixtureRequest) -> Iterator[job.Job]:
    """A job that can be applied, in a namespace named after the test; what happened is kept when the test fails."""
    one = job.Job(cluster, namespace_of(request.node.name))
    one.prepare()
    yield one
    if request.node.stash.get(_FAILED, False):
        bed.LOGS.mkdir(parents=True, exist_ok=True)
        bed.LOGS.joinpath(f"{one.namespace}.log").write_text(one.describe(), "utf-8")
    one.forget()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:  # pragma: no cover - pytest calls it
    """Remember that a test failed, for its fixtures."""
    report = yield
    if call.when == "call" and call.excinfo is not None:
        item.stash[_FAILED] = True
    return report
