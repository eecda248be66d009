"""The protocol of epochs, generations, checkpoints, savepoints, pruning and standbys, in thousands of interleavings.

`pytest tests/simulation --simulation-seeds=20000` lives more runs (or `SIMULATION_SEEDS=20000`), `--simulation-first` other
ones, and `--simulation-seed=123` the run of one seed again.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from faultrig import faults
from simulation import invariants, moves, runs

_STORIES = """
import hashlib, logging
from simulation import accidents, outside, runs
logging.disable(logging.CRITICAL)
stories = [runs.run(seed).story for seed in range(12)]
stories += [runs.run_outside(1, outside.script_of(1, accident)).story for accident in accidents.ACCIDENTS]
print([hashlib.sha256(story.encode()).hexdigest() for story in stories])
"""


def _commit(kind: faults.Kind) -> moves.Move:
    return moves.Move(moves.Kind.FAULT, 0, 0, faults.Fault(kind, 0, "/commits/", "create"))


_LOST_RACE = (
    moves.Move(moves.Kind.START, 0, None),
    moves.Move(moves.Kind.AGE, 0, None),
    _commit(faults.Kind.DELAY),
    moves.Move(moves.Kind.BATCHES, 0, None),
    _commit(faults.Kind.FREEZE),
    moves.Move(moves.Kind.START, 1, None),
    moves.Move(moves.Kind.DELIVER, 0, 0),
    moves.Move(moves.Kind.WAKE, 0, None),
    moves.Move(moves.Kind.START, 1, None),
    moves.Move(moves.Kind.BATCHES, 0, None),
    moves.Move(moves.Kind.CHECKPOINT, 0, None),
)


def test_no_invariant_breaks_in_any_run(request: pytest.FixtureRequest) -> None:
    one = request.config.getoption("simulation_seed")
    first = request.config.getoption("simulation_first")
    count = request.config.getoption("simulation_seeds")
    for seed in range(first, first + count) if one is None else [one]:
        outcome = runs.run(seed)
        assert outcome.broken is None, runs.told(seed, outcome)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_visible_of_a_batch_is_of_the_driver_that_has_committed_it(seed: int) -> None:
    """A driver that was replaced commits while its successor, whose user code gives other rows, has prepared the batch."""
    outcome = runs.run(seed, _LOST_RACE)

    assert outcome.broken is None, runs.told(seed, outcome, _LOST_RACE)


def test_a_seed_tells_the_same_run_in_every_process() -> None:
    """Python's own hash seed must have no say either, or a failure of yesterday could not be seen today."""
    stories = {_stories(hash_seed) for hash_seed in ("0", "1")}

    assert len(stories) == 1


def test_every_kind_of_move_and_fault_is_among_the_first_runs() -> None:
    script = [move for seed in range(100) for move in moves.moves_of(seed, runs.LENGTH)]

    assert {move.kind for move in script} == set(moves.Kind) - {moves.Kind.ACCIDENT}
    assert {move.fault.kind for move in script if move.fault} == set(moves.FAULTS)


def test_every_invariant_says_what_it_promises() -> None:
    rules = (
        *(*invariants.AT_EVERY_EFFECT, *invariants.WHEN_SHOWN, *invariants.OF_A_START),
        *(*invariants.AT_REST, *invariants.OUTSIDE),
    )

    assert all((rule.__doc__ or "").endswith((".\n    ", ".")) for rule in rules)


def test_the_page_of_recovery_lists_every_invariant() -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs" / "recovery.md").read_text()
    section = page.partition("## What holds in every interleaving")[2]
    listed = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)

    assert sorted(listed) == sorted(invariants.NAMES)


def _stories(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", _STORIES], env=environment, check=True, capture_output=True, text=True
    )
    return ended.stdout
