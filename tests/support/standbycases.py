"""A situation for every branch of the rules about standbys, warm upgrades and rollbacks, by concern and sentence."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from situations import (
    EMPTY,
    ENDED,
    FIRST,
    LATER,
    LONG_AGO,
    NOW,
    OTHER,
    REVISION,
    STANDBY_POD,
    a_driver,
    a_job,
    a_pod,
    a_situation,
    a_spec,
    a_standby,
    a_standby_pod,
    a_word,
    an_operation,
    an_upgrade,
    deleted,
    going,
    over,
    preparing,
    situation_with,
    standing_by,
    told,
    warm,
)
from statefulspark.contract.api import CheckpointCounts, ExitReport, JobState, QueryStatus, SnapshotSummary
from statefulspark.contract.api import StandbyState as Preparation
from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark_operator.api.restore import EmptyState, RestoreSource
from statefulspark_operator.api.status import (
    DriverState,
    OperationKind,
    OperationPhase,
    Phase,
    QueryProgress,
    RestartStatus,
    RestoreIntent,
    RevisionOutcome,
    SnapshotStatus,
    StallStatus,
    StandbyState,
    TrialStatus,
    UpgradeState,
)
from statefulspark_operator.lifecycle.situation import (
    ContainerExit,
    DriverSilent,
    PodPhase,
    Rejection,
    Situation,
    Waiting,
)
from statefulspark_operator.lifecycle.storage_facts import CheckpointFact, SavepointFact, StorageFacts

SECOND = timedelta(seconds=1)
SP = "s3://state/sp"
WITHOUT_SAVEPOINT = a_spec("i:2", upgrade={"strategy": "Warm", "stateFrom": "LatestCheckpoint"})
HOT = a_spec(driver={"standby": True})
STOPPED = an_operation(OperationPhase.COMPLETED, location=SP, requested_at=NOW, finished_at=NOW)
FOUND = StorageFacts(newest_epoch=1, savepoint=SavepointFact.FOUND)
MISSING = StorageFacts(newest_epoch=1, savepoint=SavepointFact.MISSING)
ACTIVATED = a_driver(DriverState.CREATING, epoch=2, revision=OTHER, pod=STANDBY_POD, decided_at=NOW)
REHEARSES = "Rehearsing query 'delays': 1 of 2 batches, since 10:02:11 UTC."
NEW_POD = a_pod(2, name=STANDBY_POD, uid="uid-s1", revision=OTHER)


def starting_up(*, rows: int, ago_s: int = 10) -> Situation:
    """A job that requests a standby; its driver started so long ago, and its second query has read this much."""
    queries = tuple(
        QueryStatus(uid=uid, active=True, batch_id=7, input_rows=read) for uid, read in (("a", 9), ("b", rows))
    )
    answer = a_word().model_copy(update={"started_at": NOW - ago_s * SECOND, "queries": queries})
    return dataclasses.replace(a_situation(spec=HOT), driver=answer)


def warming(since_s: int, **changes: object) -> Situation:
    """A warm upgrade whose standby's process has run for a while."""
    record = a_standby(StandbyState.WARMING, since=NOW - since_s * SECOND)
    return preparing(record=record, answer=standing_by(Preparation.WARMING), **changes)


def creating(since_s: int, **pod: object) -> Situation:
    """A warm upgrade whose standby's pod has waited for a while."""
    record = a_standby(StandbyState.CREATING, since=NOW - since_s * SECOND, uid=None)
    pods = (a_standby_pod(phase=PodPhase.PENDING, ip=None, **pod),) if pod else ()
    return preparing(record=record, standbys=pods, answer=None)


def ended_standby(code: int, reason: str = "", report: ExitReport | None = None, **changes: object) -> Situation:
    phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
    pod = a_standby_pod(phase=phase, exit=ContainerExit(code, reason=reason, message="it says why", report=report))
    return preparing(record=a_standby(StandbyState.WARMING), standbys=(pod,), answer=None, **changes)


def first_output(after: timedelta) -> Situation:
    """An upgrade with a checkpoint, whose new revision has committed its first batch so long after it."""
    checkpoint_at = NOW - timedelta(minutes=5)
    upgrade = an_upgrade(
        UpgradeState.FIRST_CHECKPOINT, first_checkpoint_at=checkpoint_at, last_commit_at=checkpoint_at - 9 * SECOND
    )
    query = QueryStatus(uid="a", active=True, batch_id=7, last_commit_at=checkpoint_at + after)
    running = a_situation(spec=warm(), driver=a_driver(revision=OTHER), pods=(a_pod(revision=OTHER),), upgrade=upgrade)
    return dataclasses.replace(running, driver=a_word(JobState.RUNNING).model_copy(update={"queries": (query,)}))


def guarded(**changes: object) -> Situation:
    """A job that runs with a standby of its own revision."""
    record = changes.pop("record", a_standby(revision=REVISION))
    base: dict[str, object] = {"spec": HOT, "upgrade": None, "standbys": (a_standby_pod(revision=REVISION),)}
    return preparing(record=record, answer=changes.pop("answer", standing_by()), **{**base, **changes})


def on_trial(failures: int, *, state: UpgradeState = UpgradeState.STARTING, **changes: object) -> Situation:
    """The new revision's driver has ended; it has failed so often."""
    trial = TrialStatus(failures=failures, **changes.pop("trial", {}))  # type: ignore[arg-type]
    base: dict[str, object] = {
        "driver": a_driver(
            DriverState.ENDED, epoch=2, revision=OTHER, end_reason="BadJob", end_message="It raises.", exit_code=13
        ),
        "spec": warm(rollback=changes.pop("rollback", "Automatic")),
        "upgrade": an_upgrade(state, savepoint=changes.pop("savepoint", SP), trial=trial),
        "epoch": 2,
        "last_savepoint": SnapshotStatus(id=43, completed_at=LONG_AGO, location=SP, batches={"delays": 41}),
    }
    return situation_with(ENDED, **{**base, **changes})


