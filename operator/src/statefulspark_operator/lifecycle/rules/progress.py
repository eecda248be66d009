"""A driver that exists as requested: why it does not run yet, its progress, or that it makes none.

A problem that prevents the start of a pod is reported at once and not after a timeout, because the person who can solve it
is usually watching.
"""

from __future__ import annotations

from collections.abc import Sequence

from statefulspark.contract.api import JobState, JobStatus

from statefulspark_operator.api import pod_metadata
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.lifecycle import actions, code, executors, health, steps
from statefulspark_operator.lifecycle.decision import SOON, STEADY, Decision, Reason
from statefulspark_operator.lifecycle.rules import upgrade as upgrades
from statefulspark_operator.lifecycle.situation import (
    HARMLESS_WAITS,
    DriverPod,
    DriverSilent,
    ExecutorPod,
    PodPhase,
    Situation,
)

KEPT_PODS = 2
"""Number of pods of ended drivers that are kept for their logs."""
DESCRIBED_AT_ONCE = 50
"""Number of pods of a kind that get other labels in one pass; the next pass follows when the API server shows them."""


def _phase(situation: Situation) -> Phase:
    upgrade = situation.status.upgrade
    upgrading = upgrade is not None and upgrade.state in steps.STARTED
    return Phase.UPGRADING if upgrading else Phase.STARTING


def restart_stalled(situation: Situation, pod: DriverPod) -> Decision | None:
    """Has a batch been running, or the driver been silent, for too long?

    After `spec.health.restartAfter` its pod is deleted, and the next driver goes on. Nothing is lost: what it has not
    committed is read again.
    """
    driver, cause = situation.intent, health.obstacle(situation)
    if driver is None or cause is None or pod.deletion_deadline is not None:
        return None
    if health.is_untrusted(situation):
        return None  # Another process would have the same certificate.
    if not health.has_lasted(situation, cause, health.settings(situation).restart_after):
        return None
    message = f"{cause.message} The operator deletes {pod.name}; the next driver continues from the newest state."
    act = actions.DeleteDriver(pod.name, pod.uid, health.HUNG_GRACE_S)
    status = situation.status
    if driver.ending_since is None:
        counted = status.restarts.model_copy(
            update={
                "count": status.restarts.count + 1,
                "last_reason": cause.reason,
                "last_message": message,
                "last_failure_at": situation.now,
                "last_fault": None,  # What holds a batch up may be the job's code or a sink.
            }
        )
        ending = driver.model_copy(update={"ending_since": situation.now})
        status = status.model_copy(update={"restarts": counted, "driver": ending})
    return Decision(Reason.STALL_ENDED, message, Phase.RESTARTING, status, (act,), SOON)


def await_end(situation: Situation, pod: DriverPod) -> Decision | None:
    """Is the driver's pod being deleted, or that of an earlier driver?"""
    if situation.is_activation and pod.deletion_deadline is None:
        return None  # A standby that took over does not wait for the driver that it has fenced.
    ending = next((other for other in situation.live_pods if other.deletion_deadline is not None), None)
    if ending is None:
        return None
    message = f"Waiting for {ending.name} to finish its batch and end."
    return Decision(Reason.DRIVER_ENDING, message, Phase.RESTARTING, situation.status, (), SOON)


def show_waiting(situation: Situation, pod: DriverPod) -> Decision | None:
    """Does the driver's container fail to start?"""
    if pod.waiting is None or pod.waiting.reason in HARMLESS_WAITS:
        return None
    is_image = "Image" in pod.waiting.reason
    reason = Reason.IMAGE_UNAVAILABLE if is_image else Reason.CONTAINER_WAITING
    message = f"{pod.name} cannot start ({pod.waiting.reason}): {pod.waiting.message or 'no message'}"
    return Decision(reason, message, _phase(situation), situation.status, (), STEADY)


def show_unschedulable(situation: Situation, pod: DriverPod) -> Decision | None:
    """Does no node have room for the driver?"""
    if pod.unschedulable is None:
        return None
    message = f"{pod.name} cannot be scheduled: {pod.unschedulable}"
    return Decision(Reason.UNSCHEDULABLE, message, _phase(situation), situation.status, (), STEADY)


def show_untrusted(situation: Situation, pod: DriverPod) -> Decision | None:
    """Can it not be verified that what answers is the driver, before the job has run?

    A job that ran goes on: it is not ready after `spec.health.unavailableAfter`, since authorities are renewed meanwhile.
    """
    answer = situation.driver
    if not isinstance(answer, DriverSilent) or not answer.is_untrusted:
        return None
    if situation.status.phase is Phase.RUNNING:
        return None
    message = f"{pod.name}: {answer.message}."
    return Decision(Reason.DRIVER_NOT_TRUSTED, message, _phase(situation), situation.status, (), STEADY)


