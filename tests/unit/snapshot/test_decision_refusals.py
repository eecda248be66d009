"""When the decision where to start refuses: by reason, with what was found, and only then."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from statefulspark import errors
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord
from statefulspark.snapshot import decision, generations
from statefulspark.snapshot.decision import Candidate, Intent

_SNAPSHOT = RestoreConfig(snapshot="checkpoint:1")
_UNREADABLE = "generations/00000001/generation.json is damaged."


def _a_generation(number: int = 1, *, source: str | None = None, parent: int | None = None) -> GenerationRecord:
    return GenerationRecord(
        generation=number,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        epoch=1,
        source=source,
        restored_from=source,
        parent_generation=parent,
    )


def _a_situation(
    restore: RestoreConfig = _SNAPSHOT,
    *,
    current: GenerationRecord | None = None,
    problem: str | None = None,
    found: tuple[int, int, bool] = (0, 0, False),
) -> decision.Situation:
    checkpoints, savepoints, unfinished = found
    return decision.Situation(restore, current, unfinished, checkpoints, savepoints, "memory://test", problem)


def test_a_restore_is_refused_while_it_cannot_be_told_whether_it_was_done() -> None:
    """Doing it twice would throw away what was written since."""
    with pytest.raises(errors.StateUnknownError) as refused:
        decision.decide(_a_situation(current=_a_generation(), problem=_UNREADABLE))

    assert refused.value.reason == "RestoreUnknown"
    assert refused.value.message == (
        f"{_UNREADABLE} It says whether the restore 'checkpoint:1' was done, so it cannot be told what to do. "
        "Ask for no restore to go on from the newest checkpoint."
    )


def test_a_record_that_cannot_be_read_matters_to_a_restore_only() -> None:
    situation = _a_situation(RestoreConfig(), current=_a_generation(), problem=_UNREADABLE)

    assert decision.decide(situation) is Intent.RECOVER


def test_a_restore_with_a_record_that_can_be_read_is_done() -> None:
    assert decision.decide(_a_situation(current=_a_generation())) is Intent.RESTORE


def test_leftovers_are_all_named() -> None:
    """An empty start beside any of them would look like a loss."""
    with pytest.raises(errors.StateUnknownError) as refused:
        decision.decide(_a_situation(RestoreConfig(), found=(2, 3, True)))

    assert refused.value.reason == "StateWithoutCheckpoint"
    assert "2 checkpoints, 3 savepoints, files of an unfinished generation" in refused.value.message


def test_without_any_checkpoint_only_beginnings_are_left() -> None:
    known = generations.Generations((_a_generation(1), _a_generation(2, source="checkpoint:2", parent=1)), 2)

    assert decision.candidates(known, {}) == (Candidate(None, 2), Candidate(None, 1))


def test_a_generation_that_follows_a_beginning_leaves_every_checkpoint_of_its_parent() -> None:
    """A source that is no checkpoint limits nothing."""
    known = generations.Generations((_a_generation(1), _a_generation(2, parent=1)), 2)

    assert decision.candidates(known, {1: 1, 2: 1}) == (
        Candidate(None, 2), Candidate(2, 1), Candidate(1, 1), Candidate(None, 1),
    )  # fmt: skip
