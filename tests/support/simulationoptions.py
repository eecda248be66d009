"""Options of the simulation: other seeds, or more of them, without editing a test."""

from __future__ import annotations

import os

import pytest

SEEDS = 100
"""Of a normal run of the tests; `SIMULATION_SEEDS` in the environment is another number."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation", "the simulation of the protocol (tests/simulation)")
    group.addoption("--simulation-seed", type=int, help="live the run of this one seed")
    asked = int(os.environ.get("SIMULATION_SEEDS", SEEDS))
    group.addoption("--simulation-seeds", type=int, default=asked, help=f"how many runs to live (default: {asked})")
    group.addoption("--simulation-first", type=int, default=0, help="the seed of the first run (default: 0)")