def going_back(
    snapshot: str | None = None, *, code: int = 14, reason: str = "NonRestoredState", **changes: object
) -> Situation:
    """The driver of the revision before has ended on the newest state, or on the savepoint that it was to go back to."""
    restore = RestoreIntent(
        id="uid-rollback-2", source=RestoreSource(uri=snapshot) if snapshot else None, rollback=True
    )
    rolled_back = an_upgrade(
        UpgradeState.ROLLED_BACK, savepoint=changes.pop("savepoint", SP), message="It failed.",
        trial=TrialStatus(failures=3, committed={"delays": 44}),
    )  # fmt: skip
    ended = a_driver(
        DriverState.ENDED, epoch=3, restore=restore, end_reason=reason, end_message="It says why.", exit_code=code
    )
    base: dict[str, object] = {
        "driver": ended,
        "spec": a_spec(),
        "withheld": OTHER,
        "upgrade": rolled_back,
        "restore": restore,
        "epoch": 3,
        "last_savepoint": SnapshotStatus(id=43, completed_at=LONG_AGO, location=SP, batches={"delays": 41}),
    }
    return situation_with(ENDED, **{**base, **changes})


def end_while_going_back(code: int, snapshot: str | None = None, **changes: object) -> Situation:
    """The pod of that driver has just ended."""
    restore = RestoreIntent(
        id="uid-rollback-2", source=RestoreSource(uri=snapshot) if snapshot else None, rollback=True
    )
    pod = a_pod(3, PodPhase.FAILED, exit=ContainerExit(code, message="it says why"))
    base: dict[str, object] = {"driver": a_driver(epoch=3, restore=restore), "pods": (pod,)}
    return going_back(snapshot, **{**base, **changes})  # type: ignore[arg-type]


def trial_end(code: int, **changes: object) -> Situation:
    """The pod of the new revision's driver has just ended."""
    pod = a_pod(2, PodPhase.FAILED, revision=OTHER, exit=ContainerExit(code, message="it says why"))
    base: dict[str, object] = {
        "driver": a_driver(epoch=2, revision=OTHER),
        "pods": (pod,),
        "spec": warm(),
        "upgrade": an_upgrade(UpgradeState.STARTING, savepoint=SP),
        "queries": (
            QueryProgress(uid="delays", batch=44),
            QueryProgress(uid="new"),
            QueryProgress(uid="young", batch=0),
        ),
    }
    return dataclasses.replace(a_situation(**{**base, **changes}), driver=None)


def new_revision(
    *, completed: int = 0, state: UpgradeState = UpgradeState.STARTING, to: str = OTHER, **upgrade: object
) -> Situation:
    """The driver of a new revision runs, and has completed so many checkpoints."""
    answer = a_word()
    if completed:
        answer = answer.model_copy(
            update={"checkpoints": CheckpointCounts(completed=completed), "last_checkpoint": CHECKPOINT_44}
        )
    record = an_upgrade(state, to=to, **upgrade)
    return dataclasses.replace(a_situation(spec=warm(), driver=a_driver(revision=OTHER), upgrade=record), driver=answer)


def asked_to_stop(ago_s: int, **upgrade: object) -> Situation:
    """The driver of a new revision runs; its predecessor was asked to stop so long ago."""
    runs = new_revision(**upgrade)  # type: ignore[arg-type]
    stop = an_operation(OperationPhase.COMPLETED, epoch=0, requested_at=NOW - ago_s * SECOND)
    return dataclasses.replace(runs, status=runs.status.model_copy(update={"operation": stop}))


def committed(situation: Situation, *ago_s: float | None) -> Situation:
    """The driver's queries have committed their last batches so long ago, or none."""
    queries = tuple(
        QueryStatus(
            uid=f"q{number}",
            active=True,
            batch_id=7,
            last_commit_at=NOW - timedelta(seconds=seconds) if seconds is not None else None,
        )
        for number, seconds in enumerate(ago_s)
    )
    return dataclasses.replace(situation, driver=a_word().model_copy(update={"queries": queries}))


def withheld_by_standby(state: StandbyState, revision: str = OTHER) -> Situation:
    """The spec is withheld, the revision before runs, and a standby without a pod is recorded."""
    record = a_standby(state, revision=revision, reason="BadJob", message="It raises.")
    blocked = an_upgrade(UpgradeState.BLOCKED, reason="BadJob", message="It was refused.")
    return a_situation(withheld=OTHER, upgrade=blocked, standby=record)


CHECKPOINT_44 = SnapshotSummary(
    kind=SnapshotKind.CHECKPOINT, id=44, location="s3://state/cp", trigger=Trigger.PERIODIC,
    triggered_at=NOW, completed_at=NOW, size_bytes=1,
)  # fmt: skip


WITH_CHECKPOINT = StorageFacts(
    newest_epoch=1,
    latest_checkpoint=CheckpointFact(SnapshotStatus(id=44, completed_at=NOW, location="s3://state/cp"), epoch=1),
)
FIRST_RUNS = FIRST.model_copy(update={"outcome": RevisionOutcome.RUNNING})


