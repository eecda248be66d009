"""The decision where to start, as tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from manifests import a_generation
from packwriting import a_name
from restores import a_restore
from startsituations import a_start_situation
from statefulspark import errors
from statefulspark.checkpoint import transfer
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, QueryEntry
from statefulspark.packs import names
from statefulspark.recovery import copies, generations
from statefulspark.recovery.plan import (
    Author,
    Candidate,
    CandidateName,
    Intent,
    SettledPlan,
    Situation,
    StartMode,
    asked_restore,
    carried_out,
    decide,
    left_savepoint,
    order_candidates,
    skipped_restore,
    takes_what_was_carried,
)
from statefulspark.testing.stores import MemoryStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = RestoreConfig()
SNAPSHOT = a_restore(snapshot="checkpoint:1")
FRESH = a_restore(empty=True)


CASES = {
    "nothing anywhere starts empty": (a_start_situation(), Intent.EMPTY),
    "a generation in use is recovered": (a_start_situation(current=a_generation()), Intent.RECOVER),
    "a snapshot asked for is restored": (a_start_situation(SNAPSHOT, a_generation()), Intent.RESTORE),
    "a snapshot asked for is restored on empty storage": (a_start_situation(SNAPSHOT), Intent.RESTORE),
    "a restore that was done is not repeated": (
        a_start_situation(SNAPSHOT, a_generation(carried_out=("checkpoint:1",))),
        Intent.RECOVER,
    ),
    "the same snapshot under a new id is restored again": (
        a_start_situation(a_restore(snapshot="checkpoint:1", nonce="b"), a_generation(carried_out=("a",))),
        Intent.RESTORE,
    ),
    "another snapshot is restored": (
        a_start_situation(SNAPSHOT, a_generation(carried_out=("checkpoint:2",))),
        Intent.RESTORE,
    ),
    "a restore that was done before others is not repeated": (
        a_start_situation(SNAPSHOT, a_generation(carried_out=("checkpoint:1", "checkpoint:2", "stop"))),
        Intent.RECOVER,
    ),
    "a fresh start is empty on an explicit word": (
        a_start_situation(FRESH, a_generation(), checkpoints=3),
        Intent.EMPTY,
    ),
    "a fresh start that was done is not repeated": (
        a_start_situation(FRESH, a_generation(carried_out=("fresh", "stop"))),
        Intent.RECOVER,
    ),
    "a fresh start solves leftovers": (a_start_situation(FRESH, unfinished=True), Intent.EMPTY),
    "a restore solves leftovers": (a_start_situation(SNAPSHOT, checkpoints=1), Intent.RESTORE),
}


@pytest.mark.parametrize(("situation", "expected"), CASES.values(), ids=CASES.keys())
def test_decide(situation: Situation, expected: Intent) -> None:
    assert decide(situation) is expected


@pytest.mark.parametrize(
    "situation",
    [a_start_situation(unfinished=True), a_start_situation(checkpoints=1), a_start_situation(savepoints=1)],
    ids=["an unfinished generation", "checkpoints without a generation", "only savepoints"],
)
def test_leftovers_never_lead_to_an_empty_start(situation: Situation) -> None:
    with pytest.raises(errors.StateUnknownError, match="is unknown"):
        decide(situation)


LINES = {
    "checkpoints of the generation in use, newest first, then its beginning": (
        (a_generation(),),
        {1: 1, 2: 1},
        (CandidateName(2, 1), CandidateName(1, 1), CandidateName(None, 1)),
    ),
    "ancestors follow, but not what a restore left behind": (
        (a_generation(1), a_generation(2, source="checkpoint:2", parent=1)),
        {1: 1, 2: 1, 3: 1, 4: 2},
        (CandidateName(4, 2), CandidateName(None, 2), CandidateName(2, 1), CandidateName(1, 1), CandidateName(None, 1)),
    ),
    "a savepoint ends the line": (
        (a_generation(1), a_generation(2, source="s3://b/sp")),
        {1: 1},
        (CandidateName(None, 2), CandidateName(None, 2, "s3://b/sp")),
    ),
    "a fresh start ends the line": ((a_generation(1), a_generation(2)), {1: 1}, (CandidateName(None, 2),)),
    "a pruned ancestor still has its checkpoints": (
        (a_generation(3, source="checkpoint:2", parent=2),),
        {1: 2, 2: 2, 3: 2},
        (CandidateName(None, 3), CandidateName(2, 2), CandidateName(1, 2)),
    ),
}


@pytest.mark.parametrize(("records", "checkpoints", "expected"), LINES.values(), ids=LINES.keys())
def test_candidates(
    records: tuple[GenerationRecord, ...], checkpoints: dict[int, int], expected: tuple[CandidateName, ...]
) -> None:
    known = generations.Generations(records, records[-1].generation)

    assert order_candidates(known, checkpoints) == expected


def test_traces_of_state_that_is_gone_never_lead_to_an_empty_start() -> None:
    gone = replace(a_start_situation(), traces=("epochs/began.json",))

    with pytest.raises(
        errors.StateUnknownError, match=r"generations/.*checkpoints/.*restore\.source\.empty.*--restore-empty"
    ) as raised:
        decide(gone)

    assert raised.value.reason == "StateMissing"
    assert decide(replace(gone, restore=FRESH)) is Intent.EMPTY
    assert decide(replace(gone, restore=SNAPSHOT)) is Intent.RESTORE


@pytest.mark.parametrize(
    ("wish", "restored_from", "begins"),
    [
        pytest.param(
            FRESH,
            "checkpoint 4",
            "The start with empty state was done before, and is not repeated: the job continues from checkpoint 4.",
            id="fresh state",
        ),
        pytest.param(
            SNAPSHOT,
            None,
            "The restore of checkpoint:1 was done before, and is not repeated: the job continues from the "
            "beginning of its generation.",
            id="a snapshot, without a checkpoint since",
        ),
        pytest.param(
            a_restore(snapshot="checkpoint:1", nonce="again"),
            "checkpoint 4",
            "The restore of checkpoint:1 was done before, under the name 'again', and is not repeated: the job "
            "continues from checkpoint 4.",
            id="under a name",
        ),
    ],
)
def test_a_restore_that_was_done_before_says_so_and_how_to_ask_again(
    wish: RestoreConfig, restored_from: str | None, begins: str
) -> None:
    said = skipped_restore(wish, restored_from=restored_from)

    assert said.startswith(begins)
    assert "--restore-again" in said


@pytest.mark.parametrize(
    ("restored_from", "state"),
    [
        ("checkpoint 8", "its newest state, checkpoint 8 and"),
        (None, "its newest state, the beginning of its generation and"),
    ],
)
def test_a_savepoint_that_its_driver_has_outlived_is_named_with_what_the_job_goes_on_from(
    restored_from: str | None, state: str
) -> None:
    said = left_savepoint(a_restore(snapshot="s3://b/savepoints/7"), restored_from=restored_from)

    assert said.startswith("The savepoint s3://b/savepoints/7 is complete, but its driver went on")
    assert state in said


_HEAD = Candidate("checkpoint 8", (), transfer.SnapshotLocation(MemoryStore()), generation=2)
_CHANGED = SettledPlan(StartMode.COPY, 3, source=_HEAD, reserved=4)
_ELSEWHERE = replace(_HEAD, location=transfer.SnapshotLocation(MemoryStore(), "savepoints/00000007"), generation=None)
_CARRIED = copies.Carried(4, {})
_AT_BATCH_7 = (QueryEntry(uid="q", batch_id=7, path="generations/00000002/q"),)


def carried_pack(batch: int) -> copies.Carried:
    path = names.key("mean", a_name(batch).reference)
    return copies.Carried(4, {f"generations/00000004/q/{path}": copies.Origin(f"generations/00000002/q/{path}", 10)})


@pytest.mark.parametrize(
    ("plan", "carried", "takes"),
    [
        pytest.param(_CHANGED, _CARRIED, True, id="the head of the generation in use, for a changed job"),
        pytest.param(_CHANGED, None, False, id="nothing was carried"),
        pytest.param(_CHANGED, copies.Carried(5, {}), False, id="it was closed off"),
        pytest.param(replace(_CHANGED, queries=_AT_BATCH_7), carried_pack(7), True, id="with packs of the cut"),
        pytest.param(replace(_CHANGED, queries=_AT_BATCH_7), carried_pack(8), False, id="with packs of a later batch"),
        pytest.param(_CHANGED, carried_pack(8), False, id="with packs of a query that the cut does not have"),
        pytest.param(replace(_CHANGED, mode=StartMode.CONTINUE), _CARRIED, False, id="it goes on in place"),
        pytest.param(replace(_CHANGED, mode=StartMode.EMPTY), _CARRIED, False, id="it starts empty"),
        pytest.param(replace(_CHANGED, source=None), _CARRIED, False, id="it copies nothing"),
        pytest.param(replace(_CHANGED, fallback="damage"), _CARRIED, False, id="it falls back"),
        pytest.param(replace(_CHANGED, why_copied="another root"), _CARRIED, False, id="it goes back"),
        pytest.param(replace(_CHANGED, source=_ELSEWHERE), _CARRIED, False, id="it copies a savepoint"),
        pytest.param(
            replace(_CHANGED, source=replace(_HEAD, generation=None)), _CARRIED, False, id="it copies no generation"
        ),
        pytest.param(
            replace(_CHANGED, source=replace(_ELSEWHERE, generation=2)), _CARRIED, False, id="it copies from elsewhere"
        ),
    ],
)
def test_only_a_start_that_copies_the_head_takes_what_was_carried_ahead(
    plan: SettledPlan, carried: copies.Carried | None, takes: bool
) -> None:
    assert takes_what_was_carried(plan, Author("default", "flights", 7, NOW, carried=carried)) is takes


def test_what_was_carried_out_is_told_once_the_oldest_first() -> None:
    records = [a_generation(carried_out=("a", "b")), a_generation(carried_out=("a", "b", "c"))]
    assert carried_out(records) == ("a", "b", "c")


_LEAVES = "and leaves the newer state behind. Remove restore.source to continue from the newest state."
ASKED = {
    "empty state that is new": (
        (FRESH, (), False),
        "It also asks for empty state, which was not carried out there: a start begins with empty state, " + _LEAVES,
    ),
    "a snapshot that is new": (
        (SNAPSHOT, ("fresh",), False),
        "It also asks for a restore of checkpoint:1, which was not carried out there: a start goes back to that snapshot, "
        + _LEAVES,
    ),
    "a snapshot that was restored": (
        (SNAPSHOT, ("checkpoint:1",), True),
        "It also asks for a restore of checkpoint:1, which was carried out there before and is not repeated.",
    ),
    "a snapshot of which nothing is known": (
        (SNAPSHOT, (), True),
        "It also asks for a restore of checkpoint:1, and a record of what was carried out there cannot be read: the start "
        "is refused.",
    ),
}


@pytest.mark.parametrize(("asked", "said"), ASKED.values(), ids=ASKED.keys())
def test_what_else_is_asked_for_is_said(asked: tuple[RestoreConfig, tuple[str, ...], bool], said: str) -> None:
    restore, done, unknown = asked
    assert asked_restore(restore, done, unknown=unknown) == said


def test_a_deletion_that_was_not_completed_is_refused_by_name() -> None:
    situation = replace(a_start_situation(), half_purged="generations/00000001/generation.json")
    with pytest.raises(errors.StateUnknownError) as refused:
        decide(situation)
    assert refused.value.reason == "StateWithoutCheckpoint"
    assert refused.value.message == (
        f"The state at {situation.uri} was deleted on purpose, and generations/00000001/generation.json is there: the "
        "deletion is not complete, or state was put back. Complete the deletion, or put back all objects, with those of "
        "lineages/; or request empty state with restore.source.empty (on the command line --restore-empty)."
    )
