"""A situation for every step of the deletion of a job; `golden/operator` has the decisions."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

from jobspecs import a_spec
from situations import (
    ENDED,
    LONG_AGO,
    NOW,
    a_driver,
    a_job,
    a_pod,
    absent,
    an_operation,
    deleted,
    going,
    gone,
    situation_with,
)
from statefulspark.retention.ownership import Ownership, Whose
from statefulspark_operator.api import names
from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.status import OperationPhase, OperationStatus, SnapshotStatus, StallStatus
from statefulspark_operator.lifecycle.situation import PodPhase, Rejection, Situation
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SP = "s3://state/sp"
SAVE = a_spec(deletionPolicy="Savepoint")
CHECKPOINT = SnapshotStatus(id=41, completed_at=LONG_AGO)
GOING = a_job(deletion_requested_at=NOW)
LAST = an_operation(id="uid-deletion-1-1-1", origin=SavepointOrigin.DELETION)


def saved(at: datetime) -> OperationStatus:
    """The last savepoint is complete."""
    return LAST.model_copy(
        update={"state": OperationPhase.COMPLETED, "requested_at": at, "finished_at": at, "location": SP}
    )


def lost(at: datetime) -> OperationStatus:
    """The last savepoint has failed."""
    failed = {"state": OperationPhase.FAILED, "requested_at": at, "finished_at": at, "message": "S3 did not answer."}
    return LAST.model_copy(update=failed)


CASES: dict[str, dict[str, Situation]] = {
    "deletion": {
        "nothing is left": situation_with(ENDED, job=GOING),
        "a driver runs": deleted(),
        "of two drivers one has been told": deleted(pods=(going(1), a_pod(2))),
        "all drivers have been told": deleted(pods=(going(1), going(2))),
        "a savepoint first": deleted(spec=SAVE),
        "a savepoint first, at a place of its own": deleted(
            spec=a_spec(deletionPolicy="Savepoint", savepoint={"location": SP})
        ),
        "a savepoint first, of a driver that is not ready": deleted(spec=SAVE, pods=(a_pod(is_ready=False),)),
        "a savepoint first, of a pod that is going": deleted(spec=SAVE, pods=(going(),)),
        "a savepoint first, and only an older driver is left": deleted(
            spec=SAVE, driver=a_driver(epoch=2), pods=(a_pod(1), a_pod(2, PodPhase.FAILED))
        ),
        "a savepoint first, of a job that has none and whose driver is starting": deleted(
            spec=SAVE, pods=(a_pod(is_ready=False),)
        ),
        "a savepoint first, of a driver that is starting again": deleted(
            spec=SAVE, pods=(a_pod(is_ready=False),), last_checkpoint=CHECKPOINT
        ),
        "a savepoint first, between two drivers": situation_with(
            ENDED, job=GOING, spec=SAVE, last_checkpoint=CHECKPOINT
        ),
        "a savepoint first, of a suspended job without one": situation_with(
            ENDED,
            job=GOING,
            spec=a_spec(deletionPolicy="Savepoint", suspend=True),
            last_checkpoint=CHECKPOINT,
        ),
        "a savepoint first, of a stalled job": situation_with(
            ENDED,
            job=GOING,
            spec=SAVE,
            last_checkpoint=CHECKPOINT,
            stalled=StallStatus(generation=1, reason="BadJob", message="The job file raises."),
        ),
        "a savepoint first, and storage is gone": situation_with(
            ENDED,
            job=GOING,
            spec=SAVE,
            last_checkpoint=CHECKPOINT,
            storage=StorageUnreadable("BucketMissing", "The bucket state does not exist.", may_pass=False),
        ),
        "a savepoint first, and nothing was ever stored": situation_with(ENDED, job=GOING, spec=SAVE),
        "the savepoint is being taken": deleted(spec=SAVE, operation=LAST),
        "another operation is under way": deleted(spec=SAVE, operation=an_operation()),
        "the request for the savepoint never arrived": absent(deleted(spec=SAVE, operation=LAST)),
        "the savepoint is complete and forgotten": absent(deleted(spec=SAVE, operation=saved(at=LONG_AGO))),
        "the savepoint is complete, and the driver ends by itself": deleted(spec=SAVE, operation=saved(at=NOW)),
        "the savepoint is complete and the driver is gone": situation_with(
            ENDED, job=GOING, spec=SAVE, operation=saved(at=NOW), last_checkpoint=CHECKPOINT
        ),
        "the savepoint failed a moment ago": deleted(spec=SAVE, operation=lost(at=NOW)),
        "the savepoint failed some time ago": deleted(spec=SAVE, operation=lost(at=LONG_AGO)),
        "the savepoint takes too long": deleted(
            spec=SAVE, operation=LAST.model_copy(update={"requested_at": NOW - 10 * MINUTE - SECOND})
        ),
        "no savepoint by a person's word": deleted(
            job=a_job(deletion_requested_at=LONG_AGO, finalizers=(names.TAKE_SAVEPOINT,)), operation=lost(at=NOW)
        ),
        "a savepoint first, and the namespace ends": deleted(
            spec=SAVE, job=dataclasses.replace(GOING, is_in_ending_namespace=True)
        ),
        "a savepoint first, and the namespace and the driver are gone": situation_with(
            ENDED,
            job=dataclasses.replace(GOING, is_in_ending_namespace=True),
            spec=SAVE,
            last_checkpoint=CHECKPOINT,
        ),
        "the state is to go, the namespace ends, and storage does not answer": gone(
            job=dataclasses.replace(GOING, is_in_ending_namespace=True),
            storage=StorageUnreadable("X", "No answer."),
        ),
        "the spec cannot be read and a driver runs": deleted(spec=None),
        "the spec cannot be read": situation_with(ENDED, job=GOING, spec=None),
        "the state is kept": gone(spec=a_spec()),
        "the state is to go and was not looked at": gone(storage=None),
        "the state is to go": gone(storage=StorageFacts(newest_epoch=3)),
        "the state is gone": gone(storage=StorageFacts(is_empty=True)),
        "the state is another's": gone(
            storage=StorageFacts(newest_epoch=3, standing=Ownership(Whose.ANOTHERS, "team-b/billing with uid b"))
        ),
        "the state is nobody's": gone(storage=StorageFacts(newest_epoch=3, standing=Ownership(Whose.NOBODYS))),
        "storage does not answer": gone(storage=StorageUnreadable("X", "No answer.")),
        "storage refuses": gone(storage=StorageUnreadable("X", "Access denied.", may_pass=False)),
        "the time for deleting state is almost up": gone(ago=15 * MINUTE, storage=StorageFacts(newest_epoch=3)),
        "the time for deleting state is up": gone(ago=15 * MINUTE + SECOND, storage=StorageFacts(newest_epoch=3)),
        "storage did not answer all the time": gone(
            ago=15 * MINUTE + SECOND, storage=StorageUnreadable("X", "No answer.")
        ),
        "the current spec was rejected": deleted(rejection=Rejection("SpecInvalid", "Wrong.")),
    },
}
