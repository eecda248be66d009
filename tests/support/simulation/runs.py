"""Runs by their seeds: run one, tell how it failed, and make its list of moves as short as it can be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from simulation import invariants, moves, outside
from simulation.world import Broken, Simulation

LENGTH = 14
"""Moves of a run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        broken: The first broken invariant; None if all hold.
        steps: Steps of the scheduler.
        story: What happened.
    """

    broken: Broken | None
    steps: int
    story: str


class Live(Protocol):
    """Lives moves in a world."""

    def __call__(self, seed: int, script: Sequence[moves.Move], *, watched: Iterable[str]) -> Outcome: ...


def run(seed: int, script: Sequence[moves.Move] | None = None, *, watched: Iterable[str] = invariants.NAMES) -> Outcome:
    """Live the run of a seed, or other moves in its order of things; it ends when a watched invariant breaks."""
    with Simulation(seed, watched).entered() as world:
        world.run(moves.moves_of(seed, LENGTH) if script is None else script)
        return Outcome(world.broken[0] if world.broken else None, world.scheduler.steps, world.story())


def run_outside(
    seed: int, script: Sequence[moves.Move], *, watched: Iterable[str] = invariants.OUTSIDE_NAMES
) -> Outcome:
    """Live moves among which is an accident of the outside."""
    with outside.Outside(seed, watched).entered() as world:
        world.run(script)
        return Outcome(world.broken[0] if world.broken else None, world.scheduler.steps, world.story())


def shrink(seed: int, script: Sequence[moves.Move], invariant: str, live: Live = run) -> tuple[moves.Move, ...]:
    """Leave out moves as long as the invariant breaks all the same."""
    shortest = tuple(script)
    position = len(shortest) - 1
    while position >= 0:
        without = (*shortest[:position], *shortest[position + 1 :])
        if live(seed, without, watched=[invariant]).broken is not None:
            shortest = without
        position -= 1
    return shortest


def told(seed: int, outcome: Outcome, script: Sequence[moves.Move] = (), live: Live = run) -> str:
    """Tell a failure with everything that is needed to see it again, in as few moves as possible.

    Args:
        seed: Of the run.
        outcome: How it failed.
        script: Its moves; none for those that the seed stands for.
        live: What lives them.
    """
    assert outcome.broken is not None
    all_moves = tuple(script) or moves.moves_of(seed, LENGTH)
    shortest = shrink(seed, all_moves, outcome.broken.invariant, live)
    again = live(seed, shortest, watched=[outcome.broken.invariant])
    shown = again.broken or outcome.broken
    return (
        f"{shown.invariant} is broken: {shown.what}\n"
        f"seed {seed}, again with: pytest tests/simulation --simulation-seed={seed}\n"
        f"the shortest of its runs, {len(shortest)} of {len(all_moves)} moves:\n  {again.story}"
    )
