"""The cluster of all scenarios, and a job in a namespace of its own for each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from testbed import bed, job

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def cluster() -> Iterator[bed.Bed]:
    """A cluster with S3 and the operator; down at the end, whatever happened."""
    raised = bed.raise_up(os.environ)
    try:
        yield raised
    finally:
        bed.take_down(raised)


@pytest.fixture
def subject(cluster: bed.Bed, request: pytest.FixtureRequest) -> Iterator[job.Job]:
    """A job that can be applied, in a namespace named after the test; what happened is kept when the test fails."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")[:50].strip("-")
    one = job.Job(cluster, name)
    one.prepare()
    yield one
    if request.node.stash.get(_FAILED, False):
        bed.LOGS.mkdir(parents=True, exist_ok=True)
        bed.LOGS.joinpath(f"{name}.log").write_text(one.describe(), "utf-8")
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
