"""A scenario: a name, what is done to a world under load, and what may be different afterwards."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from faults.loaded import LoadedWorld

Place = TypeVar("Place", bound=LoadedWorld)


class Expectation(enum.Enum):
    """What outputs may look like after a scenario."""

    EXACT = "exact"
    """Nothing lost, repeated or different, in no output and no state."""
    REPEATS = "repeats"
    """The newest snapshot is gone, so the job goes back: sinks that cannot withdraw show what followed it once more, and
    nothing else may be wrong (docs/sinks.md)."""
    STOPS = "stops"
    """A person has to decide: what came out is right and out once, and the rest has not been skipped, but is not there."""
    MEASURED = "measured"
    """Anything: what comes out is what is to be known."""


@dataclass(frozen=True, slots=True)
class Scenario(Generic[Place]):
    """A fault, or a row of them.

    Attributes:
        name: Under which it is run and reported.
        act: What is done, while the load goes on.
        expects: What the outputs may look like.
        disk_bytes: Size of a disk of its own for what Spark keeps locally; 0 for the machine's.
        has_own_clock: Whether the drivers' clock can be set.
        is_long: Whether it takes more than some minutes.
        leaves_job_running: Whether the job goes on in the root where it was, so that another scenario may follow.
        packs_all: Whether all changes of keyed state go into packs, which by itself only large ones do.
        has_executors: Whether tasks run in executors of their own, on two nodes.
    """

    name: str
    act: Callable[[Place], None]
    expects: Expectation = Expectation.EXACT
    disk_bytes: int = 0
    has_own_clock: bool = False
    is_long: bool = False
    leaves_job_running: bool = False
    packs_all: bool = False
    has_executors: bool = False
