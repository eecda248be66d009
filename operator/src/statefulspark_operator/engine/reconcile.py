"""One reconcile pass of one job. This page is the whole algorithm; each step has its own module.

A pass looks at the watches' copies first. If nothing has changed since a pass that had nothing to do, it ends there; if what
it decides weighs nothing, it is carried out; otherwise the pass is made again from what the API server says (docs/adr/0023).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from statefulspark import errors

from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import resources, watched
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import attend, code, observe, perform, record, report, tidy, validate, weight
from statefulspark_operator.engine.memory import LONGEST_LOOK, JobMemory, Seen
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import decide
from statefulspark_operator.lifecycle.decision import AT_ONCE, Decision
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject
from statefulspark_operator.lifecycle.situation import Situation
from statefulspark_operator.telemetry.metrics import JobMetrics


@dataclass(frozen=True, slots=True)
class _Considered:
    """A decision, and what it was made from.

    Attributes:
        situation: The facts.
        decision: The decision.
        attend_after: When the savepoint objects are looked at again; None if there was nothing to do about them.
    """

    situation: Situation
    decision: Decision
    attend_after: timedelta | None


async def reconcile(ports: Ports, key: JobKey, gauges: JobMetrics | None = None) -> timedelta | None:
    """Bring one job one step closer to its spec.

    Args:
        ports: The ports and the clock.
        key: The job.
        gauges: Receives the recorded status, and what the driver answered.

    Returns:
        The delay until the next pass if no event wakes the job before; None when the job is gone, and its savepoint
        objects need nothing.

    Raises:
        TransientError: Try again after the error's delay.
        PreconditionFailedError: The job has changed during the pass; try again at once.
        StateUnknownError: A permission is missing; try again later.
    """
    memory, gauges = ports.memories.of(key), gauges or JobMetrics()
    try:
        after = await _from_copies(ports, key, memory, gauges)
        return after if after is not None else await _from_the_api_server(ports, key, memory, gauges)
    except errors.StatefulSparkError:
        memory.distrust()
        raise


async def _from_copies(ports: Ports, key: JobKey, memory: JobMemory, gauges: JobMetrics) -> timedelta | None:
    """Make a pass from the watches' copies; None if it has to be made from what the API server says."""
    follows, memory.is_followed = memory.is_followed, False
    resource, now = ports.watched.find(resources.JOB, key.namespace, key.name), ports.now()
    if resource is None or resources.text(resource, "metadata", "deletionTimestamp"):
        return None
    if memory.trusted_until is None:
        memory.trust(key, now)  # The watches have listed everything a moment ago.
    elif now >= memory.trusted_until:
        return None
    sight = await observe.look(ports, resource, ports.watched.pods(key))
    gauges.hear(key, sight.answer)
    savepoints = await attend.read(ports, key.namespace)
    await code.look(ports, key, sight)
    if memory.is_settled(_seen(ports, key, sight), now):
        return _next_look(memory, sight, now)
    memory.unsettle()
    if not sight.live and not follows:
        return None
    considered = await _consider(ports, key, sight, savepoints)
    situation, decision = considered.situation, considered.decision
    if weight.is_weighty(situation, decision) and not (follows and weight.only_starts(decision)):
        return None
    return await _carry_out(ports, key, sight, considered, gauges)


async def _from_the_api_server(ports: Ports, key: JobKey, memory: JobMemory, gauges: JobMetrics) -> timedelta | None:
    resource = await observe.read_job(ports, key)
    savepoints = await attend.read(ports, key.namespace)
    if resource is None:
        gauges.remove(key)
        ports.memories.forget(key)
        ports.code_watches.follow(key, None)
        after = await attend.without_job(ports, key, savepoints)
        ports.storage.forget(key)
        return after
    sight = await observe.look(ports, resource, await observe.read_pods(ports, key))
    gauges.hear(key, sight.answer)
    memory.trust(key, sight.now)
    memory.doubt_code()
    considered = await _consider(ports, key, sight, savepoints)
    after = await _carry_out(ports, key, sight, considered, gauges)
    memory.is_followed = _only_records_a_step(considered)
    if not considered.decision.actions:
        await tidy.objects(ports, key, considered.situation, considered.decision.status)
        await tidy.storage(ports, key, considered.situation, considered.decision.status)
    return after


