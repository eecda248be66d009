"""A situation for every branch of the operator's rules, by concern and sentence; `golden/operator` has the decisions."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

from situations import (
    EMPTY,
    ENDED,
    FIRST,
    LATER,
    LONG_AGO,
    NEW,
    NOW,
    REVISION,
    a_driver,
    a_job,
    a_pod,
    a_situation,
    a_spec,
    a_word,
    absent,
    an_operation,
    an_upgrade,
    going,
    over,
    policy,
    restoring,
    silent,
    situation_with,
    told,
)
from statefulspark.contract.api import CheckpointCounts, ExitReport, JobState, QueryStatus, SnapshotSummary
from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark_operator.api import names, revision
from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.spark_savepoint import SavepointOrigin
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
    UpgradeState,
)
from statefulspark_operator.lifecycle import backoff
from statefulspark_operator.lifecycle.situation import DriverSilent, PodPhase, Rejection, Situation, Waiting
from statefulspark_operator.lifecycle.storage_facts import SavepointFact, StorageFacts, StorageUnreadable

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
SP = "s3://state/sp"
CREATING = {"driver": a_driver(DriverState.CREATING), "pods": (), "storage": EMPTY}
CHECKPOINT = SnapshotStatus(id=41, completed_at=NOW - MINUTE)


STALL = StallStatus(generation=1, reason="BadJob", message="The job file is wrong.")
MISSING = StorageFacts(savepoint=SavepointFact.MISSING)
WANTED = RestoreIntent(id="r", source=RestoreSource(uri=SP))
REPORT = ExitReport(exit_code=13, reason="JobFileRaised", message="ValueError in job.py.")
FINISHED_REPORT = ExitReport(exit_code=0, reason="Finished", message="All queries ended at checkpoint 2.")
DRAINED_REPORT = ExitReport(exit_code=0, reason="Drained", message="All queries ended at checkpoint 2.")
STOPPED_REPORT = ExitReport(exit_code=0, reason="Stopped", message="As asked.", snapshot=SP)
BARE_STOP = ExitReport(exit_code=0, reason="Stopped", message="As asked.")
SAVE = a_spec(deletionPolicy="Savepoint")


def hanging(
    since_s: int,
    *,
    state: JobState = JobState.RUNNING,
    is_first: bool = False,
    others: tuple[datetime, ...] = (),
    **changes: object,
) -> Situation:
    """A batch of the driver has been running for a while."""
    commit = None if is_first else LONG_AGO
    queries = tuple(
        QueryStatus(uid=f"q{number}", active=True, batch_id=6, batch_since=since, last_commit_at=commit)
        for number, since in enumerate((NOW - timedelta(seconds=since_s), *others))
    )
    word = a_word(state).model_copy(update={"queries": queries})
    return dataclasses.replace(a_situation(**changes), driver=word)


def a_silent_driver(for_s: int) -> Situation:
    """A driver that has not answered for a while."""
    quiet = a_situation(phase=Phase.RUNNING, silent_since=NOW - timedelta(seconds=for_s))
    return dataclasses.replace(quiet, driver=DriverSilent("no answer"))


def an_untrusted_driver(for_s: int) -> Situation:
    """A driver that ran and whose certificate has not been trusted for a while."""
    return dataclasses.replace(
        a_silent_driver(for_s), driver=DriverSilent("its certificate is of X", is_untrusted=True)
    )


def first_revision(
    completed: int, *, revision: str = REVISION, outcome: RevisionOutcome = RevisionOutcome.RUNNING
) -> Situation:
    """A driver has completed so many checkpoints, of a job with a first revision."""
    summary = SnapshotSummary(
        kind=SnapshotKind.CHECKPOINT, id=44, location="s3://state/cp", trigger=Trigger.PERIODIC,
        triggered_at=NOW, completed_at=NOW, size_bytes=1,
    )  # fmt: skip
    answer = a_word().model_copy(
        update={"checkpoints": CheckpointCounts(completed=completed), "last_checkpoint": summary}
    )
    first = FIRST.model_copy(update={"revision": revision, "outcome": outcome})
    return dataclasses.replace(a_situation(history=(first,)), driver=answer)


EMPTYING = a_spec("i:2", upgrade={"stateFrom": "Empty"})
STOP_THAT_FAILED = an_operation(OperationPhase.FAILED, requested_at=NOW - timedelta(seconds=700))

CASES: dict[str, dict[str, Situation]] = {
    "ownership": {
        "a new resource whose last savepoint is to be taken": a_situation(job=a_job(finalizers=()), spec=SAVE),
        "a new resource whose files are to go": a_situation(
            job=a_job(finalizers=()), spec=a_spec(deletionPolicy="Delete"), phase=Phase.RUNNING
        ),
        "a resource that nothing is to hold any more": a_situation(job=a_job(finalizers=(names.DELETE_FILES,))),
        "drivers of older epochs": silent(
            pods=(a_pod(1), a_pod(2), a_pod(3)), driver=a_driver(epoch=3), phase=Phase.RUNNING
        ),
        "an older driver that is going": silent(pods=(going(1), a_pod(2)), driver=a_driver(epoch=2)),
        "a driver whose end was recorded": silent(driver=a_driver(DriverState.ENDED), storage=EMPTY),
        "no spec": situation_with(NEW, spec=None),
        "no good spec": situation_with(NEW, spec=None, rejection=Rejection("SpecInvalid", "No image.")),
        "a bad spec after a good one": a_situation(rejection=Rejection("SpecInvalid", "No image.")),
        "a bad spec that takes long to explain": a_situation(rejection=Rejection("SpecInvalid", "x" * 2000)),
    },
    "failure": {
        "the node is lost": silent(pods=(a_pod(deletion_deadline=LONG_AGO),)),
        "the pod is gone": silent(pods=()),
        "the pod is gone again": silent(pods=(), restarts=RestartStatus(count=4, consecutive=1)),
        "the pod was seen going and is gone": silent(pods=(), driver=a_driver(ending_since=NOW)),
        "a pod that was never seen has claimed its epoch": situation_with(CREATING, storage=StorageFacts(newest_epoch=1)),
        "the node evicted it": over(status_reason="Evicted", status_message="low on memory"),
        "Kubernetes gives no reason": over(),
        "it finished": over(0, report=FINISHED_REPORT, queries=(QueryProgress(uid="q"),)),
        "it failed": over(1, reason="Error"),
        "it had gone on from older state than the newest": over(1, fallback="checkpoint 9 does not verify."),
        "it failed for the second time": over(1, restarts=RestartStatus(count=4, consecutive=1)),
        "it failed with pauses of its own": over(
            1, restarts=RestartStatus(consecutive=4), spec=a_spec(restart={"initialBackoff": "2s", "maxBackoff": "10s"})
        ),
        "it failed with its last try": over(
            1, restarts=RestartStatus(consecutive=2, charged=2), spec=a_spec(restart={"maxFailures": 3})
        ),
        "it failed once too often": over(
            1, restarts=RestartStatus(consecutive=3, charged=3), spec=a_spec(restart={"maxFailures": 3})
        ),
        "it failed and there is no spec": over(1, spec=None),
        "it was called wrongly": over(2),
        "something else ended its process": over(0, reason="Completed"),
        "it drained": over(0, report=DRAINED_REPORT),
        "it drained while the spec asks for another": over(0, report=DRAINED_REPORT, spec=a_spec("i:2")),
        "it drained while suspended": over(0, report=DRAINED_REPORT, spec=a_spec(suspend=True)),
        "it was fenced": over(12),
        "the job file is wrong": over(13, report=REPORT),
        "the state does not fit": over(14, message="types"),
        "the snapshot is not there": over(15),
        "storage was away": over(16),
        "the state is unknown": over(17),
        "it had too little memory": over(137, reason="OOMKilled", message="killed"),
        "an exit code that nobody knows": over(99, reason="Error"),
        "it stopped as asked": over(0, report=STOPPED_REPORT, operation=an_operation(), spec=a_spec("i:2"),
                                    upgrade=an_upgrade(UpgradeState.SAVEPOINT, message="old")),
        "it stopped after its stop was given up": over(
            0, report=STOPPED_REPORT, operation=an_operation(OperationPhase.FAILED, message="Too slow."),
            spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.SAVEPOINT, message="old"),
        ),
        "it stopped and names nothing after its stop was given up": over(
            0, report=BARE_STOP, operation=an_operation(OperationPhase.FAILED)
        ),
        "it stopped without being asked": over(0, report=BARE_STOP, restore=WANTED),
        "it stopped with a savepoint on a disk": over(
            0, report=BARE_STOP, operation=an_operation(OperationPhase.COMPLETED, location="file:///sp"), restore=WANTED
        ),
        "it stopped without a savepoint": over(
            0, report=BARE_STOP, operation=an_operation(OperationPhase.COMPLETED), restore=WANTED
        ),
        "it failed while it stopped": over(137, operation=an_operation(), restore=WANTED),
        "it failed at the moment its savepoint was complete": over(
            137,
            operation=an_operation(kind=OperationKind.SAVEPOINT, origin=SavepointOrigin.MANUAL),
            storage=StorageFacts(requested=SnapshotStatus(id=42, completed_at=NOW, location=SP)),
        ),
        "it failed at the moment its stop, which was given up, was complete": over(
            137,
            operation=an_operation(OperationPhase.FAILED, message="Too slow."),
            storage=StorageFacts(requested=SnapshotStatus(id=42, completed_at=NOW, location=SP)),
        ),
        "it failed after it was told to go for an upgrade": over(
            1, spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.STOPPING)
        ),
        "the pod is gone after it was told to go for an upgrade": silent(
            pods=(), spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.STOPPING)
        ),
        "it failed while it took the savepoint of an upgrade": over(
            1, spec=a_spec("i:2"), operation=an_operation(), upgrade=an_upgrade(UpgradeState.SAVEPOINT)
        ),
        "it failed while it took a savepoint": over(1, operation=an_operation(kind=OperationKind.SAVEPOINT)),
        "it failed after a stop of its predecessor": over(
            1, operation=an_operation(OperationPhase.COMPLETED, epoch=7), upgrade=an_upgrade(UpgradeState.STABLE)
        ),
    },
    "operation": {
        "a stop is complete": a_situation(operation=an_operation(OperationPhase.COMPLETED, finished_at=NOW - 30 * SECOND,
                                                                 location=SP)),
        "a stop is complete and its driver still there": a_situation(
            operation=an_operation(OperationPhase.COMPLETED, finished_at=NOW - 31 * SECOND)
        ),
        "a stop is complete and its pod going": a_situation(
            operation=an_operation(OperationPhase.COMPLETED, location=SP), pods=(going(),), spec=a_spec(suspend=True)
        ),
        "a stop that was complete at once": a_situation(operation=an_operation(OperationPhase.COMPLETED, finished_at=None)),
        "a stop of the driver before is complete": a_situation(operation=an_operation(OperationPhase.COMPLETED, epoch=7)),
        "a savepoint is complete": a_situation(
            operation=an_operation(OperationPhase.COMPLETED, kind=OperationKind.SAVEPOINT)
        ),
        "a stop is under way": a_situation(operation=an_operation(requested_at=NOW - 10 * MINUTE)),
        "a savepoint is under way": a_situation(operation=an_operation(kind=OperationKind.SAVEPOINT)),
        "a stop is under way while suspended": a_situation(operation=an_operation(), spec=a_spec(suspend=True)),
        "an operation of the driver before": a_situation(operation=an_operation(epoch=7)),
        "a stop takes too long": a_situation(operation=an_operation(requested_at=NOW - 10 * MINUTE - SECOND),
                                             upgrade=an_upgrade(UpgradeState.SAVEPOINT), spec=a_spec("i:2")),
        "a savepoint takes longer than it may": a_situation(
            operation=an_operation(requested_at=NOW - 31 * SECOND, kind=OperationKind.SAVEPOINT),
            spec=a_spec(upgrade={"savepointTimeout": "30s"}), upgrade=an_upgrade(UpgradeState.STABLE),
        ),
        "a request for an upgrade never arrived": absent(a_situation(operation=an_operation())),
        "a request for a stop never arrived": absent(
            a_situation(operation=an_operation(origin=SavepointOrigin.STOP), spec=a_spec(savepoint={"location": SP}))
        ),
        "a request for a savepoint never arrived": absent(
            a_situation(operation=an_operation(kind=OperationKind.SAVEPOINT, origin=SavepointOrigin.MANUAL),
                        spec=a_spec(savepoint={"location": SP, "format": "Canonical"}))
        ),
        "a request never arrived as the driver starts": told(
            absent(a_situation(operation=an_operation())), JobState.STARTING
        ),
        "a request for an upgrade never arrived and the spec has changed again": absent(
            a_situation(operation=an_operation(), upgrade=an_upgrade(UpgradeState.SAVEPOINT), spec=a_spec("i:3"))
        ),
        "a request for an upgrade never arrived and the spec is the same": absent(
            a_situation(operation=an_operation(), upgrade=an_upgrade(UpgradeState.SAVEPOINT), spec=a_spec("i:2"))
        ),
        "a request for a savepoint never arrived in an upgrade to another revision": absent(
            a_situation(
                operation=an_operation(kind=OperationKind.SAVEPOINT, origin=SavepointOrigin.MANUAL),
                upgrade=an_upgrade(UpgradeState.SAVEPOINT),
            )
        ),
        "a request for a stop never arrived after an upgrade": absent(
            a_situation(operation=an_operation(origin=SavepointOrigin.STOP), upgrade=an_upgrade(UpgradeState.STABLE))
        ),
        "there is no spec": a_situation(operation=an_operation(), spec=None),
        "an operation has no driver yet": situation_with(CREATING, operation=an_operation()),
    },
    "suspension": {
        "the driver runs": a_situation(spec=a_spec(suspend=True)),
        "the driver is going": a_situation(spec=a_spec(suspend=True), pods=(going(),)),
        "the driver is starting": told(a_situation(spec=a_spec(suspend=True)), JobState.STARTING),
        "the driver does not answer": silent(spec=a_spec(suspend=True)),
        "the driver has no node": silent(spec=a_spec(suspend=True), pods=(a_pod(phase=PodPhase.PENDING),)),
        "the savepoint failed": a_situation(spec=a_spec(suspend=True), operation=an_operation(OperationPhase.FAILED)),
        "the savepoint of an older spec failed": a_situation(
            spec=a_spec(suspend=True), operation=an_operation(OperationPhase.FAILED), job=a_job(generation=2)
        ),
        "nothing runs": situation_with(ENDED, spec=a_spec(suspend=True)),
        "a start was recorded": situation_with(CREATING, spec=a_spec(suspend=True)),
        "nothing ever ran": situation_with(NEW, spec=a_spec(suspend=True)),
    },
    "upgrade": {
        "the driver runs": a_situation(spec=a_spec("i:2")),
        "the driver does not answer": silent(spec=a_spec("i:2"), pods=(a_pod(is_ready=False),)),
        "the driver is going": a_situation(spec=a_spec("i:2"), pods=(going(),)),
        "the driver is starting": told(a_situation(spec=a_spec("i:2")), JobState.STARTING),
        "the driver has no node": silent(
            spec=a_spec("i:2"), pods=(a_pod(phase=PodPhase.PENDING),), last_checkpoint=CHECKPOINT
        ),
        "the spec wants no savepoint": a_situation(
            spec=a_spec("i:2", upgrade={"stateFrom": "LatestCheckpoint"}), last_checkpoint=CHECKPOINT
        ),
        "another restore is wanted": a_situation(spec=restoring(source={"uri": SP})),
        "the upgrade goes on": a_situation(spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.SAVEPOINT),
                                           job=a_job(generation=3)),
        "the upgrade goes somewhere else": a_situation(
            spec=a_spec("i:3"), upgrade=an_upgrade(UpgradeState.SAVEPOINT), job=a_job(generation=3)
        ),
        "the upgrade before is done": a_situation(spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.STABLE)),
        "the savepoint failed and it is early": a_situation(
            spec=a_spec("i:2"), operation=an_operation(OperationPhase.FAILED, finished_at=NOW, message="No room.")
        ),
        "the savepoint failed and it is almost time": a_situation(
            spec=a_spec("i:2"), operation=an_operation(OperationPhase.FAILED, finished_at=NOW - 9 * SECOND)
        ),
        "the savepoint failed and it is just time": a_situation(
            spec=a_spec("i:2"),
            operation=an_operation(
                OperationPhase.FAILED,
                finished_at=NOW - backoff.delay(1, initial=10 * SECOND, longest=5 * MINUTE, seed="uid"),
            ),
        ),
        "the savepoint of an upgrade that goes on failed and the checkpoint will do": a_situation(
            spec=policy("UseLatestCheckpoint"), operation=an_operation(OperationPhase.FAILED, message="No room."),
            upgrade=an_upgrade(UpgradeState.SAVEPOINT),
        ),
        "the savepoint failed and it is time": a_situation(
            spec=a_spec("i:2"), operation=an_operation(OperationPhase.FAILED, attempt=3)
        ),
        "the savepoint failed often": a_situation(
            spec=a_spec("i:2"), operation=an_operation(OperationPhase.FAILED, attempt=9, finished_at=None)
        ),
        "the savepoint of an older spec failed": a_situation(
            spec=a_spec("i:2"), operation=an_operation(OperationPhase.FAILED), job=a_job(generation=2)
        ),
        "the savepoint failed and the checkpoint will do": a_situation(
            spec=policy("UseLatestCheckpoint"), operation=an_operation(OperationPhase.FAILED, message="No room."),
            last_checkpoint=CHECKPOINT,
        ),
        "the savepoint failed and the change is given up": a_situation(
            spec=policy("Abort"), operation=an_operation(OperationPhase.FAILED, message="No room.")
        ),
        "the change was given up": a_situation(
            spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.ABORTED, message="No room.")
        ),
        "the change was given up without a word": a_situation(spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.ABORTED)),
        "a change was given up and came again": a_situation(
            spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.ABORTED), job=a_job(generation=2)
        ),
    },
    "start": {
        "for the first time": situation_with(NEW),
        "again, of a job whose history was lost": situation_with(ENDED, history=()),
        "with executors": situation_with(NEW, spec=a_spec(executor={"instances": 1})),
        "after a checkpoint": situation_with(ENDED, last_checkpoint=CHECKPOINT),
        "with empty state although a savepoint was chosen before": situation_with(
            ENDED, spec=EMPTYING, restore=WANTED
        ),
        "above the epochs on storage": situation_with(ENDED, storage=StorageFacts(newest_epoch=9)),
        "above the epochs of the status": situation_with(ENDED, epoch=6),
        "above the epochs of pods": situation_with(
            ENDED, epoch=None, driver=a_driver(DriverState.ENDED, epoch=5), pods=(a_pod(5, PodPhase.FAILED),)
        ),
        "while a driver may run": silent(driver=None, epoch=None, storage=EMPTY),
        "a recorded start": situation_with(CREATING),
        "a recorded start of an older spec": situation_with(CREATING, spec=a_spec("i:2")),
        "a recorded start of an older spec, during an upgrade": situation_with(
            CREATING, spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.STOPPING)
        ),
        "stalled": situation_with(ENDED, stalled=STALL),
        "stalled, by an older spec": situation_with(ENDED, stalled=STALL, job=a_job(generation=2)),
        "stalled once, and runs": a_situation(stalled=STALL),
        "finished": situation_with(ENDED, driver=a_driver(DriverState.ENDED, exit_code=0, end_reason="Finished")),
        "finished, and the spec has changed": situation_with(
            ENDED,
            driver=a_driver(DriverState.ENDED, exit_code=0, end_reason="Finished", ended_at=LONG_AGO),
            spec=a_spec("i:2"),
        ),
        "too early": situation_with(
            ENDED, restarts=RestartStatus(consecutive=2, next_attempt_at=LATER, last_message="It failed.")
        ),
        "too early, nobody knows why": situation_with(
            ENDED, restarts=RestartStatus(consecutive=2, next_attempt_at=NOW + 3 * SECOND)
        ),
        "in time": situation_with(ENDED, restarts=RestartStatus(consecutive=2, next_attempt_at=NOW)),
        "too early, and the spec has changed": situation_with(
            ENDED, restarts=RestartStatus(consecutive=2, next_attempt_at=LATER), spec=a_spec("i:2")
        ),
        "storage was not looked at": situation_with(ENDED, storage=None),
        "storage was not looked at for the first time": situation_with(NEW, storage=None),
        "storage does not answer": situation_with(ENDED, storage=StorageUnreadable("X", "No answer.")),
        "storage has no such bucket": situation_with(
            NEW, storage=StorageUnreadable("NoSuchBucket", "The bucket state does not exist.", may_pass=False)
        ),
        "storage does not answer, during an upgrade": situation_with(
            ENDED, storage=StorageUnreadable("X", "No answer."), upgrade=an_upgrade(UpgradeState.SAVEPOINT)
        ),
        "the savepoint is missing": situation_with(ENDED, restore=WANTED, storage=MISSING),
        "the savepoint is missing and the checkpoint will do": situation_with(
            ENDED, restore=WANTED, storage=MISSING, spec=a_spec(upgrade={"onSavepointFailure": "UseLatestCheckpoint"})
        ),
        "the savepoint is missing and another is wanted": situation_with(
            ENDED, restore=WANTED, storage=MISSING, spec=restoring(source={"checkpointID": 41}, claimMode="Claim")
        ),
        "the savepoint is missing and its driver runs": a_situation(restore=WANTED, storage=MISSING),
        "a savepoint is missing that is not wanted any more": situation_with(ENDED, storage=MISSING),
        "from the savepoint of the last stop": situation_with(
            ENDED, restore=WANTED, storage=StorageFacts(savepoint=SavepointFact.FOUND),
            spec=restoring(dropState=["old"]),
        ),
        "with state that may be dropped": situation_with(ENDED, spec=restoring(dropState=["old"])),
        "from a savepoint that was asked for": situation_with(
            ENDED, spec=restoring(source={"uri": SP}, dropState=["old"])
        ),
        "from a savepoint that was asked for before": situation_with(
            ENDED, spec=restoring(source={"uri": SP}), restore_applied=revision.restore_id(restoring(source={"uri": SP})),
            last_checkpoint=CHECKPOINT,
        ),
        "with empty state as asked for": situation_with(
            ENDED, spec=restoring(source={"empty": {}}), last_checkpoint=CHECKPOINT
        ),
        "another revision after a stop": situation_with(
            ENDED, spec=a_spec("i:2"), driver=a_driver(DriverState.ENDED, ended_at=LONG_AGO)
        ),
        "another revision during an upgrade": situation_with(
            ENDED, spec=a_spec("i:2"), upgrade=an_upgrade(UpgradeState.STOPPING, to="other"), last_checkpoint=CHECKPOINT
        ),
        "the same revision during an upgrade": situation_with(ENDED, upgrade=an_upgrade(UpgradeState.STOPPING)),
        "the same revision after an upgrade": situation_with(ENDED, upgrade=an_upgrade(UpgradeState.STABLE)),
        "the new revision again": situation_with(ENDED, upgrade=an_upgrade(UpgradeState.STARTING, to=REVISION)),
    },
    "progress": {
        "a pod is going": a_situation(pods=(going(),)),
        "an image cannot be had": silent(pods=(a_pod(phase=PodPhase.PENDING, waiting=Waiting("ErrImagePull", "no such")),)),
        "a container cannot be made": silent(
            pods=(a_pod(phase=PodPhase.PENDING, waiting=Waiting("CreateContainerConfigError", "")),),
            upgrade=an_upgrade(UpgradeState.STARTING),
        ),
        "a container is being made": silent(
            pods=(a_pod(phase=PodPhase.PENDING, is_ready=False, waiting=Waiting("ContainerCreating", "")),)
        ),
        "a pod is being initialized": silent(
            pods=(a_pod(phase=PodPhase.PENDING, is_ready=False, waiting=Waiting("PodInitializing", "")),)
        ),
        "no node has room": silent(pods=(a_pod(phase=PodPhase.PENDING, unschedulable="0/3 nodes"),)),
        "the driver does not answer yet": silent(pods=(a_pod(is_ready=False),)),
        "the driver does not answer for a reason": dataclasses.replace(
            a_situation(pods=(a_pod(is_ready=False),)), driver=DriverSilent("refused by proxy X.")
        ),
        "a starting driver is not trusted": dataclasses.replace(
            a_situation(phase=Phase.STARTING), driver=DriverSilent("its certificate is of X", is_untrusted=True)
        ),
        "the driver is ready and does not answer": dataclasses.replace(a_situation(), driver=DriverSilent("no answer")),
        "the driver restores": told(a_situation(upgrade=an_upgrade(UpgradeState.STARTING)), JobState.STARTING),
        "a job runs that has no checkpoint": a_situation(),
        "a job runs": a_situation(last_checkpoint=CHECKPOINT),
        "a job runs from a savepoint": silent(last_checkpoint=CHECKPOINT, restored_from=SP),
        "a job runs from older state than the newest": silent(
            last_checkpoint=CHECKPOINT, restored_from=SP, fallback="checkpoint 9 does not verify."
        ),
        "the driver says which step it is at": dataclasses.replace(
            a_situation(), driver=a_word(JobState.STARTING).model_copy(update={"message": "Restoring, since 12:00 UTC."})
        ),
        "the driver says which folder it reads": dataclasses.replace(
            a_situation(), driver=a_word(JobState.STARTING).model_copy(update={"message": "Reading folder X."})
        ),
        "pods of ended drivers are left": a_situation(
            driver=a_driver(epoch=9), pods=(
                a_pod(5, PodPhase.FAILED), a_pod(3, PodPhase.SUCCEEDED), a_pod(7, PodPhase.FAILED),
                going(1, phase=PodPhase.FAILED), a_pod(4, PodPhase.FAILED), a_pod(9),
            )
        ),
        "two pods of ended drivers are kept": silent(
            driver=a_driver(epoch=9), pods=(a_pod(3, PodPhase.FAILED), a_pod(5, PodPhase.FAILED), a_pod(9))
        ),
    },
    "facts": {
        "a first start from a savepoint": situation_with(NEW, spec=restoring(source={"uri": SP})),
        "another revision starts empty": situation_with(ENDED, spec=EMPTYING),
        "the same revision starts again, where revisions start empty": situation_with(
            ENDED, spec=EMPTYING, driver=a_driver(DriverState.ENDED, revision=revision.revision_of(EMPTYING)),
        ),
        "the first revision has completed as many checkpoints as it needs": first_revision(3),
        "the first revision has completed a checkpoint too few": first_revision(2),
        "another revision than the first has completed its checkpoints": first_revision(3, revision="0000000000"),
        "a stable revision completes its checkpoints again": first_revision(3, outcome=RevisionOutcome.STABLE),
        "a stray driver, and a stop of another one": silent(
            driver=a_driver(epoch=5), pods=(a_pod(3), a_pod(5)),
            operation=an_operation(OperationPhase.COMPLETED, finished_at=NOW),
        ),
        "a stray driver at the end of its time to leave": silent(
            driver=a_driver(epoch=5), pods=(a_pod(3), a_pod(5)),
            operation=an_operation(OperationPhase.COMPLETED, epoch=3, finished_at=NOW - timedelta(seconds=30)),
        ),
    },
    "health": {
        "the first batch runs": hanging(1, is_first=True),
        "the first batch runs in an upgrade": hanging(
            1, is_first=True, upgrade=an_upgrade(UpgradeState.STARTING, to=REVISION)
        ),
        "another first batch runs": hanging(1, is_first=True, phase=Phase.RUNNING),
        "a batch runs": hanging(300),
        "a batch runs for too long": hanging(301),
        "a batch runs up to the stall timeout": hanging(3600),
        "a batch hangs": hanging(3601),
        "a batch hangs for as long as the spec of the job allows": hanging(
            31, spec=a_spec(health={"unavailableAfter": "10s", "restartAfter": "30s"})
        ),
        "a batch hangs while the job stops": hanging(3601, state=JobState.STOPPING),
        "a batch hangs and the driver is being deleted": hanging(3601, pods=(going(),)),
        "a batch hangs and that is recorded": hanging(3601, driver=a_driver(ending_since=NOW)),
        "two batches run": hanging(301, others=(NOW - timedelta(seconds=302),)),
        "the driver falls silent": dataclasses.replace(
            a_situation(phase=Phase.RUNNING, pods=(a_pod(is_ready=False),)), driver=DriverSilent("no answer")
        ),
        "the driver is silent": a_silent_driver(301),
        "the driver is silent for an hour": a_silent_driver(3601),
        "a driver that ran is not trusted": an_untrusted_driver(301),
        "a driver that ran is not trusted for an hour": an_untrusted_driver(3601),
        "the driver answers again": a_situation(silent_since=NOW),
        "a change after a batch hung for the whole stop": hanging(
            700, spec=policy("Wait"), operation=STOP_THAT_FAILED
        ),
        "a change after a savepoint failed while a batch ran": hanging(
            600, spec=policy("Wait"), operation=an_operation(OperationPhase.FAILED, requested_at=NOW - timedelta(seconds=9))
        ),
        "a change after a batch that is younger than the stop": hanging(
            699, spec=policy("Wait"), operation=STOP_THAT_FAILED
        ),
    },
}  # fmt: skip
