"""One reconcile pass of one job. This page is the whole algorithm; each step has its own module."""

from __future__ import annotations

from datetime import timedelta

from statefulspark import errors

from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import attend, observe, perform, record, report, validate
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import decide
from statefulspark_operator.lifecycle.decision import SOON, Decision
from statefulspark_operator.telemetry.metrics import JobMetrics


async def reconcile(ports: Ports, key: JobKey, gauges: JobMetrics | None = None) -> timedelta | None:
    """Bring one job one step closer to its spec.

    Args:
        ports: The ports and the clock.
        key: The job.
        gauges: Receives the recorded status.

    Returns:
        The delay until the next pass if no event wakes the job before; None when the job is gone, and its savepoint
        objects need nothing.

    Raises:
        TransientError: Try again after the error's delay.
        PreconditionFailedError: The job has changed during the pass; try again at once.
        StateUnknownError: A permission is missing; try again later.
    """
    resource = await observe.read_job(ports, key)
    gauges = gauges or JobMetrics()
    savepoints = await attend.read(ports, key.namespace)
    if resource is None:
        gauges.remove(key)
        return await attend.without_job(ports, key, savepoints)
    accepted = await validate.validate(ports, resource, observe.read_status(resource))
    situation = await observe.observe(ports, resource, accepted, savepoints or ())
    attended = await attend.of_job(ports, key, situation) if savepoints is not None else False
    decision = decide.decide(situation)
    version = await record.record(ports, key, resource, decision.status)
    gauges.update(key, decision.status)
    current = perform.Pass(ports, key, resource, situation, version)
    try:
        await perform.perform(current, decision.actions)
    except errors.StatefulSparkError as error:
        await _record_failure(current, decision, error)
        raise
    finally:
        await report.report(ports, key, situation, decision)
    return min(decision.requeue_after, SOON) if attended else decision.requeue_after


async def _record_failure(current: perform.Pass, decision: Decision, error: errors.StatefulSparkError) -> None:
    """Record in the status why the actions failed; a conflict is no failure, because the next pass decides again."""
    if isinstance(error, errors.PreconditionFailedError):
        return
    failed = report.with_failure(current.situation, decision, error)
    recorded = _recorded(current.resource, decision, current.resource_version)
    await record.record(current.ports, current.key, recorded, failed)


def _recorded(resource: Resource, decision: Decision, version: str) -> Resource:
    """Return the resource as it is after the decision was recorded."""
    metadata = {**resources.section(resource, "metadata"), "resourceVersion": version}
    return {**resource, "metadata": metadata, "status": record.as_json(decision.status)}