def await_start(situation: Situation, pod: DriverPod) -> Decision | None:
    """Does the driver not run all queries yet?"""
    driver_status = situation.driver_status
    if driver_status is not None and driver_status.state is JobState.RUNNING:
        # A driver that has input waits for its first batch; afterwards the job runs, whatever its batches do.
        first = health.first_batch(situation)
        if first is None or situation.status.phase is Phase.RUNNING:
            return None
        shortage = executors.shortage(situation.status.executors)
        message = f"{first.message} {shortage}" if shortage is not None else first.message
        return Decision(Reason.DRIVER_STARTING, message, _phase(situation), situation.status, (), SOON)
    if driver_status is None and pod.is_ready:
        return None
    if driver_status is not None:
        state = driver_status.message or driver_status.state.value
    else:
        state = situation.driver.message if isinstance(situation.driver, DriverSilent) else "not answering yet"
    message = f"{pod.name}: {state.rstrip('.')}."
    shortage = executors.shortage(situation.status.executors) if executors.is_short(situation) else None
    message = f"{message} {shortage}" if shortage is not None else message
    return Decision(Reason.DRIVER_STARTING, message, _phase(situation), situation.status, (), SOON)


def run(situation: Situation) -> Decision:
    """Return the decision if no other rule applies: the job runs."""
    over = [pod for pod in situation.pods if pod.is_over and pod.deletion_deadline is None]
    over.sort(key=lambda pod: pod.epoch)
    acts = tuple(actions.ForgetDriver(pod.name, pod.uid, pod.epoch) for pod in over[:-KEPT_PODS])
    if upgrades.is_aborted(situation):
        upgrade = situation.status.upgrade
        why = upgrade.message if upgrade is not None else None
        message = f"The change of the spec was aborted; the old revision keeps running. {why or ''}".strip()
        return Decision(Reason.UPGRADE_ABORTED, message, Phase.RUNNING, situation.status, acts, STEADY)
    withheld = steps.withheld_by(situation.status, situation.withheld or "")
    if withheld is not None:
        reason = Reason.ROLLED_BACK if withheld.state is UpgradeState.ROLLED_BACK else Reason.UPGRADE_BLOCKED
        return Decision(reason, withheld.message or reason.value, Phase.RUNNING, situation.status, acts, STEADY)
    queued = situation.queued
    if queued is not None:
        return Decision(queued.reason, queued.message, Phase.RUNNING, situation.status, acts, STEADY)
    origin = situation.status.restored_from
    started = f"Running; the driver started from {origin or 'empty state'}."
    for note in (situation.status.fallback, situation.status.kept_aside):
        started = f"{started} {note}" if note is not None else started
    if situation.status.last_checkpoint is None:
        started = f"{started} No checkpoint has completed yet."
    ignored = code.ignored_sentence(situation)
    reason = Reason.CODE_IGNORED if ignored else Reason.RUNNING
    return Decision(reason, f"{ignored} {started}".strip(), Phase.RUNNING, situation.status, acts, STEADY)


def configure_driver(situation: Situation, decision: Decision) -> tuple[actions.ConfigureDriver, ...]:
    """Is `spec.checkpoint` another than what the running driver says? A decision that already does something comes first."""
    spec, driver, pod = situation.spec, situation.driver, situation.live_pod
    if spec is None or pod is None or decision.actions or not isinstance(driver, JobStatus):
        return ()
    if driver.checkpoint_config is None or driver.epoch != pod.epoch or driver.state is not JobState.RUNNING:
        return ()
    requested = spec.checkpoint.config()
    return () if driver.checkpoint_config == requested else (actions.ConfigureDriver(pod.epoch, requested),)


def describe_pods(situation: Situation, decision: Decision) -> tuple[actions.DescribePods, ...]:
    """Do pods of this revision have other labels or annotations than their templates say now?

    A decision that already does something comes first. New pods have theirs from the start.
    """
    spec, is_deleted = situation.spec, situation.job.deletion_requested_at is not None
    if spec is None or decision.actions or situation.rejection is not None or is_deleted:
        return ()
    owners = [
        pod
        for pod in (situation.live_pod, situation.standby_pod)
        if pod is not None and pod.revision == situation.desired_revision
    ]
    drivers = [pod for pod in owners if pod.is_live(situation.now) and pod.deletion_deadline is None]
    uids = {pod.uid for pod in drivers}
    workers = [
        pod
        for pod in situation.executors
        if pod.owner_uid in uids and not pod.is_leaving and pod.phase in (PodPhase.PENDING, PodPhase.RUNNING)
    ]
    of_drivers, of_executors = pod_metadata.of_drivers(spec), pod_metadata.of_executors(spec)
    acts = (
        actions.DescribePods(_described_otherwise(drivers, of_drivers.record), of_drivers),
        actions.DescribePods(_described_otherwise(workers, of_executors.record), of_executors, are_executors=True),
    )
    return tuple(act for act in acts if act.pods)


def _described_otherwise(pods: Sequence[DriverPod | ExecutorPod], record: str) -> tuple[actions.PodReference, ...]:
    outdated = [pod for pod in pods if pod.described != record]
    return tuple(actions.PodReference(pod.name, pod.uid) for pod in outdated[:DESCRIBED_AT_ONCE])
