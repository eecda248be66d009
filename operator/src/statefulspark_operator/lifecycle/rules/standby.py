"""The standby driver: created when it is wanted, removed when it is not, and told to take over until it has heard it.

A standby owns no epoch and changes nothing, so that creating and deleting it never affects the job.
"""

from __future__ import annotations

from datetime import timedelta

from statefulspark.contract.api import JobState, JobStatus
from statefulspark.contract.api import StandbyState as Preparation

from statefulspark_operator.api import names
from statefulspark_operator.api.standby import StandbyState, StandbyStatus
from statefulspark_operator.api.status import (
    DriverState,
    Phase,
)
from statefulspark_operator.lifecycle import actions
from statefulspark_operator.lifecycle.decision import AT_ONCE, SOON, STEADY, Decision
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.rules import upgrade as upgrades
from statefulspark_operator.lifecycle.situation import DriverPod, Situation

SETTLES_WITHIN = timedelta(seconds=60)
"""Time after which a driver without a batch is taken to have nothing to do."""


def wanted_revision(situation: Situation) -> str | None:
    """Return the revision of which a standby may exist; None if there is to be none."""
    spec, driver = situation.spec, situation.intent
    if spec is None or spec.suspend or driver is None or situation.status.stalled is not None:
        return None
    if driver.state is DriverState.ENDED and driver.exit_code == 0:
        return None
    if situation.pending_restore is not None:
        return None
    is_hot = spec.driver.standby and driver.revision == situation.desired_revision
    return situation.desired_revision if is_hot or upgrades.is_warm(situation) else None


def new_standby(situation: Situation) -> tuple[StandbyStatus, tuple[actions.Action, ...]]:
    """Return the record of the next standby of the spec's revision, and the actions that create it.

    Args:
        situation: The job; it has a spec.
    """
    name, before = situation.job.name, situation.status.standby
    numbers = (names.standby_number(name, pod.name) for pod in (*situation.standbys, *situation.pods))
    number = max(situation.status.standby_count, before.number if before is not None else 0, *numbers, 0) + 1
    revision = situation.desired_revision or ""
    record = StandbyStatus(
        number=number,
        pod=names.standby_pod(name, number),
        revision=revision,
        state=StandbyState.CREATING,
        since=situation.now,
        failures=before.failures if before is not None and before.revision == revision else 0,
    )
    return record, _creation(situation, record)


def _creation(situation: Situation, record: StandbyStatus) -> tuple[actions.Action, ...]:
    executors = situation.spec is not None and situation.spec.executor.instances > 0
    access: tuple[actions.Action, ...] = (actions.EnsureAccess(),) if executors else ()
    return (
        actions.EnsureRevision(record.revision),
        actions.EnsureToken(),
        *access,
        actions.CreateStandby(record.pod, record.revision),
    )


def is_due(situation: Situation) -> bool:
    """Tell whether a standby of the spec's revision is to be created now: there is none, and its delay is over."""
    record = situation.status.standby
    if record is None or record.revision != situation.desired_revision:
        return True
    return record.state is StandbyState.ENDED and (record.retry_at is None or situation.now >= record.retry_at)


def repeat_activation(situation: Situation) -> Decision | None:
    """Does the driver's process still stand by?"""
    driver, pod, answer = situation.intent, situation.live_pod, situation.driver
    if driver is None or pod is None or pod.deletion_deadline is not None or not isinstance(answer, JobStatus):
        return None
    if answer.state is not JobState.STANDBY or pod.name != driver.pod:
        return None  # A pod that got its epoch from somebody else is not the one that was chosen.
    phase = situation.status.phase or Phase.STARTING
    if answer.standby is not None and answer.standby.state is Preparation.REFUSED:
        message = f"{pod.name} refuses to take over: {answer.standby.message or answer.standby.reason}"
        act: actions.Action = actions.DeleteDriver(pod.name, pod.uid)
        return Decision(Reason.ACTIVATION_REFUSED, message, phase, situation.status, (act,), SOON)
    message = f"Asking {pod.name} to take over as epoch {driver.epoch}."
    act = actions.ActivateStandby(pod.name, pod.uid, driver.epoch, driver.revision, driver.restore)
    return Decision(Reason.ACTIVATION_REPEATED, message, phase, situation.status, (act,), SOON)


def remove_unwanted(situation: Situation) -> Decision | None:
    """Does a standby exist that nobody wants?"""
    revision, record = wanted_revision(situation), situation.status.standby
    is_kept = record is not None and (record.revision == revision or _explains_block(situation, record))
    standby = None if record is None or not is_kept else record
    unwanted = next((pod for pod in situation.standbys if _is_unwanted(situation, pod, revision)), None)
    if unwanted is None and standby == record:
        return None
    status = situation.status.model_copy(update={"standby": standby})
    acts = (actions.DeleteStandby(unwanted.name, unwanted.uid),) if unwanted is not None else ()
    message = (
        f"Removing {unwanted.name}, which is not needed any more." if unwanted is not None else "No standby needed."
    )
    phase = situation.status.phase or Phase.PENDING
    return Decision(Reason.STANDBY_REMOVED, message, phase, status, acts, AT_ONCE)


def _is_unwanted(situation: Situation, pod: DriverPod, wanted: str | None) -> bool:
    record, driver = situation.status.standby, situation.intent
    if pod.deletion_deadline is not None:
        return False
    if driver is not None and driver.state is DriverState.CREATING and driver.pod == pod.name:
        return False
    return record is None or record.pod != pod.name or record.revision != wanted


def _explains_block(situation: Situation, record: StandbyStatus) -> bool:
    """Tell whether a record without a pod is kept, because it says why the spec is not carried out."""
    return record.state is StandbyState.REFUSED and record.revision == situation.withheld


def resume_creation(situation: Situation) -> Decision | None:
    """Was a standby recorded whose pod does not exist?"""
    record = situation.status.standby
    if record is None or record.state is not StandbyState.CREATING or situation.standby_pod is not None:
        return None
    if record.uid is not None or record.revision != wanted_revision(situation) or situation.live_pod is None:
        return None
    message = f"Creating {record.pod}."
    acts = _creation(situation, record)
    phase = situation.status.phase or Phase.RUNNING
    return Decision(Reason.STANDBY_CREATED, message, phase, situation.status, acts, SOON)


def keep(situation: Situation) -> Decision | None:
    """Does a running job lack the standby that the spec requests?"""
    spec, pod = situation.spec, situation.live_pod
    if spec is None or pod is None or not spec.driver.standby or situation.is_outdated or not is_due(situation):
        return None
    if not _has_settled(situation):
        return None
    record, acts = new_standby(situation)
    status = situation.status.model_copy(update={"standby": record, "standby_count": record.number})
    message = f"Creating {record.pod}, which takes over when the driver ends."
    return Decision(Reason.STANDBY_CREATED, message, Phase.RUNNING, status, acts, STEADY)


def _has_settled(situation: Situation) -> bool:
    """Tell whether the driver is past its first batches, which the start of a second process beside it would slow down."""
    answer = situation.driver_status
    if answer is None or situation.now - answer.started_at > SETTLES_WITHIN:
        return True
    return all(query.input_rows for query in answer.queries)
