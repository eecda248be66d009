"""One reconcile pass of one job. This page is the whole algorithm; each step has its own module.

A pass decides from the cache of the watches. If the decision does more than report, the pass reads the API server and
decides again, and only that decision is recorded and carried out (docs/adr/0023).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from statefulspark import errors
from statefulspark.contract.api import JobStatus

from statefulspark_operator.api import names
from statefulspark_operator.cluster import cache, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.engine import access, observe, perform, record, savepoints, staleness, tidy, validate
from statefulspark_operator.engine.memory import LONGEST_POLL, Idle, JobMemory
from statefulspark_operator.engine.observe import Observation
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import decide, health
from statefulspark_operator.lifecycle.decision import AT_ONCE, Decision, Reason
from statefulspark_operator.lifecycle.rules import start
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject
from statefulspark_operator.lifecycle.situation import Situation
from statefulspark_operator.telemetry.metrics import JobMetrics

MOST_STEPS = 8
"""Steps that one pass records at most, so that rules which never come to rest do not write without a pause."""


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision, and what it was made from.

    Attributes:
        observation: The job, its pods, and what its drivers answered.
        situation: The facts.
        decision: The decision.
        savepoints_after: When the savepoint objects are looked at again; None if there was nothing to do about them.
    """

    observation: Observation
    situation: Situation
    decision: Decision
    savepoints_after: timedelta | None


async def reconcile(ports: Ports, key: JobKey, gauges: JobMetrics | None = None) -> timedelta | None:
    """Bring one job closer to its spec.

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
    memory, gauges = ports.memories.get(key), gauges or JobMetrics()
    _wake(ports, ports.starts.call(ports.now()))
    try:
        after = await _from_cache(ports, key, memory, gauges)
        return after if after is not None else await _from_api_server(ports, key, memory, gauges)
    except errors.StatefulSparkError as error:
        memory.resync_at, memory.idle = ports.now(), None
        # A failed action is in the status already.
        if isinstance(error, errors.StateUnknownError) and not memory.has_failed:
            await record.record_unreadable(ports, key, error)
        raise


async def _from_cache(ports: Ports, key: JobKey, memory: JobMemory, gauges: JobMetrics) -> timedelta | None:
    """Make a pass that only reports; None if there is more to do, or the cache must not be used."""
    resource, now = ports.cache.get(resources.JOB, key.namespace, key.name), ports.now()
    if resource is None or resources.text(resource, "metadata", "deletionTimestamp"):
        return None
    if now >= (memory.resync_at or memory.schedule_resync(key, now)):  # The first pass follows the watches' lists.
        return None
    observation = await observe.observe(ports, resource, ports.cache.pods(key))
    gauges.hear(key, observation.answer)
    listed = await savepoints.list_objects(ports, key.namespace)
    await validate.check_code(ports, key, observation)
    if memory.idle is not None and memory.idle.holds(_fingerprint(ports, key, observation), now):
        return _next_poll(memory, memory.idle, observation)
    memory.idle = None
    if not observation.live and ports.starts.due_at(key, now) is None:
        return None  # A start follows, or something else that storage tells, which is read once.
    decided = await _decide(ports, key, observation, listed)
    if not staleness.only_reports(decided.situation, decided.decision):
        return None
    return await _carry_out(ports, key, decided, gauges)


async def _from_api_server(ports: Ports, key: JobKey, memory: JobMemory, gauges: JobMetrics) -> timedelta | None:
    """Read the job and its pods into the cache, and record step after step until there is something to do or to wait for."""
    await observe.sync(ports, key)
    memory.schedule_resync(key, ports.now())
    if memory.code is not None and not memory.code.is_final:
        memory.code = None
    listed = await savepoints.list_objects(ports, key.namespace)
    for _ in range(MOST_STEPS):
        resource = ports.cache.get(resources.JOB, key.namespace, key.name)
        if resource is None:
            gauges.remove(key)
            _wake(ports, ports.rollouts.forget(key))
            ports.starts.leave(key)
            ports.memories.forget(key)
            access.forget(ports, key)
            ports.follow_code(key, None)
            after = await savepoints.reconcile_without_job(ports, key, listed)
            ports.storage.forget(key)
            return after
        observation = await observe.observe(ports, resource, ports.cache.pods(key))
        gauges.hear(key, observation.answer)
        decided = await _decide(ports, key, observation, listed)
        after = await _carry_out(ports, key, decided, gauges)
        if decided.decision.actions:
            return after
        if not staleness.records_a_step(decided.situation, decided.decision):
            await tidy.remove_objects(ports, key, decided.situation, decided.decision.status)
            await tidy.prune_storage(ports, key, decided.situation, decided.decision.status)
            return after
        listed = await savepoints.list_objects(ports, key.namespace)
    return AT_ONCE


async def _decide(
    ports: Ports, key: JobKey, observation: Observation, listed: tuple[SavepointObject, ...] | None
) -> _Decided:
    """Reconcile the job's savepoint objects, and decide."""
    checked = await validate.check_code(ports, key, observation)
    accepted = await validate.validate(ports, observation.resource, observation.status, checked)
    situation = savepoints.add_objects(ports, await observe.gather_facts(ports, observation, accepted), listed)
    savepoints_after = await savepoints.reconcile(ports, key, situation) if listed is not None else None
    situation, decision = _take_turn(ports, key, situation)
    image = resources.text(observation.resource, "spec", "image")
    _wake(ports, ports.rollouts.note(key, image, decision.status, situation.queued))
    return _Decided(observation, situation, decision, savepoints_after)


