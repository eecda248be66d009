"""The same drivers in a world that goes back, comes twice, or is copied: what a reader of the sink sees, by its rows.

`pytest tests/simulation/test_outside.py --simulation-seeds=20000` lives more runs of each accident.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from simulation import accidents, moves, outside, runs

SEEDS_FOR_ONE = 20
"""Runs without an accident for each run of each accident."""


@pytest.mark.parametrize("accident", accidents.ACCIDENTS)
def test_no_row_is_lost_or_repeated_without_a_word(request: pytest.FixtureRequest, accident: str) -> None:
    for seed in _seeds(request.config):
        _live(seed, outside.script_of(seed, accident))


def test_no_row_is_lost_or_repeated_by_accidents_that_follow_each_other(request: pytest.FixtureRequest) -> None:
    for seed in _seeds(request.config):
        _live(seed, outside.mixture_of(seed, list(accidents.ACCIDENTS)))


def test_a_generation_of_an_older_life_does_not_go_on_in_a_target_that_the_newer_one_has_written() -> None:
    """The root is copied over a life that went further: its newest generation is of that one, and the target is not."""
    further = moves.Move(moves.Kind.ACCIDENT, 34, None, name="back_and_forward")
    copied = moves.Move(moves.Kind.ACCIDENT, 58, None, name="root_synced_over_itself")

    _live(100026, (moves.Move(moves.Kind.START, 8, 15), further, moves.Move(moves.Kind.KILL, 58, 15), copied))


def test_a_target_that_is_put_back_to_another_life_of_the_root_is_not_taken_for_the_state_s_own() -> None:
    """The root is copied over a life that went further; then the target gets a backup of that life, with other batches."""
    kinds = moves.Kind
    begun = moves.Move(kinds.START, 0, 60), moves.Move(kinds.AGE, 6, None), moves.Move(kinds.BATCHES, 36, 60)
    further = moves.Move(kinds.AGE, 2, 2), moves.Move(kinds.WAKE, 9, None), moves.Move(kinds.AGE, 1, None)
    copied = moves.Move(kinds.ACCIDENT, 28, None, name="root_synced_over_itself")
    put_back = moves.Move(kinds.ACCIDENT, 4, 2, name="sink_restored_to_backup")

    _live(200291, (*begun, *further, copied, put_back))


def test_a_folder_that_lost_its_marker_and_files_that_wait_in_it_is_refused_with_both() -> None:
    """The target goes back to a backup and loses its marker: the rows that waited there for a checkpoint are gone."""
    kinds = moves.Kind
    begun = moves.Move(kinds.START, 42, None), moves.Move(kinds.AGE, 12, 2), moves.Move(kinds.WAIT, 53, None)
    put_back = moves.Move(kinds.ACCIDENT, 25, None, name="sink_restored_to_backup")
    cleaned = moves.Move(kinds.ACCIDENT, 18, 2, name="sink_marker_lost")

    _live(710303, (*begun, moves.Move(kinds.BATCHES, 49, 60), put_back, cleaned))


def test_a_target_that_goes_back_to_another_life_is_refused_although_the_state_had_as_many_batches_there() -> None:
    """Batches of one number and one generation are of two lives; which driver began after which batch tells them apart."""
    kinds = moves.Kind
    begun = moves.Move(kinds.START, 25, None), moves.Move(kinds.AGE, 11, 15), moves.Move(kinds.AGE, 26, None)
    further = moves.Move(kinds.START, 21, None), moves.Move(kinds.AGE, 5, 60), moves.Move(kinds.AGE, 43, None)
    copied = moves.Move(kinds.ACCIDENT, 32, None, name="root_synced_over_itself")
    put_back = moves.Move(kinds.ACCIDENT, 23, None, name="sink_went_back")

    _live(710315, (*begun, *further, copied, moves.Move(kinds.AGE, 52, 2), put_back))


def test_a_folder_whose_lost_batches_were_given_up_goes_on_although_they_stay_lost() -> None:
    """The next start commits the batches after them again. Each commit looks for the batch before it."""
    kinds = moves.Kind
    given_up = moves.Move(kinds.START, 13, None), moves.Move(kinds.ACCIDENT, 39, None, name="sink_went_back")
    renamed = moves.Move(kinds.ACCIDENT, 37, None, name="job_renamed_from_savepoint")
    later = moves.Move(kinds.BATCHES, 1, None), moves.Move(kinds.CHECKPOINT, 1, None)

    _live(745568, (*given_up, moves.Move(kinds.KILL, 35, 2), renamed, *later))


def test_a_right_to_continue_another_job_gives_up_no_row_that_the_target_has_lost_before_the_start() -> None:
    """The target fails over before the driver notices, and the job is renamed: the refusal then is the first to tell."""
    kinds = moves.Kind
    begun = moves.Move(kinds.START, 12, 15), moves.Move(kinds.AGE, 24, None)
    failed_over = moves.Move(kinds.ACCIDENT, 59, 2, name="sink_failover")
    renamed = moves.Move(kinds.ACCIDENT, 43, None, name="job_renamed_from_savepoint")

    _live(752620, (*begun, failed_over, renamed))


def test_a_right_that_was_given_for_rows_after_the_state_does_not_answer_for_a_marker_that_is_lost_meanwhile() -> None:
    """Then it is unknown which rows are there, and the refusal of the next start tells."""
    kinds = moves.Kind
    begun = moves.Move(kinds.START, 24, None), moves.Move(kinds.AGE, 18, None), moves.Move(kinds.AGE, 48, 60)
    put_back = moves.Move(kinds.ACCIDENT, 0, 2, name="store_put_back")
    cleaned = moves.Move(kinds.ACCIDENT, 42, None, name="sink_marker_lost")

    _live(752839, (*begun, put_back, cleaned))


def _seeds(config: pytest.Config) -> Iterable[int]:
    one, first = config.getoption("simulation_seed"), config.getoption("simulation_first")
    return [one] if one is not None else range(first, first + config.getoption("simulation_seeds") // SEEDS_FOR_ONE)


def _live(seed: int, script: tuple[moves.Move, ...]) -> None:
    outcome = runs.run_outside(seed, script)
    assert outcome.broken is None, runs.told(seed, outcome, script, runs.run_outside)
