"""The same drivers in a world that goes back, comes twice, or is copied: what a reader of the sink sees, by its rows.

`pytest tests/simulation/test_outside.py --simulation-seeds=20000` lives more runs of each accident.
"""

from __future__ import annotations

import pytest
from simulation import accidents, notmended, outside, runs

SEEDS_FOR_ONE = 20
"""Runs without an accident for each run of each accident."""


@pytest.mark.parametrize("accident", [notmended.expected(accident) for accident in accidents.ACCIDENTS])
def test_no_row_is_lost_or_repeated_without_a_word(request: pytest.FixtureRequest, accident: str) -> None:
    one = request.config.getoption("simulation_seed")
    first = request.config.getoption("simulation_first")
    count = request.config.getoption("simulation_seeds") // SEEDS_FOR_ONE
    for seed in range(first, first + count) if one is None else [one]:
        script = outside.script_of(seed, accident)
        outcome = runs.run_outside(seed, script)
        assert outcome.broken is None, runs.told(seed, outcome, script, runs.run_outside)
