"""When the operator prunes the folder of a job, and when it must not: a driver may be alive, or it is done."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from situations import LATER, LONG_AGO, NOW, a_driver, a_job, a_pod, a_situation, an_operation
from statefulspark_operator.api.status import DriverState, Phase, PruningStatus
from statefulspark_operator.lifecycle import pruning
from statefulspark_operator.lifecycle.pruning import Freed, PrunedFolder
from statefulspark_operator.lifecycle.situation import (
    LOST_AFTER,
    ContainerExit,
    ExecutorPod,
    PodPhase,
    Situation,
)

STOPPED = a_driver(DriverState.ENDED, ended_at=LONG_AGO, exit_code=0, end_reason="Stopped")
REST = {"phase": Phase.SUSPENDED, "driver": STOPPED, "pods": ()}
LOOKED = PruningStatus(epoch=1, looked_at=LONG_AGO)
EXECUTOR = ExecutorPod("flights-driver-1-exec-1", "uid", "uid-1", PodPhase.RUNNING)
MINUTE = timedelta(minutes=1)


def epoch(situation: Situation) -> int | None:
    return pruning.epoch_to_prune(situation, situation.status)


def at_rest(**changes: object) -> Situation:
    return a_situation(**{**REST, **changes})


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(at_rest(), id="suspended"),
        pytest.param(
            at_rest(phase=Phase.STALLED, driver=a_driver(DriverState.ENDED, ended_at=LONG_AGO, exit_code=1)),
            id="stalled",
        ),
        pytest.param(
            at_rest(phase=Phase.STOPPED, driver=a_driver(DriverState.ENDED, ended_at=LONG_AGO, exit_code=0)),
            id="finished",
        ),
        pytest.param(at_rest(pods=(a_pod(phase=PodPhase.FAILED),)), id="with the pod that is kept for its log"),
        pytest.param(at_rest(pods=(a_pod(exit=ContainerExit(0)),)), id="with a sidecar that still runs"),
        pytest.param(at_rest(pruning=LOOKED.model_copy(update={"epoch": 0})), id="that had another driver since"),
        pytest.param(at_rest(pruning=LOOKED.model_copy(update={"remove_at": NOW})), id="whose grace time is over"),
    ],
)
def test_the_folder_is_pruned_of_a_job_that_is(situation: Situation) -> None:
    assert epoch(situation) == 1


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(a_situation(phase=Phase.RUNNING), id="the driver runs"),
        pytest.param(at_rest(pods=(a_pod(),)), id="the driver is stopping"),
        pytest.param(
            at_rest(pods=(a_pod(deletion_deadline=NOW - 2 * LOST_AFTER),)), id="the driver's node does not answer"
        ),
        pytest.param(
            at_rest(driver=a_driver(DriverState.ENDED)), id="the driver's pod is gone, and nobody saw its end"
        ),
        pytest.param(at_rest(driver=None, epoch=None), id="there was no driver yet"),
        pytest.param(at_rest(epoch=2), id="the next epoch is assigned"),
        pytest.param(at_rest(driver=a_driver(DriverState.CREATING)), id="a driver is about to be created"),
        pytest.param(at_rest(standbys=(a_pod(0),)), id="a standby may take over"),
        pytest.param(dataclasses.replace(at_rest(), executors=(EXECUTOR,)), id="an executor may still write"),
        pytest.param(at_rest(operation=an_operation()), id="an operation is open"),
        pytest.param(at_rest(phase=Phase.RESTARTING), id="the next driver is about to start"),
        pytest.param(at_rest(phase=Phase.UPGRADING), id="an upgrade is between two drivers"),
        pytest.param(at_rest(job=a_job(deletion_requested_at=NOW)), id="the job is deleted, by its deletionPolicy"),
        pytest.param(at_rest(spec=None), id="nobody knows how much it keeps"),
        pytest.param(at_rest(pruning=LOOKED), id="nothing was left at the last look"),
        pytest.param(at_rest(pruning=LOOKED.model_copy(update={"remove_at": LATER})), id="the grace time is not over"),
    ],
)
def test_nothing_is_pruned_while(situation: Situation) -> None:
    assert epoch(situation) is None


def test_what_is_unused_is_reported_before_it_is_removed_and_counted_after() -> None:
    first = PrunedFolder(Freed(0, 0), unused=Freed(3, 300), grace=MINUTE)
    then = PrunedFolder(Freed(3, 300), unused=Freed(0, 0), grace=MINUTE)

    marked = pruning.recorded(None, first, epoch=1, now=NOW)
    removed = pruning.recorded(marked, then, epoch=1, now=LATER)

    assert marked == PruningStatus(
        epoch=1, looked_at=NOW, unused_files=3, unused_bytes=300, remove_at=NOW + MINUTE, freed_files=0, freed_bytes=0
    )
    assert removed == PruningStatus(epoch=1, looked_at=LATER, freed_files=3, freed_bytes=300)
    assert [note.reason for note in (*pruning.told(first), *pruning.told(then))] == [
        "UnusedFilesFound",
        "StoragePruned",
    ]


def test_a_look_that_found_nothing_says_nothing() -> None:
    assert pruning.told(PrunedFolder(Freed(0, 0), Freed(0, 0), MINUTE)) == ()


@pytest.mark.parametrize(
    ("freed", "words"), [(Freed(1, 1500), "1 file (1,500 bytes)"), (Freed(2, 10), "2 files (10 bytes)")]
)
def test_files_are_counted_in_words(freed: Freed, words: str) -> None:
    found, removed = PrunedFolder(Freed(0, 0), freed, MINUTE), PrunedFolder(freed, Freed(0, 0), MINUTE)
    told = [note.message for note in (*pruning.told(found), *pruning.told(removed))]

    assert told == [
        f"Found {words} that no snapshot needs, to be removed after 60 s unless a driver is started.",
        f"Removed {words} that no snapshot needs.",
    ]
