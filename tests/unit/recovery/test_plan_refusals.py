"""When the decision where to start refuses: by reason, with what was found, and only then."""

from __future__ import annotations

import pytest
from manifests import a_generation
from restores import a_restore
from startsituations import a_start_situation
from statefulspark import errors
from statefulspark.contract.config import RestoreConfig
from statefulspark.recovery import generations
from statefulspark.recovery.plan import CandidateName, Intent, decide, order_candidates

_SNAPSHOT = a_restore(snapshot="checkpoint:1")
_UNREADABLE = "generations/00000001/generation.json is damaged."


def test_a_restore_is_refused_while_it_cannot_be_told_whether_it_was_done() -> None:
    """Doing it twice would throw away what was written since."""
    with pytest.raises(errors.StateUnknownError) as refused:
        decide(a_start_situation(_SNAPSHOT, a_generation(), problem=_UNREADABLE))

    assert refused.value.reason == "RestoreUnknown"
    assert refused.value.message == (
        f"{_UNREADABLE} Without it, it is unknown whether the restore 'checkpoint:1' was done. "
        "Request no restore to continue from the newest checkpoint."
    )


def test_a_record_that_cannot_be_read_matters_to_a_restore_only() -> None:
    situation = a_start_situation(RestoreConfig(), current=a_generation(), problem=_UNREADABLE)

    assert decide(situation) is Intent.RECOVER


def test_a_restore_with_a_record_that_can_be_read_is_done() -> None:
    assert decide(a_start_situation(_SNAPSHOT, a_generation())) is Intent.RESTORE


def test_leftovers_are_all_named() -> None:
    """An empty start beside any of them would look like a loss."""
    with pytest.raises(errors.StateUnknownError) as refused:
        decide(a_start_situation(RestoreConfig(), checkpoints=2, savepoints=3, unfinished=True))

    assert refused.value.reason == "StateWithoutCheckpoint"
    assert "2 checkpoints, 3 savepoints, files of an unfinished generation" in refused.value.message


def test_without_any_checkpoint_only_beginnings_are_left() -> None:
    known = generations.Generations((a_generation(1), a_generation(2, source="checkpoint:2", parent=1)), 2)

    assert order_candidates(known, {}) == (CandidateName(None, 2), CandidateName(None, 1))


def test_a_generation_that_follows_a_beginning_leaves_every_checkpoint_of_its_parent() -> None:
    """A source that is no checkpoint limits nothing."""
    known = generations.Generations((a_generation(1), a_generation(2, parent=1)), 2)

    assert order_candidates(known, {1: 1, 2: 1}) == (
        CandidateName(None, 2), CandidateName(2, 1), CandidateName(1, 1), CandidateName(None, 1),
    )  # fmt: skip
