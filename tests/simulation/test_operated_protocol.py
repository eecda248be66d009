"""The same invariants with the real operator in the loop: its own passes, between any two requests of the drivers."""

from __future__ import annotations

import pytest
from simulation import operated

SEEDS_FOR_ONE = 25
"""Runs without an operator for each run with one, which takes much longer."""


HAPPENINGS = {
    "whatever happens": operated.USUAL,
    "automatic rollback": operated.WRONG_REVISIONS,
    "resource of an older backup": operated.OLDER_RESOURCES,
    "stop whose answer is lost": operated.LOST_STOPS,
}


@pytest.mark.parametrize("what", HAPPENINGS)
def test_no_invariant_breaks_under_the_real_operator(request: pytest.FixtureRequest, what: str) -> None:
    one = request.config.getoption("simulation_seed")
    first = request.config.getoption("simulation_first")
    count = request.config.getoption("simulation_seeds") // SEEDS_FOR_ONE
    for seed in range(first, first + count) if one is None else [one]:
        outcome = operated.run(seed, HAPPENINGS[what])
        assert outcome.broken is None, f"{outcome.broken}\nseed {seed}\n  {outcome.story}"
