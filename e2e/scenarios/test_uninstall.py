"""The chart is not uninstalled while a job exists; the check runs as a pod, and its log names the job."""

from __future__ import annotations

import pytest
from demo import failure, setup
from testbed import job, waiting

CHECK = f"job/{setup.RELEASE}-uninstall"


def uninstall(subject: job.Job) -> str | None:
    """Uninstall the chart, and return why Helm refused it; None if it did not."""
    try:
        setup.uninstall_operator(subject.bed.connection, subject.bed.chosen)
    except failure.DemoFailedError as error:
        return error.message
    return None


def test_the_chart_stays_until_the_last_job_is_deleted(subject: job.Job) -> None:
    if not subject.bed.operator_is_ours:
        pytest.skip("The operator of this cluster belongs to somebody else.")
    operator = subject.bed.operator()
    subject.apply(suspend=True)
    waiting.until(subject.see, lambda seen: seen.phase == "Suspended", "suspended")

    assert f"{setup.RELEASE}-uninstall failed" in (uninstall(subject) or "")

    said = operator.call("logs", CHECK)
    assert f"StatefulSparkJob {subject.namespace}/{job.NAME}" in said
    assert "--no-hooks" in said
    assert operator.call("get", setup.OPERATOR, "--output", "name")

    subject.kube.delete(job.RESOURCE, waiting.PATIENCE_S)
    try:
        # Jobs of scenarios before may still end.
        waiting.until(lambda: uninstall(subject), lambda refusal: refusal is None, "uninstalled")
        assert not operator.call("get", setup.OPERATOR, "--ignore-not-found", "--output", "name")
        assert not operator.call("get", CHECK, "--ignore-not-found", "--output", "name")
    finally:
        setup.install_operator(subject.bed.connection, subject.bed.chosen)
