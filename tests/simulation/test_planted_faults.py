"""The simulation itself: each fault that is planted in the product breaks the invariant about it, within few runs."""

from __future__ import annotations

import re

import pytest
from simulation import invariants, plants, runs

WITHIN = 150
"""Runs; most plants need fewer than ten."""


@pytest.mark.parametrize("name", plants.PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    plant = plants.PLANTS[name]
    with plant.plant():
        found = any(plant.is_found(seed) for seed in range(WITHIN))

    assert found, f"{plant.breaks} holds in {WITHIN} runs"


def test_every_invariant_is_broken_by_some_plant() -> None:
    assert {plant.breaks for plant in plants.PLANTS.values()} == set(invariants.NAMES)


def test_a_failure_is_told_in_as_few_moves_as_it_takes() -> None:
    plant = plants.PLANTS["the engine has no fence, and nobody looks"]
    with plant.plant():
        broken = ((seed, runs.run(seed, watched=[plant.breaks])) for seed in range(WITHIN))
        seed, outcome = next((seed, outcome) for seed, outcome in broken if outcome.broken)
        told = runs.told(seed, outcome)

    sentence, again, shortest, *moves_and_effects = told.splitlines()
    assert sentence.startswith("who_was_replaced_has_ended is broken: ")
    assert f"--simulation-seed={seed}" in again
    assert re.match(r"the shortest of its runs, [1-4] of \d+ moves:", shortest)
    assert any("the faults end" in line for line in moves_and_effects)