CASES: dict[str, dict[str, Situation]] = {
    "handover": {
        "the standby is not trusted": preparing(
            record=a_standby(StandbyState.WARMING, since=NOW),
            answer=DriverSilent("its certificate is of X", is_untrusted=True),
        ),
        "the first batch comes a minute after the first checkpoint": first_output(60 * SECOND),
        "the first batch comes more than a minute after the first checkpoint": first_output(61 * SECOND),
        "no driver is recorded any more, and none is there": preparing(
            driver=None, pods=(), standbys=(), record=None, storage=EMPTY
        ),
        "the spec has changed": a_situation(spec=warm()),
        "the spec has changed for a job with executors": a_situation(
            spec=a_spec("i:2", upgrade={"strategy": "Warm"}, executor={"instances": 1})
        ),
        "the spec has changed and the job is stalled": a_situation(
            spec=warm(), stalled=StallStatus(generation=1, reason="BadJob", message="The job file is wrong.")
        ),
        "the spec has changed while the driver starts": told(a_situation(spec=warm()), JobState.STARTING),
        "the spec has changed while the driver is going": a_situation(spec=warm(), pods=(going(),)),
        "the spec has changed and a restore is wanted": a_situation(
            spec=a_spec("i:2", upgrade={"strategy": "Warm"}, restore={"source": {"uri": SP}})
        ),
        "the spec has changed again": preparing(spec=a_spec("i:3", upgrade={"strategy": "Warm"})),
        "the spec has changed back": preparing(spec=a_spec(upgrade={"strategy": "Warm"})),
        "the pod was recorded and does not exist": creating(1),
        "the pod could not be created in time": creating(301),
        "the pod has no node yet": creating(300, unschedulable="0/3 nodes"),
        "the pod has no node in time": creating(301, unschedulable="0/3 nodes"),
        "the pod pulls for long": creating(900, waiting=Waiting("ContainerCreating", "")),
        "a pull failed for the first time": creating(3, waiting=Waiting("ErrImagePull", "not found")),
        "the image cannot be had": creating(3, waiting=Waiting("ImagePullBackOff", "not found")),
        "a container cannot be made": creating(3, waiting=Waiting("CreateContainerConfigError", "")),
        "the process runs and does not answer": preparing(
            record=a_standby(StandbyState.CREATING), answer=DriverSilent("no answer")
        ),
        "the standby warms": warming(300),
        "the standby warms for too long": warming(301),
        "the standby rehearses": preparing(
            record=a_standby(StandbyState.WARMING, since=NOW), answer=standing_by(Preparation.WARMING, doing=REHEARSES)
        ),
        "the standby rehearses for too long": preparing(
            record=a_standby(StandbyState.WARMING, since=NOW - 301 * SECOND),
            answer=standing_by(Preparation.WARMING, doing=REHEARSES),
        ),
        "the standby warms for too long and says why": preparing(
            record=a_standby(StandbyState.WARMING, since=NOW - 301 * SECOND),
            answer=standing_by(Preparation.WARMING, reason="StorageUnreachable", message="s3://state does not answer."),
        ),
        "the standby refuses": preparing(
            record=a_standby(StandbyState.WARMING),
            answer=standing_by(Preparation.REFUSED, reason="NonRestoredState", message="sum has no place."),
        ),
        "the standby refuses without a word": preparing(
            record=a_standby(StandbyState.WARMING), answer=standing_by(Preparation.REFUSED)
        ),
        "the standby raised": ended_standby(13),
        "the standby ran out of memory": ended_standby(137, "OOMKilled"),
        "the standby was killed, and not for its memory": ended_standby(137),
        "the standby was killed for the third time": preparing(
            record=a_standby(StandbyState.WARMING, failures=2),
            standbys=(a_standby_pod(phase=PodPhase.FAILED, exit=ContainerExit(137)),),
            answer=None,
        ),
        "the standby was drained": ended_standby(
            0, report=ExitReport(exit_code=0, reason="Drained", message="It was deleted.")
        ),
        "the standby is gone": preparing(record=a_standby(StandbyState.WARMING), standbys=(), answer=None),
        "the next standby is not due": preparing(
            record=a_standby(StandbyState.ENDED, retry_at=LATER, failures=2), standbys=(), answer=None
        ),
        "the next standby is due": preparing(
            record=a_standby(StandbyState.ENDED, retry_at=NOW, failures=2), standbys=(), answer=None
        ),
        "the standby has become ready": preparing(record=a_standby(StandbyState.WARMING)),
        "the standby is ready": preparing(UpgradeState.READY),
        "the standby is ready and no savepoint is wanted": preparing(UpgradeState.READY, spec=WITHOUT_SAVEPOINT),
        "the standby warms and no savepoint is wanted": preparing(
            spec=WITHOUT_SAVEPOINT, answer=standing_by(Preparation.WARMING)
        ),
        "the standby is ready and does not answer": preparing(UpgradeState.READY, answer=DriverSilent("no answer")),
        "the standby is ready and is going": preparing(
            UpgradeState.READY, standbys=(a_standby_pod(deletion_deadline=LATER),)
        ),
        "a quota left no room": preparing(
            record=a_standby(
                StandbyState.ENDED, uid=None, failures=2, retry_at=LATER, reason="QuotaExceeded", message="Too much."
            ),
            standbys=(),
            answer=None,
        ),
        "storage refuses the standby": preparing(
            record=a_standby(StandbyState.WARMING),
            answer=standing_by(Preparation.WARMING, reason="AccessDenied", message="S3 refused the keys."),
        ),
        "storage refuses the standby a moment ago": preparing(
            record=a_standby(StandbyState.WARMING, since=NOW),
            answer=standing_by(Preparation.WARMING, reason="AccessDenied", message="S3 refused the keys."),
        ),
        "the registry does not answer": creating(
            600, waiting=Waiting("ImagePullBackOff", "Back-off pulling image: dial tcp: i/o timeout")
        ),
        "the savepoint is being taken": preparing(UpgradeState.SAVEPOINT_PRE_COPY, operation=an_operation()),
        "the savepoint failed": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY, operation=an_operation(OperationPhase.FAILED, message="the disk is full")
        ),
        "the savepoint failed and the standby is gone": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY,
            operation=an_operation(OperationPhase.FAILED, message="the disk is full"),
            standbys=(),
            answer=None,
        ),
        "the stop is complete": preparing(UpgradeState.SAVEPOINT_PRE_COPY, operation=STOPPED),
        "the stop is complete and the standby refuses": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY, operation=STOPPED, answer=standing_by(Preparation.REFUSED)
        ),
        "the stop is complete and the job is suspended": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY, operation=STOPPED, spec=a_spec("i:2", suspend=True)
        ),
        "the stop is recorded and the old pod still runs": preparing(
            UpgradeState.STOPPING, operation=STOPPED, driver=a_driver(DriverState.ENDED), storage=FOUND
        ),
        "the stop is recorded and storage was not looked at": preparing(
            UpgradeState.STOPPING, operation=STOPPED, driver=a_driver(DriverState.ENDED)
        ),
        "the old pod runs on after its stop": situation_with(
            {},
            spec=warm(),
            driver=ACTIVATED,
            pods=(a_pod(1), NEW_POD),
            operation=an_operation(OperationPhase.COMPLETED, location=SP, finished_at=NOW - 31 * SECOND),
        ),
        "the new revision has completed a checkpoint too few": a_situation(
            spec=warm(), driver=a_driver(revision=OTHER),
            upgrade=an_upgrade(UpgradeState.FIRST_CHECKPOINT, trial=TrialStatus(checkpoints=2)),
        ),
        "another change after one that worked": a_situation(
            spec=warm("i:3"), upgrade=an_upgrade(UpgradeState.STABLE, to=REVISION, from_revision="0000000000")
        ),
        "the number of the standby is above those that were created": a_situation(spec=warm(), standby_count=4),
        "the number of the standby is above the recorded one": preparing(
            record=a_standby(StandbyState.ENDED, number=6, retry_at=NOW), standbys=(), answer=None, standby_count=4
        ),
        "the number of the standby is above those of drivers": a_situation(
            spec=warm(), driver=a_driver(pod="flights-standby-8"), pods=(a_pod(name="flights-standby-8"),)
        ),
        "the refused standby is gone": preparing(record=a_standby(StandbyState.REFUSED), standbys=(), answer=None),
        "the standby refuses and the driver has ended": preparing(
            record=a_standby(StandbyState.REFUSED, reason="BadJob", message="It raises."),
            standbys=(), answer=None, driver=a_driver(DriverState.ENDED), pods=(),
        ),
        "the standby warms and says why": preparing(
            record=a_standby(StandbyState.WARMING, since=NOW - SECOND, failures=2),
            answer=standing_by(Preparation.WARMING, reason="StorageUnreachable", message="s3://state does not answer."),
        ),
        "a further standby has become ready": preparing(record=a_standby(StandbyState.WARMING, failures=2)),
        "the savepoint has just failed": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY,
            operation=an_operation(OperationPhase.FAILED, message="the disk is full", finished_at=NOW),
        ),
        "the new revision runs": new_revision(savepoint_completed_at=NOW - timedelta(seconds=1.23456)),
        "the new revision runs after a stop without a savepoint": new_revision(stopped_at=NOW - timedelta(seconds=2.5)),
        "the new revision runs and nobody saw the stop": new_revision(),
        "the new revision has run before": new_revision(started_at=LONG_AGO, stopped_at=LONG_AGO),
        "the new revision restores": told(new_revision(stopped_at=LONG_AGO), JobState.STARTING),
        "another revision runs": new_revision(stopped_at=LONG_AGO, to="0000000000"),
        "the new revision completes its first checkpoint": new_revision(
            completed=1, started_at=LONG_AGO, trial=TrialStatus(failures=2)
        ),
        "the new revision completes a checkpoint after those of its driver before": new_revision(
            completed=1, state=UpgradeState.FIRST_CHECKPOINT, trial=TrialStatus(checkpoints=1, checkpoints_before=1)
        ),
        "the new revision becomes stable": new_revision(
            completed=2, state=UpgradeState.FIRST_CHECKPOINT, trial=TrialStatus(checkpoints=2, checkpoints_before=1)
        ),
        "the new revision counts on from what was counted": new_revision(
            completed=1, state=UpgradeState.FIRST_CHECKPOINT, trial=TrialStatus(checkpoints=2)
        ),
        "a checkpoint of another revision": new_revision(completed=1, started_at=LONG_AGO, to="0000000000"),
        "a checkpoint after the upgrade is over": new_revision(completed=1, state=UpgradeState.STABLE),
        "the revision was rolled back": a_situation(
            withheld=OTHER, upgrade=an_upgrade(UpgradeState.ROLLED_BACK, message="It failed.")
        ),
        "the withheld revision runs, because the one before is not stored": a_situation(
            upgrade=an_upgrade(UpgradeState.BLOCKED, to=REVISION, message="It was refused.")
        ),
        "new revisions start empty": a_situation(spec=a_spec("i:2", upgrade={"stateFrom": "Empty"})),
        "an empty start of another revision": situation_with(
            ENDED, spec=a_spec("i:2", upgrade={"stateFrom": "Empty"})
        ),
        "the revision is withheld": a_situation(
            withheld=OTHER, upgrade=an_upgrade(UpgradeState.BLOCKED, reason="BadJob", message="It was refused.")
        ),
        "the revision was withheld and is no longer wanted": a_situation(
            upgrade=an_upgrade(UpgradeState.BLOCKED, reason="BadJob", message="It was refused.")
        ),
        "the upgrade is prepared and has no standby": preparing(record=None, standbys=(), answer=None),
        "the standby was ready before that was noted and does not answer": preparing(answer=DriverSilent("no answer")),
        "the spec has changed back while the savepoint is taken": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY, spec=warm("i:1"), operation=an_operation()
        ),
        "the spec has changed back after the savepoint failed": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY, spec=warm("i:1"), operation=an_operation(OperationPhase.FAILED)
        ),
        "the spec has changed back after the driver was told to go": preparing(
            UpgradeState.STOPPING, spec=warm("i:1"), operation=an_operation(OperationPhase.FAILED)
        ),
        "the stop is complete after one that failed": preparing(
            operation=STOPPED, upgrade=an_upgrade(UpgradeState.SAVEPOINT_PRE_COPY, message="The disk is full.")
        ),
        "the stop is complete that was asked for as the upgrade began": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY, operation=STOPPED.model_copy(update={"requested_at": LONG_AGO})
        ),
        "a stop before the upgrade is complete": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY, operation=STOPPED.model_copy(update={"requested_at": LONG_AGO - SECOND})
        ),
        "a savepoint without a stop is complete": preparing(
            UpgradeState.SAVEPOINT_PRE_COPY,
            operation=STOPPED.model_copy(update={"kind": OperationKind.SAVEPOINT}),
        ),
        "the old pod is going after its stop and the standby is gone": preparing(
            UpgradeState.STOPPING,
            operation=STOPPED, driver=a_driver(DriverState.ENDED), pods=(going(),), storage=FOUND,
            record=None, standbys=(), answer=None,
        ),
        "the old pod ends by itself after its stop and the standby is gone": preparing(
            UpgradeState.STOPPING,
            operation=STOPPED,
            driver=a_driver(DriverState.ENDED),
            storage=FOUND,
            record=None,
            standbys=(),
            answer=None,
        ),
        "the change was given up and a standby is requested": a_situation(
            spec=a_spec("i:2", driver={"standby": True}),
            upgrade=an_upgrade(UpgradeState.ABORTED, message="The disk is full."),
        ),
        "a checkpoint of the new revision while its predecessor should stop": new_revision(
            completed=1, state=UpgradeState.STOPPING
        ),
        "the new revision has a checkpoint on storage and does not answer": dataclasses.replace(
            new_revision(started_at=LONG_AGO), driver=DriverSilent("no answer"), storage=WITH_CHECKPOINT
        ),
        "the old revision commits while it is asked to stop": committed(
            preparing(UpgradeState.SAVEPOINT_PRE_COPY, operation=an_operation()), 5, 2, None
        ),
        "the old revision commits before it is asked to stop": committed(preparing(), 2),
        "the new revision commits": committed(
            new_revision(started_at=LONG_AGO, last_commit_at=NOW - 10 * SECOND, stopped_at=NOW - 8 * SECOND), 1.23456
        ),
        "the new revision has committed before": committed(
            new_revision(started_at=LONG_AGO, stopped_at=LONG_AGO, first_commit_at=LONG_AGO), 1
        ),
        "the new revision commits after its first checkpoint": committed(
            new_revision(state=UpgradeState.FIRST_CHECKPOINT, started_at=LONG_AGO, stopped_at=LONG_AGO), 1
        ),
        "another revision commits": committed(new_revision(stopped_at=LONG_AGO, to="0000000000"), 1),
        "the new revision commits by a clock that is behind": committed(
            new_revision(started_at=LONG_AGO, last_commit_at=NOW), 1
        ),
        "the new revision commits after one that waited for input for a minute": committed(
            asked_to_stop(39, started_at=LONG_AGO, last_commit_at=NOW - 99 * SECOND, stopped_at=NOW - 30 * SECOND), 1
        ),
        "the new revision commits after one that waited for input for longer": committed(
            asked_to_stop(39, started_at=LONG_AGO, last_commit_at=NOW - 100 * SECOND, stopped_at=NOW - 30 * SECOND), 1
        ),
        "the new revision commits after a stop that was asked for as the upgrade began": committed(
            asked_to_stop(3600, started_at=LONG_AGO, stopped_at=NOW - 30 * SECOND), 1
        ),
        "the new revision commits after a stop that was asked for before the upgrade": committed(
            asked_to_stop(3601, started_at=LONG_AGO, stopped_at=NOW - 30 * SECOND), 1
        ),
        "the new revision commits and nobody saw the stop": committed(
            new_revision(started_at=LONG_AGO, last_commit_at=NOW - 3 * SECOND), 1
        ),
        "the new revision commits and nobody saw its predecessor": committed(new_revision(started_at=LONG_AGO), 1),
        "the standby was killed for the second time": preparing(
            record=a_standby(StandbyState.WARMING, failures=1),
            standbys=(a_standby_pod(phase=PodPhase.FAILED, exit=ContainerExit(137, reason="Error")),), answer=None,
        ),
        "the new revision becomes stable before the first one did": dataclasses.replace(
            new_revision(
                completed=3, state=UpgradeState.FIRST_CHECKPOINT, started_at=LONG_AGO, first_checkpoint_at=LONG_AGO
            ),
            status=new_revision(state=UpgradeState.FIRST_CHECKPOINT, started_at=LONG_AGO).status.model_copy(
                update={"history": (FIRST_RUNS,)}
            ),
        ),
        "the standby refuses before the first revision is stable": preparing(
            record=a_standby(StandbyState.WARMING), history=(FIRST_RUNS,),
            answer=standing_by(Preparation.REFUSED, reason="NonRestoredState", message="sum has no place."),
        ),
    },
    "standby": {
        "none is there": a_situation(spec=HOT),
        "none is there, and the driver has just started": starting_up(rows=0),
        "none is there, and every query of the driver has read": starting_up(rows=300),
        "none is there, and the driver started a minute ago": starting_up(rows=0, ago_s=60),
        "none is there, and the driver has had a minute for its input": starting_up(rows=0, ago_s=61),
        "none is there, and the driver does not answer": dataclasses.replace(
            a_situation(spec=HOT), driver=DriverSilent("no answer")
        ),
        "one is there, and one that nobody knows": guarded(
            standbys=(a_standby_pod(revision=REVISION), a_standby_pod(name="flights-standby-7", uid="uid-s7"))
        ),
        "it refused and its pod was removed": guarded(
            record=a_standby(StandbyState.REFUSED, revision=REVISION), standbys=(), answer=None
        ),
        "it explains why the spec is withheld, and one of the running revision is requested": a_situation(
            spec=HOT, withheld=OTHER, upgrade=an_upgrade(UpgradeState.BLOCKED, message="It was refused."),
            standby=a_standby(StandbyState.REFUSED, failures=2),
        ),
        "a start with it was replaced by a newer spec": situation_with(
            ENDED, driver=ACTIVATED.model_copy(update={"state": DriverState.ENDED}), spec=a_spec("i:3"),
            standbys=(a_standby_pod(),),
        ),
        "one is there": guarded(),
        "one was recorded and does not exist": guarded(
            record=a_standby(StandbyState.CREATING, revision=REVISION, uid=None), standbys=(), answer=None
        ),
        "it refuses": guarded(
            answer=standing_by(Preparation.REFUSED, reason="StateUnknown", message="Storage is odd.")
        ),
        "it has ended": guarded(
            standbys=(a_standby_pod(revision=REVISION, phase=PodPhase.FAILED, exit=ContainerExit(1)),), answer=None
        ),
        "its pod was removed": guarded(standbys=(), answer=None),
        "its node is lost": guarded(standbys=(a_standby_pod(revision=REVISION, deletion_deadline=LONG_AGO),), answer=None),
        "the next one is not due": guarded(
            record=a_standby(StandbyState.ENDED, revision=REVISION, retry_at=LATER, failures=1), standbys=(), answer=None
        ),
        "the next one is not due after one that could not be created": guarded(
            record=a_standby(StandbyState.ENDED, revision=REVISION, uid=None, retry_at=LATER, failures=1),
            standbys=(), answer=None,
        ),
        "the next one is due": guarded(
            record=a_standby(StandbyState.ENDED, revision=REVISION, retry_at=NOW, failures=1), answer=None
        ),
        "none is wanted any more": guarded(spec=a_spec()),
        "none is wanted any more and its pod is going": guarded(
            spec=a_spec(), standbys=(a_standby_pod(revision=REVISION, deletion_deadline=LATER),)
        ),
        "the job is suspended": guarded(spec=a_spec(driver={"standby": True}, suspend=True)),
        "the job is stalled": guarded(
            stalled=StallStatus(generation=1, reason="X", message="m"), driver=a_driver(DriverState.ENDED), pods=()
        ),
        "all queries have ended": guarded(
            driver=a_driver(DriverState.ENDED, exit_code=0, end_reason="Finished"), pods=(), storage=EMPTY
        ),
        "the job is deleted": dataclasses.replace(
            deleted(spec=HOT, standby=a_standby(revision=REVISION)), standbys=(a_standby_pod(revision=REVISION),)
        ),
        "the job is deleted and the standby is going": dataclasses.replace(
            deleted(spec=HOT), standbys=(a_standby_pod(deletion_deadline=LATER),)
        ),
        "one that nobody knows": a_situation(standbys=(a_standby_pod(name="flights-standby-7"),)),
        "the driver failed": guarded(
            pods=(a_pod(phase=PodPhase.FAILED, exit=ContainerExit(1)),), driver=a_driver(), storage=EMPTY
        ),
        "the driver failed for the second time": guarded(
            pods=(a_pod(phase=PodPhase.FAILED, exit=ContainerExit(1)),),
            storage=EMPTY, restarts=RestartStatus(count=1, consecutive=1),
        ),
        "the driver has ended": guarded(driver=a_driver(DriverState.ENDED), pods=(), storage=StorageFacts(newest_epoch=1)),
        "the driver has ended and the standby warms": guarded(
            answer=standing_by(Preparation.WARMING),
            driver=a_driver(DriverState.ENDED), pods=(), storage=StorageFacts(newest_epoch=1),
        ),
        "the driver has ended and empty state is wanted": guarded(
            spec=a_spec(driver={"standby": True}, restore={"source": {"empty": {}}}),
            driver=a_driver(DriverState.ENDED), pods=(), storage=StorageFacts(newest_epoch=1),
        ),
        "the driver that started with empty state has ended": guarded(
            driver=a_driver(DriverState.ENDED), pods=(), storage=StorageFacts(newest_epoch=1),
            restore=RestoreIntent(id="fresh", source=RestoreSource(empty=EmptyState())),
        ),
        "the driver does not answer": dataclasses.replace(guarded(), driver=DriverSilent("no answer")),
        "the driver is going and has not answered for just as long": dataclasses.replace(
            guarded(pods=(going(),), driver=a_driver(ending_since=NOW - 10 * SECOND)), driver=DriverSilent("no answer")
        ),
        "the driver is asked to stop, is going and has not answered for a while": dataclasses.replace(
            guarded(pods=(going(),), driver=a_driver(ending_since=NOW - 11 * SECOND), operation=an_operation()),
            driver=DriverSilent("no answer"),
        ),
        "the driver has ended and the standby does not answer": guarded(
            answer=None, driver=a_driver(DriverState.ENDED), pods=(), storage=StorageFacts(newest_epoch=1)
        ),
        "the driver has ended and its stop left a savepoint": guarded(
            driver=a_driver(DriverState.ENDED),
            pods=(),
            storage=FOUND,
            restore=RestoreIntent(id="stop", source=RestoreSource(uri=SP)),
        ),
        "a driver that was a standby has ended": situation_with(
            ENDED, driver=a_driver(DriverState.ENDED, epoch=2, pod=STANDBY_POD), storage=StorageFacts(newest_epoch=2)
        ),
        "the node of the chosen standby is lost": situation_with(
            ENDED, driver=ACTIVATED, spec=warm(), standbys=(a_standby_pod(deletion_deadline=LONG_AGO),)
        ),
        "the chosen standby is gone and there is another": situation_with(
            ENDED, driver=ACTIVATED, spec=warm(), standbys=(a_standby_pod(name="flights-standby-2"),),
            standby=a_standby(number=2, pod="flights-standby-2", uid=None),
        ),
        "a start is recorded and a standby is not wanted": situation_with(
            ENDED, driver=a_driver(DriverState.CREATING, epoch=2, pod="flights-driver-2"), standbys=(a_standby_pod(),)
        ),
        "the chosen standby has not heard of it, nor from where": dataclasses.replace(
            a_situation(
                driver=ACTIVATED.model_copy(update={"restore": RestoreIntent(id="stop", source=RestoreSource(uri=SP))}),
                spec=warm(), pods=(NEW_POD,),
            ),
            driver=standing_by(),
        ),
        "a pod with the epoch that was not chosen stands by": dataclasses.replace(
            a_situation(driver=ACTIVATED, spec=warm(), pods=(a_pod(2, revision=OTHER),)), driver=standing_by()
        ),
        "it explains why the spec is withheld": withheld_by_standby(StandbyState.REFUSED),
        "it refused a revision before the one that is withheld": withheld_by_standby(StandbyState.REFUSED, "0000000000"),
        "it is of the withheld revision and did not refuse": withheld_by_standby(StandbyState.ENDED),
        "the driver is going and does not answer": dataclasses.replace(
            guarded(pods=(going(),)), driver=DriverSilent("no answer")
        ),
        "the driver is going and has not answered for a while": dataclasses.replace(
            guarded(pods=(going(),), driver=a_driver(ending_since=NOW - 11 * SECOND)), driver=DriverSilent("no answer")
        ),
        "the chosen standby has not been labelled": situation_with(
            ENDED, driver=ACTIVATED, spec=warm(), standbys=(a_standby_pod(),), upgrade=an_upgrade(UpgradeState.ACTIVATING)
        ),
        "the chosen standby is gone": situation_with(
            ENDED, driver=ACTIVATED, spec=warm(), upgrade=an_upgrade(UpgradeState.ACTIVATING)
        ),
        "the chosen standby is not wanted any more": situation_with(
            ENDED, driver=ACTIVATED, spec=a_spec("i:3"), standbys=(a_standby_pod(),)
        ),
        "the chosen standby has not heard of it": dataclasses.replace(
            a_situation(driver=ACTIVATED, spec=warm(), pods=(NEW_POD,)), driver=standing_by()
        ),
        "the chosen standby refuses": dataclasses.replace(
            a_situation(driver=ACTIVATED, spec=warm(), pods=(NEW_POD,), phase=Phase.UPGRADING),
            driver=standing_by(Preparation.REFUSED, reason="BadJob", message="It raises."),
        ),
        "the chosen standby refuses and is going": dataclasses.replace(
            a_situation(
                driver=ACTIVATED, spec=warm(), pods=(dataclasses.replace(NEW_POD, deletion_deadline=LATER),)
            ),
            driver=standing_by(Preparation.REFUSED),
        ),
        "the driver that was fenced is going": situation_with(
            {}, driver=ACTIVATED, spec=warm(), pods=(going(1), NEW_POD), upgrade=an_upgrade(UpgradeState.ACTIVATING)
        ),
    },
    "rollback": {
        "a new revision failed": trial_end(1),
        "a new revision failed that had committed other batches before": trial_end(
            1, upgrade=an_upgrade(
                UpgradeState.STARTING, savepoint=SP, trial=TrialStatus(failures=1, committed={"late": 7})
            )
        ),
        "a new revision failed as often as it may restart": trial_end(
            1, spec=a_spec("i:2", restart={"maxFailures": 2}), restarts=RestartStatus(consecutive=1, charged=1)
        ),
        "a new revision failed and no spec can be read": trial_end(
            1, spec=None, rejection=Rejection("SpecInvalid", "It cannot be read.")
        ),
        "a new revision refused and another one is requested": trial_end(14, spec=a_spec("i:3"), upgrade=None),
        "a new revision failed for the third time": trial_end(
            1, upgrade=an_upgrade(UpgradeState.STARTING, savepoint=SP, trial=TrialStatus(failures=2))
        ),
        "a new revision failed once more than it may restart": trial_end(
            1, spec=a_spec("i:2", restart={"maxFailures": 1}), restarts=RestartStatus(consecutive=1, charged=1)
        ),
        "a new revision refused": trial_end(14),
        "a new revision refused and rollbacks are by hand": trial_end(14, spec=warm(rollback="Manual")),
        "a new revision refused and there is nothing to go back to": trial_end(
            14, upgrade=an_upgrade(UpgradeState.FIRST_CHECKPOINT, trial=TrialStatus(checkpoints=1))
        ),
        "a new revision was evicted": over(
            status_reason="Evicted", spec=warm(), driver=a_driver(revision=OTHER), upgrade=an_upgrade(UpgradeState.STARTING)
        ),
        "a new revision was stopped as asked": trial_end(1, operation=an_operation(epoch=2)),
        "a stable revision refused": trial_end(14, upgrade=an_upgrade(UpgradeState.STABLE, savepoint=SP)),
        "two failures": on_trial(2, storage=FOUND),
        "three failures": on_trial(3, trial={"committed": {"delays": 44, "late": 7}}),
        "three failures and the next attempt was waited for": on_trial(
            3, restarts=RestartStatus(count=4, consecutive=3, next_attempt_at=LATER),
            stalled=StallStatus(generation=1, reason="X", message="m"), trial={"committed": {"new": 0}},
        ),
        "three failures without a reason": on_trial(
            3, driver=a_driver(DriverState.ENDED, epoch=2, revision=OTHER, exit_code=1)
        ),
        "three failures of a revision without one before": on_trial(
            3, upgrade=an_upgrade(UpgradeState.STARTING, from_revision="", trial=TrialStatus(failures=3)), storage=FOUND
        ),
        "the new revision starts in a new pod after its standby failed": on_trial(
            1, state=UpgradeState.ACTIVATING, storage=FOUND,
            driver=a_driver(DriverState.ENDED, epoch=2, revision=OTHER, ended_at=NOW),
        ),
        "the new revision starts in a new pod, and its predecessor stopped long ago": on_trial(
            1, storage=FOUND, driver=a_driver(DriverState.ENDED, epoch=2, revision=OTHER, ended_at=NOW),
            upgrade=an_upgrade(UpgradeState.ACTIVATING, stopped_at=LONG_AGO, trial=TrialStatus(failures=1)),
        ),
        "three failures after a checkpoint": on_trial(
            3, state=UpgradeState.FIRST_CHECKPOINT, trial={"checkpoints": 2, "committed": {"delays": 41}}
        ),
        "three failures after one checkpoint": on_trial(3, state=UpgradeState.FIRST_CHECKPOINT, trial={"checkpoints": 1}),
        "three failures without a savepoint": on_trial(3, savepoint=None, trial={"committed": {"delays": 44}}),
        "three failures without a savepoint and with a checkpoint": on_trial(
            3, savepoint=None, trial={"checkpoints": 1}, storage=FOUND
        ),
        "three failures and rollbacks are by hand": on_trial(3, rollback="Manual"),
        "three failures and a person was told": on_trial(
            3, rollback="Manual", stalled=StallStatus(generation=1, reason="RollbackNeeded", message="m")
        ),
        "three failures, a person was told, and says yes": on_trial(
            3, stalled=StallStatus(generation=1, reason="RollbackNeeded", message="m"), job=a_job(generation=2)
        ),
        "three failures, a person was told, and tries again": on_trial(
            3, rollback="Manual", storage=FOUND,
            stalled=StallStatus(generation=1, reason="RollbackNeeded", message="m"), job=a_job(generation=2),
        ),
        "three failures and the spec has changed": on_trial(3, spec=a_spec("i:3"), storage=FOUND),
        "three failures, and the last driver was one of the revision before": on_trial(
            3, driver=a_driver(DriverState.ENDED, epoch=2), storage=FOUND
        ),
        "three failures, a person tried again, and the new revision runs": dataclasses.replace(
            on_trial(
                3, rollback="Manual", driver=a_driver(epoch=2, revision=OTHER),
                pods=(a_pod(2, revision=OTHER),), storage=None,
            ),
            driver=a_word().model_copy(update={"epoch": 2}),
        ),
        "three failures, rollbacks are by hand, and it is stalled for another reason": on_trial(
            3, rollback="Manual", stalled=StallStatus(generation=1, reason="BadJob", message="m")
        ),
        "the old revision starts again": on_trial(
            3, state=UpgradeState.ROLLED_BACK, spec=a_spec(), withheld=OTHER, storage=FOUND
        ),
        "the new revision starts once more": on_trial(
            1, state=UpgradeState.FIRST_CHECKPOINT, trial={"checkpoints": 2}, storage=FOUND
        ),
        "the newest state does not fit": going_back(),
        "the newest state is of a later release": going_back(code=17, reason="FormatVersionUnknown"),
        "the newest state does not fit and there is no savepoint": going_back(savepoint=None),
        "the newest state does not fit and another revision is requested": going_back(
            spec=a_spec("i:3"), withheld=None, storage=FOUND
        ),
        "neither fits": going_back(SP, reason="OutputRepeated"),
        "neither fits and a person restores the savepoint": going_back(
            SP, reason="OutputRepeated", spec=a_spec(restore={"source": {"uri": SP}, "repeatOutputOf": ["delays/out"]}),
            storage=FOUND,
        ),
        "the driver on the newest state is fenced": going_back(code=12, reason="Fenced", storage=FOUND),
        "the newest state does not fit and the spec is that of the old revision": going_back(
            withheld=None, upgrade=an_upgrade(UpgradeState.ABORTED, savepoint=SP)
        ),
        "a person was asked": going_back(
            stalled=StallStatus(generation=1, reason="RollbackNeedsDecision", message="m"),
            restore=RestoreIntent(id="uid-rollback-3", rollback=True),
        ),
        "a person was asked, and has changed something": going_back(
            stalled=StallStatus(generation=1, reason="RollbackNeedsDecision", message="m"), job=a_job(generation=2),
            restore=RestoreIntent(id="uid-rollback-3", rollback=True), storage=FOUND,
        ),
        "the savepoint is gone, and the policy is to use a checkpoint": going_back(
            SP, restore=RestoreIntent(id="uid-rollback-3", source=RestoreSource(uri=SP), rollback=True),
            spec=a_spec(upgrade={"onSavepointFailure": "UseLatestCheckpoint"}), storage=MISSING,
        ),
        "the old revision refuses the newest state": end_while_going_back(14),
        "the old revision fails on the newest state": end_while_going_back(1),
        "the old revision fails on the newest state once more than it may": end_while_going_back(
            1, spec=a_spec(restart={"maxFailures": 1}), restarts=RestartStatus(consecutive=1, charged=1)
        ),
        "the old revision finds its job file wrong": end_while_going_back(13),
        "the old revision fails on the savepoint": end_while_going_back(1, SP),
        "the old revision is evicted from the newest state": end_while_going_back(
            1, pods=(a_pod(3, PodPhase.FAILED, status_reason="Evicted"),)
        ),
        "another revision follows a rollback without a checkpoint": going_back(
            code=1, reason="QueryFailed", spec=a_spec("i:3"), withheld=None, storage=FOUND
        ),
        "the old revision goes back in a job whose revisions start empty": going_back(
            code=1, reason="QueryFailed", storage=FOUND,
            spec=a_spec(upgrade={"stateFrom": "Empty"}),
        ),
        "another revision follows one that never worked": on_trial(
            1, spec=a_spec("i:3"), storage=FOUND
        ),
    },
}  # fmt: skip
