"""The cluster of all scenarios, and a job in a namespace of its own for each."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator

import pytest
from testbed import bed, job

_LONGEST = 44  # the names of pods and Services follow it, and 63 is the end
_FAILED = pytest.StashKey[bool]()


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
