"""Random lives of a job under faults: nothing is lost, nothing repeated, nobody goes on who was replaced.

`pytest tests/rig --rig-seed=123 --rig-cycles=60` lives another life; a failure tells its seed and its story. Python's hash
seed has a say in the order of some requests: `PYTHONHASHSEED=0` in front makes a story repeatable from run to run.
"""

from __future__ import annotations

import functools
import re

import pytest
from faultrig import life
from faultrig.world import World

SEEDS = (1, 2, 3, 4, 5, 6)
_UNIQUE = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        asked = metafunc.config.getoption("rig_seed")
        metafunc.parametrize("seed", SEEDS if asked is None else [asked])


def test_a_life_under_faults_loses_nothing_and_repeats_nothing(seed: int, request: pytest.FixtureRequest) -> None:
    _lived(seed, request.config.getoption("rig_cycles"))


def test_a_seed_tells_the_same_story_again() -> None:
    assert _story(11) == _story(11)


def test_every_start_and_every_deed_happens_sooner_or_later() -> None:
    """A weight that became 0, or a precondition that never holds, would leave something out without a word."""
    wanted = {*life.STARTS, *life.DEEDS}
    for seed in (*SEEDS, *range(100, 130)):
        wanted -= _lived(seed, 10)
        if not wanted:
            return
    raise AssertionError(f"these never happen: {sorted(wanted)}")


def test_a_life_in_which_each_batch_is_shown_loses_nothing_and_repeats_nothing(
    seed: int, request: pytest.FixtureRequest
) -> None:
    """Sinks that do not wait for a checkpoint; going back behind what they have shown needs the word."""
    _lived(seed, request.config.getoption("rig_cycles"), "batch")


def test_going_back_behind_what_was_shown_happens_and_is_refused() -> None:
    assert any("with the word" in _lived(seed, 10, "batch") for seed in SEEDS)


@functools.cache
def _lived(seed: int, cycles: int, visible: str = "checkpoint") -> frozenset[str]:
    """Live a life, once; return what happened in it."""
    with World(seed, visible).entered() as world:
        lived = life.Life(world)
        lived.run(cycles)
        return frozenset(lived.done)


def _story(seed: int) -> list[str]:
    with World(seed).entered() as world:
        life.Life(world).run(4)
        return [_UNIQUE.sub("...", line) for line in world.journal]
