"""Random lives of a job under faults: nothing is lost, nothing repeated, nobody goes on who was replaced.

`pytest tests/rig --rig-seed=123 --rig-cycles=60` lives another life; a failure tells its seed and its story. Python's hash
seed has a say in the order of some requests: `PYTHONHASHSEED=0` in front makes a story repeatable from run to run.
"""

from __future__ import annotations

import re

import pytest
from faultrig import life
from faultrig.world import World

SEEDS = (1, 2, 3, 4, 5, 17)
_UNIQUE = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        asked = metafunc.config.getoption("rig_seed")
        metafunc.parametrize("seed", SEEDS if asked is None else [asked])


def test_a_life_under_faults_loses_nothing_and_repeats_nothing(seed: int, request: pytest.FixtureRequest) -> None:
    with World(seed).entered() as world:
        life.Life(world).run(request.config.getoption("rig_cycles"))


def test_a_seed_tells_the_same_story_again() -> None:
    assert _story(11) == _story(11)


def test_every_start_and_every_deed_happens_in_the_lives_of_the_suite() -> None:
    """A weight that became 0, or a precondition that never holds, would leave something out without a word."""
    done = {thing for seed in SEEDS for thing in _lived(seed, 10).done}

    assert {*life.STARTS, *life.DEEDS} <= done


def _lived(seed: int, cycles: int) -> life.Life:
    with World(seed).entered() as world:
        lived = life.Life(world)
        lived.run(cycles)
        return lived


def _story(seed: int) -> list[str]:
    return [_UNIQUE.sub("...", line) for line in _lived(seed, 4).world.journal]