def _take_turn(ports: Ports, key: JobKey, situation: Situation) -> tuple[Situation, Decision]:
    """Decide, and let a start begin only if not too many others do. Nothing else that a decision does waits for its turn."""
    decision = decide.decide(situation)
    if not decision.creates_a_driver:
        if decision.reason is not Reason.START_QUEUED:
            ports.starts.leave(key)
        return situation, decision
    if not ports.starts.is_complete:
        ports.starts.recall(_decided_starts(ports))
    start_at = ports.starts.ask(key, situation.now, is_lost=start.was_lost(situation))
    if start_at is None:
        return situation, decision
    queued = dataclasses.replace(situation, start_at=start_at)
    return queued, decide.decide(queued)


def _decided_starts(ports: Ports) -> Iterator[datetime]:
    """Yield when the latest driver of each job was started, unless it was a standby before."""
    for key in ports.cache.jobs():
        driver = observe.read_status(ports.cache.get(resources.JOB, key.namespace, key.name) or {}).driver
        if driver is not None and not names.standby_number(key.name, driver.pod):
            yield driver.decided_at


def _wake(ports: Ports, keys: Iterable[JobKey]) -> None:
    """Have jobs looked at again that wait for others, which no fact of their own tells."""
    for key in keys:
        ports.memories.get(key).idle = None
        ports.wake(key)


async def _carry_out(ports: Ports, key: JobKey, decided: _Decided, gauges: JobMetrics) -> timedelta:
    """Record, perform and report a decision; return the delay until the next pass."""
    resource, situation, decision = decided.observation.resource, decided.situation, decided.decision
    memory = ports.memories.get(key)
    # What a failure has said stands until the same step succeeds, instead of being taken back by each attempt.
    is_retry = memory.has_failed and bool(decision.actions) and not staleness.records_a_step(situation, decision)
    recorded = resource
    if not is_retry:
        version = await record.record(ports, key, resource, decision.status)
        metadata = {**resources.section(resource, "metadata"), "resourceVersion": version}
        recorded = {**resource, "metadata": metadata, "status": record.as_json(decision.status)}
    current = perform.Pass(ports, key, resource, situation, cache.version_of(recorded))
    try:
        await perform.perform(current, decision.actions)
        memory.has_failed = False
        gauges.update(key, decision.status)
        await record.record(ports, key, recorded, decision.status)
    except errors.PreconditionFailedError:
        memory.has_failed = False  # A conflict is no failure: the next pass decides again.
        raise
    except errors.StatefulSparkError as error:
        memory.has_failed, memory.tried = True, None
        failed = record.failed_status(situation, decision, error)
        gauges.update(key, failed)
        await record.record(ports, key, recorded, failed)
        await record.tell(ports, key, situation.job, record.refusal(situation, decision, error))
        raise
    finally:
        await record.report(ports, key, situation, decision)
    return _after(ports, key, decided)


def _after(ports: Ports, key: JobKey, decided: _Decided) -> timedelta:
    """Return the delay until the next pass, and note whether this one had nothing to do."""
    situation, decision, memory = decided.situation, decided.decision, ports.memories.get(key)
    # The operator's own patch wakes nobody; a new pod's events do, and before them it has nothing to tell.
    if staleness.records_a_step(situation, decision) and not decision.creates_a_driver:
        return AT_ONCE
    if decided.savepoints_after is not None:
        return min(decision.requeue_after, decided.savepoints_after)
    if memory.resync_at is None or not staleness.is_idle(situation, decision, until=memory.resync_at):
        return decision.requeue_after
    fingerprint = _fingerprint(ports, key, decided.observation)
    polls = memory.idle.polls if memory.idle is not None and memory.idle.fingerprint == fingerprint else 0
    # A batch that hangs has to be seen for the first time in good time.
    longest = min(LONGEST_POLL, health.settings(situation).unavailable_after / 2)
    memory.idle = Idle(fingerprint, memory.resync_at, longest, polls)
    return _next_poll(memory, memory.idle, decided.observation)


def _next_poll(memory: JobMemory, idle: Idle, observation: Observation) -> timedelta:
    """Return when to look again: a driver has to be asked, and a job without one is woken by events."""
    if observation.live:
        return idle.next_poll(observation.now)
    is_watched = memory.code is None or memory.code.is_watched
    return idle.until - observation.now if is_watched else min(idle.until - observation.now, LONGEST_POLL)


def _fingerprint(ports: Ports, key: JobKey, observation: Observation) -> tuple[str, ...]:
    """Return the facts of a pass that can change without one: versions of objects, the code, the drivers' answers."""
    objects = [f"{cache.uid_of(item)} {cache.version_of(item)}" for item in (observation.resource, *observation.pods)]
    own = [f"{item.uid} {item.resource_version}" for item in savepoints.list_own(ports, key.namespace, key.name)]
    checked = ports.memories.get(key).code
    answers = [
        answer.to_json() if isinstance(answer, JobStatus) else repr(answer)
        for answer in (observation.driver.status, observation.standby)
    ]
    return (*sorted([*objects, *own]), str(checked.outcome) if checked is not None else "", *answers)