def _seen(ports: Ports, key: JobKey, sight: observe.Sight) -> Seen:
    own = ((savepoint.uid, savepoint.resource_version) for savepoint in attend.own(ports, key.namespace, key.name))
    objects = ((watched.uid_of(item), watched.version_of(item)) for item in (sight.resource, *sight.pods))
    looked = ports.memories.of(key).code
    content = (("code", str(looked.outcome)),) if looked is not None else ()
    return Seen.of((*objects, *own, *content), sight.driver.status, sight.standby)


def _next_look(memory: JobMemory, sight: observe.Sight, now: datetime) -> timedelta:
    """Return when to look again: a driver has to be asked, and a job without one is woken by events."""
    if sight.live or memory.settled_until is None:
        return memory.next_look(now)
    may_sleep = memory.code is None or memory.code.may_sleep
    return memory.settled_until - now if may_sleep else min(memory.settled_until - now, LONGEST_LOOK)


async def _consider(
    ports: Ports, key: JobKey, sight: observe.Sight, savepoints: tuple[SavepointObject, ...] | None
) -> _Considered:
    """Attend to the job's savepoint objects, and decide."""
    looked_at = await code.look(ports, key, sight)
    accepted = await validate.validate(ports, sight.resource, sight.status, looked_at)
    situation = attend.with_objects(ports, await observe.observe(ports, sight, accepted), savepoints or ())
    attend_after = await attend.of_job(ports, key, situation) if savepoints is not None else None
    return _Considered(situation, decide.decide(situation), attend_after)


def _only_records_a_step(considered: _Considered) -> bool:
    return not considered.decision.actions and weight.records_a_step(considered.situation, considered.decision)


async def _carry_out(
    ports: Ports, key: JobKey, sight: observe.Sight, considered: _Considered, gauges: JobMetrics
) -> timedelta:
    """Record, perform and report a decision, and remember whether there was nothing to do."""
    situation, decision, memory = considered.situation, considered.decision, ports.memories.of(key)
    # What a failure has said stands until the same step succeeds, instead of being taken back by each attempt.
    is_retry = memory.has_failed and bool(decision.actions) and not weight.records_a_step(situation, decision)
    resource = sight.resource if is_retry else await _record(ports, key, sight.resource, decision.status)
    gauges.update(key, decision.status)
    current = perform.Pass(ports, key, sight.resource, situation, watched.version_of(resource))
    try:
        await perform.perform(current, decision.actions)
        memory.has_failed = False
        await record.record(ports, key, resource, decision.status)
    except errors.StatefulSparkError as error:
        memory.has_failed = not isinstance(error, errors.PreconditionFailedError)
        await _record_failure(current, resource, decision, error)
        raise
    finally:
        await report.report(ports, key, situation, decision)
    return _after(ports, key, sight, considered)


def _after(ports: Ports, key: JobKey, sight: observe.Sight, considered: _Considered) -> timedelta:
    """Return the delay until the next pass."""
    situation, decision, memory = considered.situation, considered.decision, ports.memories.of(key)
    # The operator's own patch wakes nobody; a new pod's events do, and before them it has nothing to tell.
    if weight.records_a_step(situation, decision) and not weight.creates_a_driver(decision):
        return AT_ONCE
    if considered.attend_after is not None:
        return min(decision.requeue_after, considered.attend_after)
    until = memory.trusted_until
    if until is None or not weight.is_settled(situation, decision, until=until):
        return decision.requeue_after
    longest = weight.longest_look(situation, LONGEST_LOOK)
    memory.settle(_seen(ports, key, sight), until, longest)
    return _next_look(memory, sight, situation.now)


async def _record_failure(
    current: perform.Pass, resource: Resource, decision: Decision, error: errors.StatefulSparkError
) -> None:
    """Record in the status why the actions failed; a conflict is no failure, because the next pass decides again."""
    if isinstance(error, errors.PreconditionFailedError):
        return
    failed = report.with_failure(current.situation, decision, error)
    await record.record(current.ports, current.key, resource, failed)


async def _record(ports: Ports, key: JobKey, resource: Resource, status: StatefulSparkJobStatus) -> Resource:
    """Record a status, and return the resource as it is then."""
    version = await record.record(ports, key, resource, status)
    metadata = {**resources.section(resource, "metadata"), "resourceVersion": version}
    return {**resource, "metadata": metadata, "status": record.as_json(status)}
