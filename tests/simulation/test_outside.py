"""The same drivers in a world that goes back, comes twice, or is copied: what a reader of the sink sees, by its rows.

`pytest tests/simulation/test_outside.py --simulation-seeds=20000` lives more runs of each accident.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from simulation import accidents, outside, runs

SEEDS_FOR_ONE = 20
"""Runs without an accident for each run of each accident."""
NOT_MENDED_YET: Mapping[str, str] = {
    "store_put_back": "a sink that is ahead of the state in its own generation drops the batches that come again",
    "store_failover_to_replica": "a sink that is ahead of the state in its own generation drops the batches that come again",
    "root_synced_over_itself": "the head is made of files of two lives of the root",
    "sink_failover": "a driver does not compare what it has committed with what the sink has",
    "sink_restored_to_backup": "a start does not compare what was committed with what the sink has",
    "savepoint_and_sink_restored_to_same_moment": "a savepoint does not have the staged rows that it names",
    "second_site_awakes": "two drivers of equal epochs take each other for themselves",
    "take_over_left_in_two_manifests": "a word to take a sink over counts at every start",
    "manifest_applied_again": "storage remembers the latest restore only",
    "fresh_state_applied_again": "storage remembers the latest restore only",
    "back_to_what_a_restore_left": "what a restore leaves behind is deleted as if it had been retained",
    "sink_loses_its_marker": "a marker that is gone is taken for a new sink",
    "back_and_forward": "a batch of an older generation counts as committed when a newer one has committed any",
    "job_renamed_from_savepoint": "a sink does not know the job by its old name",
    "purge_with_zombie": "the fence is deleted with the state",
}
"""What breaks, and why; an entry whose cause is mended fails until it is removed."""


def _named(accident: str) -> object:
    reason = NOT_MENDED_YET.get(accident)
    marks = [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)] if reason else []
    return pytest.param(accident, marks=marks)


@pytest.mark.parametrize("accident", [_named(accident) for accident in accidents.ACCIDENTS])
def test_no_row_is_lost_or_repeated_without_a_word(request: pytest.FixtureRequest, accident: str) -> None:
    one = request.config.getoption("simulation_seed")
    first = request.config.getoption("simulation_first")
    count = request.config.getoption("simulation_seeds") // SEEDS_FOR_ONE
    for seed in range(first, first + count) if one is None else [one]:
        script = outside.script_of(seed, accident)
        outcome = runs.run_outside(seed, script)
        assert outcome.broken is None, runs.told(seed, outcome, script, runs.run_outside)


def test_what_is_not_mended_is_named_as_it_happens() -> None:
    assert NOT_MENDED_YET.keys() <= accidents.ACCIDENTS.keys()
