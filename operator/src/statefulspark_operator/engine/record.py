"""Writes the decision's status before any action: facts and intent, in one patch, and only if it differs.

The patch carries the version of the resource that the decision was made from. If the resource has changed since then,
nothing is written and no action is performed: the next pass decides from the new state.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime

from statefulspark import errors
from statefulspark.contract.faults import Fault

from statefulspark_operator.api.status import (
    DriverState,
    Phase,
    StandbyState,
    StandbyStatus,
    StatefulSparkJobStatus,
)
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.gateway import EventNote, JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import observe
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import actions, announcements, conditions, fault, pruning, upgrade_facts
from statefulspark_operator.lifecycle.announcements import Announcement
from statefulspark_operator.lifecycle.decision import Decision, Reason
from statefulspark_operator.lifecycle.situation import Job, Situation


def as_json(status: StatefulSparkJobStatus) -> Resource:
    """Return a status in its stored form."""
    decoded: Resource = json.loads(status.to_json())
    return decoded


async def record(ports: Ports, key: JobKey, resource: Resource, status: StatefulSparkJobStatus) -> str:
    """Store a status if it differs from the stored one.

    Args:
        ports: The ports.
        key: The job.
        resource: The resource that the decision was made from.
        status: The status to store.

    Returns:
        The version of the resource afterwards.

    Raises:
        PreconditionFailedError: The resource has changed since it was read.
        TransientError: `NotLeading`: this operator leads no longer.
    """
    version = resources.text(resource, "metadata", "resourceVersion")
    patch = resources.merge_patch(resources.section(resource, "status"), as_json(status))
    if not patch:
        return version
    ports.require_leadership()
    return await ports.gateway.patch_status(key, patch, resource_version=version)


_LOG = logging.getLogger("statefulspark.reconcile")


async def report(ports: Ports, key: JobKey, situation: Situation, decision: Decision) -> None:
    """Post one event per transition, and write one log line.

    An event that cannot be posted is logged and dropped: it must not delay the job.
    """
    transitions = announcements.announcements(situation.status, decision.status)
    if decision.reason is Reason.DELETION_STATE_KEPT:
        transitions = (*transitions, pruning.kept(decision.message))
    level = logging.INFO if transitions or decision.actions else logging.DEBUG
    _LOG.log(
        level,
        "reconciled",
        extra={
            "job": str(key),
            "generation": situation.job.generation,
            "epoch": decision.status.epoch,
            "phase": decision.phase.value,
            "reason": decision.reason.word,
            "detail": decision.message,
            "actions": [type(act).__name__ for act in decision.actions],
        },
    )
    await tell(ports, key, situation.job, transitions)


async def tell(ports: Ports, key: JobKey, job: Job, notes: tuple[Announcement, ...]) -> None:
    """Post events about a job; one that cannot be posted is logged and dropped."""
    for note in notes:
        try:
            message = fault.add_to(note.message, note.whose)
            await ports.gateway.post_event(key, job.uid, EventNote(note.reason, message, note.is_warning))
        except errors.StatefulSparkError as error:
            _LOG.warning("event not posted", extra={"job": str(key), "reason": note.reason, "error": str(error)})


def failed_status(situation: Situation, decision: Decision, error: errors.StatefulSparkError) -> StatefulSparkJobStatus:
    """Return the status after an action failed.

    Args:
        situation: The situation that the decision was made from.
        decision: The decision whose actions failed.
        error: The failure.

    Returns:
        The recorded status with the failure in message and Ready, and in Stalled if only a person can help. What a change
        of the spec alone can help is not tried again before that.
    """
    status, standby = decision.status, decision.status.standby
    is_of_standby = any(isinstance(act, actions.CreateStandby) for act in decision.actions)
    is_final = not is_of_standby and fault.needs_person(error)
    changes: dict[str, object] = {}
    if is_of_standby and standby is not None:
        changes["standby"] = _without_standby(situation, standby, error)
    if standby is None or not is_of_standby or not upgrade_facts.is_of_the_running_revision(situation, standby):
        changes |= _failed_answers(situation.status, status, situation.job, error, is_final=is_final, now=situation.now)
    if is_final and situation.live_pod is None and decision.phase is not Phase.DELETING:
        changes["phase"] = Phase.STALLED
    if not is_of_standby and isinstance(error, errors.SpecRejectedError):
        changes |= {"stalled": situation.stalled(error.reason, error.message), "phase": Phase.STALLED}
        if status.driver is not None and status.driver.state is DriverState.CREATING:
            ended = {"state": DriverState.ENDED, "ended_at": situation.now, "end_reason": error.reason}
            changes["driver"] = status.driver.model_copy(update={**ended, "end_message": error.message})
    return status.model_copy(update=changes)


def _failed_answers(
    before: StatefulSparkJobStatus,
    status: StatefulSparkJobStatus,
    job: Job,
    error: errors.StatefulSparkError,
    *,
    is_final: bool,
    now: datetime,
) -> dict[str, object]:
    """Return what people and tools read in a status after a request to the API server failed."""
    answers = conditions.after_failure(before, status, error, is_final=is_final, now=now, generation=job.generation)
    since = conditions.reason_since(before, answers, now=now)
    return {"message": error.message, "conditions": answers, "reason_since": since}


async def record_unreadable(ports: Ports, key: JobKey, error: errors.StateUnknownError) -> None:
    """Store that the API server refuses to tell what a job has, and post its event once.

    Nothing is decided about such a job. The next pass that reads all facts takes it back.
    """
    resource = ports.cache.get(resources.JOB, key.namespace, key.name)
    if resource is None:
        return
    job, before = observe.read_metadata(resource), observe.read_status(resource)
    is_final = fault.needs_person(error)
    changes = _failed_answers(before, before, job, error, is_final=is_final, now=ports.now())
    await record(ports, key, resource, before.model_copy(update=changes))
    await tell(ports, key, job, announcements.of_refusal(before, before, error, of_standby=False))


def refusal(situation: Situation, decision: Decision, error: errors.StatefulSparkError) -> tuple[Announcement, ...]:
    """Return the event about a failed action, if a person may have to act. Each cause has one event."""
    of_standby = any(isinstance(act, actions.CreateStandby) for act in decision.actions)
    return announcements.of_refusal(situation.status, decision.status, error, of_standby=of_standby)


def _without_standby(situation: Situation, standby: StandbyStatus, error: errors.StatefulSparkError) -> StandbyStatus:
    """Return the record of a standby that could not be created.

    One that the API server refuses because of the revision is refused. One for which a right or a quota is missing is tried
    again after a delay, so that the job's own passes succeed. All others are tried again in the next pass.
    """
    whose = fault.of_refusal(error)
    if whose is Fault.REVISION:
        return upgrade_facts.reached(
            situation, standby, StandbyState.REFUSED, reason=error.reason, message=error.message, whose=whose
        )
    if not isinstance(error, errors.StateUnknownError):
        return standby
    return upgrade_facts.ended(situation, standby, error.reason, error.message, whose)
