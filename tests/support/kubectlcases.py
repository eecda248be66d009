"""Jobs in all states that the pages of `kubectl statefulspark` are written for."""

from __future__ import annotations

from datetime import timedelta

from kubectlworld import (
    GOOD,
    NEW_REVISION,
    NOW,
    OLD_REVISION,
    SAVEPOINT,
    SPEC,
    a_condition,
    a_recorded_driver,
    a_snapshot,
    a_stored_pod,
    a_stored_status,
    a_view,
    a_waiting_pod,
    an_ended_pod,
    an_event,
    before,
    not_ready,
)
from statefulspark.contract.faults import Fault
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.status import (
    DriverState,
    Phase,
    RestartStatus,
    RestoreIntent,
    StallStatus,
    StandbyState,
    StandbyStatus,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.kubectl.view import View

FAILURE = "The query 'counts' failed at /app/job.py:17 in bad: RuntimeError: this key is bad: 2."
MISSING = "generations/ is missing below s3://state/jobs/demo/flights; somebody has deleted it. Put it back."
REFUSAL = "State of uid 'by-k' has no place in the job; give the uid back, or add it to restore.dropState."
UPGRADE = UpgradeStatus(
    from_revision=OLD_REVISION,
    to_revision=NEW_REVISION,
    generation=4,
    state=UpgradeState.STABLE,
    requested_at=before(hours=3, minutes=13),
    pause=timedelta(seconds=2.4),
    savepoint=SAVEPOINT,
)


def _upgrade(state: UpgradeState, message: str) -> UpgradeStatus:
    changes = {"state": state, "message": message, "requested_at": before(minutes=4), "pause": None}
    return UPGRADE.model_copy(update=changes)


def _ended(reason: str, message: str, **changes: object) -> object:
    end = {"state": DriverState.ENDED, "ended_at": before(minutes=2), "end_reason": reason, "end_message": message}
    return a_recorded_driver(**end, **changes)


_STALL = StallStatus(generation=4, reason="JobFileRaised", message=FAILURE)

CASES: dict[str, View] = {
    "running": a_view(a_stored_status(upgrade=UPGRADE), pods=(a_stored_pod(),)),
    "running-with-standby": a_view(
        a_stored_status(
            standby=StandbyStatus(
                number=3,
                pod="flights-standby-3",
                revision=NEW_REVISION,
                state=StandbyState.READY,
                since=before(minutes=50),
            ),
            last_savepoint=None,
            other_spark="Savepoint 43 was written by PySpark 4.2.0, and PySpark 4.3.0 is installed.",
        ),
        spec={**SPEC, "deletionPolicy": "Delete"},
        pods=(a_stored_pod(),),
    ),
    "standby-waits": a_view(
        a_stored_status(
            standby=StandbyStatus(
                number=4,
                pod="flights-standby-4",
                revision=NEW_REVISION,
                state=StandbyState.CREATING,
                since=before(minutes=3),
                reason="Unschedulable",
                message="No node has room for flights-standby-4: 0/3 nodes are available.",
                fault=Fault.SURROUNDINGS,
            ),
        ),
        pods=(a_stored_pod(),),
    ),
    "checkpoints-fail": a_view(
        a_stored_status(
            conditions=(
                *GOOD,
                a_condition(
                    ConditionType.CHECKPOINT_HEALTHY,
                    ConditionStatus.FALSE,
                    "Declined",
                    "Sink 'out' could not prepare: the broker does not answer.",
                    minutes=9,
                ),
            ),
            last_checkpoint=a_snapshot(51, completed_at=before(minutes=9)),
        ),
        pods=(a_stored_pod(),),
    ),
    "unscheduled": a_view(
        a_stored_status(
            phase=Phase.STARTING,
            message="flights-driver-7 cannot be scheduled: 0/3 nodes are available: 3 Insufficient memory.",
            conditions=not_ready(
                "Unschedulable",
                "flights-driver-7 cannot be scheduled: 0/3 nodes are available: 3 Insufficient memory.",
                minutes=3,
            ),
            driver=a_recorded_driver(decided_at=before(minutes=3)),
            queries=(),
        ),
        pods=(a_stored_pod(phase="Pending"),),
    ),
    "volume-missing": a_view(
        a_stored_status(
            phase=Phase.STARTING,
            message="flights-driver-7: not answering yet.",
            conditions=not_ready("DriverStarting", "flights-driver-7: not answering yet.", minutes=3),
            driver=a_recorded_driver(decided_at=before(minutes=3)),
            queries=(),
            last_checkpoint=None,
            last_savepoint=None,
            restored_from=None,
        ),
        pods=(a_waiting_pod("ContainerCreating"),),
        events=(
            an_event(
                "FailedMount",
                'MountVolume.SetUp failed for volume "ca": configmap "ca" not found',
                before(seconds=40),
                about="flights-driver-7",
                kind="Warning",
            ),
            an_event("DriverStarting", "Starting epoch 7 of revision 1 from empty state.", before(minutes=3)),
        ),
    ),
    "backing-off": a_view(
        a_stored_status(
            phase=Phase.RESTARTING,
            message=f"{FAILURE} Starting again at 12:01:20 UTC.",
            conditions=not_ready("BackingOff", f"{FAILURE} Starting again at 12:01:20 UTC.", minutes=2),
            driver=_ended("QueryFailed", FAILURE),
            restarts=RestartStatus(
                count=9,
                consecutive=4,
                next_attempt_at=NOW,
                last_fault=Fault.REVISION,
                last_reason="QueryFailed",
                last_message=FAILURE,
                last_failure_at=before(minutes=2),
            ),
            queries=(),
        ),
        pods=(an_ended_pod(7, 1),),
        events=(an_event("QueryFailed", f"Epoch 7: {FAILURE}", before(minutes=2), kind="Warning"),),
    ),
    "stalled": a_view(
        a_stored_status(
            phase=Phase.STALLED,
            message=FAILURE,
            conditions=(
                *not_ready("Stalled", FAILURE, minutes=2),
                a_condition(ConditionType.STALLED, ConditionStatus.TRUE, "JobFileRaised", FAILURE, minutes=2),
            ),
            driver=_ended("JobFileRaised", FAILURE),
            stalled=_STALL,
            queries=(),
        ),
        pods=(an_ended_pod(7, 13),),
    ),
    "state-unreadable": a_view(
        a_stored_status(
            phase=Phase.STALLED,
            message=MISSING,
            conditions=not_ready("Stalled", MISSING, minutes=2),
            driver=_ended("StateMissing", MISSING, exit_code=17),
            stalled=StallStatus(generation=4, reason="StateMissing", message=MISSING),
            queries=(),
        ),
        pods=(an_ended_pod(7, 17),),
    ),
    "blocked": a_view(
        a_stored_status(
            message=REFUSAL,
            revision=OLD_REVISION,
            driver=a_recorded_driver(revision=OLD_REVISION),
            conditions=(
                *not_ready("UpgradeBlocked", REFUSAL, minutes=4),
                a_condition(ConditionType.STALLED, ConditionStatus.TRUE, "UpgradeBlocked", REFUSAL, minutes=4),
                a_condition(
                    ConditionType.UPGRADE_BLOCKED, ConditionStatus.TRUE, "NonRestoredState", REFUSAL, minutes=4
                ),
            ),
            upgrade=_upgrade(UpgradeState.BLOCKED, REFUSAL),
        ),
        pods=(a_stored_pod(),),
    ),
    "storage-away": a_view(
        a_stored_status(
            phase=Phase.RESTARTING,
            message="The operator starts no driver, because the content of storage is unknown: s3.example does not answer.",
            conditions=(
                *not_ready(
                    "StorageUnreadable",
                    "The operator starts no driver, because the content of storage is unknown: s3.example does not answer.",
                    minutes=6,
                ),
                a_condition(
                    ConditionType.STORAGE_REACHABLE,
                    ConditionStatus.FALSE,
                    "StorageUnreachable",
                    "s3.example does not answer.",
                    minutes=6,
                ),
            ),
            driver=_ended("StorageUnreachable", "s3.example does not answer."),
            queries=(),
        ),
    ),
    "suspended": a_view(
        a_stored_status(
            phase=Phase.SUSPENDED,
            message="Suspended; the state is kept. Set spec.suspend to false to continue.",
            conditions=(a_condition(ConditionType.READY, ConditionStatus.TRUE, "Suspended", "", hours=20),),
            driver=_ended("DriverStopped", "The driver stopped as requested."),
            restore=RestoreIntent(id="x", source=RestoreSource(uri=SAVEPOINT)),
            queries=(),
        ),
        spec={**SPEC, "suspend": True},
    ),
    "nobody-looks": a_view(StatefulSparkJobStatus(), creationTimestamp="2026-01-01T11:57:00Z", generation=1),
    "change-unseen": a_view(pods=(a_stored_pod(),), generation=5),
    "deleting": a_view(
        a_stored_status(
            phase=Phase.DELETING,
            message="flights-driver-7 finishes its batch.",
            conditions=not_ready("DeletionStopping", "flights-driver-7 finishes its batch.", seconds=20),
        ),
        pods=(a_stored_pod(),),
        deletionTimestamp="2026-01-01T11:59:40Z",
    ),
    "without-rights": a_view(
        unread=(
            "ann has no right to list pods in namespace demo. To grant it, bind this role: kubectl -n demo create role "
            "statefulspark-user --verb=list --resource=pods",
        )
    ),
}
