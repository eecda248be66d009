"""What an operator, a person and the network do in a run: a list of moves, made from a seed and shrunk when one fails.

A move is data. What it chooses among (a driver, a snapshot) is named by a number that is taken modulo what there is, so that
a list with moves left out is still a run.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from faultrig import faults


class Kind(StrEnum):
    """What is done."""

    START = "start a driver"
    RIVAL = "start a driver, or two, beside the one that runs"
    KILL = "kill the newest driver"
    FREEZE = "freeze the newest driver"
    WAKE = "wake a frozen process"
    STOP = "stop with a savepoint"
    BATCHES = "let batches run"
    CHECKPOINT = "ask for a checkpoint"
    AGE = "let batches run, ask for a checkpoint, and let the grace of pruning pass"
    SAVEPOINT = "ask for a savepoint"
    STANDBY = "start a standby"
    LOOK = "let a standby look"
    ACTIVATE = "make a standby the driver"
    CHANGE = "start a driver with another plan"
    GO_BACK = "start a driver from an older snapshot"
    DISPOSE = "dispose of a savepoint"
    DELIVER = "let a late request arrive"
    WAIT = "let time pass"
    FAULT = "let a request go wrong"
    ACCIDENT = "let the world around the job change"
    """Which one, its name says; see `accidents`. It is in no run that the seed alone decides."""


WEIGHTS: Mapping[Kind, int] = {
    Kind.START: 6,
    Kind.RIVAL: 4,
    Kind.KILL: 3,
    Kind.FREEZE: 2,
    Kind.WAKE: 3,
    Kind.STOP: 2,
    Kind.BATCHES: 7,
    Kind.CHECKPOINT: 5,
    Kind.AGE: 10,
    Kind.SAVEPOINT: 2,
    Kind.STANDBY: 3,
    Kind.LOOK: 1,
    Kind.ACTIVATE: 3,
    Kind.CHANGE: 3,
    Kind.GO_BACK: 2,
    Kind.DISPOSE: 1,
    Kind.DELIVER: 2,
    Kind.WAIT: 2,
    Kind.FAULT: 22,
}
_ALWAYS = (Kind.START, Kind.BATCHES, Kind.CHECKPOINT)
USUAL: Mapping[Kind, int] = {
    Kind.START: 5,
    Kind.KILL: 2,
    Kind.FREEZE: 1,
    Kind.WAKE: 1,
    Kind.STOP: 1,
    Kind.BATCHES: 8,
    Kind.CHECKPOINT: 6,
    Kind.AGE: 6,
    Kind.SAVEPOINT: 1,
    Kind.WAIT: 2,
    Kind.FAULT: 2,
}
"""What happens before and after an accident."""
_LEFT_OUT = 0.35
"""How many of the other kinds a run does without: what is left is tried more often in a row."""
_FOCUSED = 40
STEPS = (0, 2, 5, 15, 40, 100, None, None, None)
"""Steps of the scheduler after a move; None until everybody rests."""
FAULTS: Mapping[faults.Kind, int] = {
    faults.Kind.KILL_BEFORE: 1,
    faults.Kind.KILL_AFTER: 1,
    faults.Kind.FREEZE: 3,
    faults.Kind.LOSE: 2,
    faults.Kind.DELAY: 2,
    faults.Kind.REPEAT: 1,
    faults.Kind.OUTAGE: 1,
}
PLACES = (
    "",
    "",
    "",
    "_metadata.json",
    "_metadata.json",
    "reserved.json",
    "generation.json",
    "/commits/",
    "/offsets/",
    "epochs/",
    "ledger",
)
PLACES_OF_PRUNING = ("prune/", "checkpoints/", "savepoints/", "state/")
WAITS_S = (1, 70, 700)


@dataclass(frozen=True, slots=True)
class Move:
    """One thing that is done, and how long everybody runs before the next.

    Attributes:
        kind: What.
        choice: Names what it is done to, among what there is then.
        steps: Steps of the scheduler after it; None until everybody rests.
        fault: What goes wrong, of a `FAULT`.
        name: Of an `ACCIDENT`.
    """

    kind: Kind
    choice: int
    steps: int | None
    fault: faults.Fault | None = None
    name: str = ""

    def __str__(self) -> str:
        after = "until everybody rests" if self.steps is None else f"{self.steps} steps"
        what = f" ({self.fault.kind} {self.fault.name or '*'} {self.fault.matches or '*'})" if self.fault else ""
        return f"{self.name.replace('_', ' ') or self.kind.value}{what}, then {after}"


def moves_of(seed: int, length: int, focus: Collection[Kind] = ()) -> tuple[Move, ...]:
    """Return the moves that a seed stands for; the first one is a start.

    Args:
        seed: Any.
        length: How many.
        focus: Kinds that happen more often.
    """
    chance = random.Random(f"moves {seed}")
    first = Move(Kind.START, 0, chance.choice(STEPS))
    weights = {kind: weight * _emphasis(kind, chance) for kind, weight in WEIGHTS.items()}
    weights |= dict.fromkeys(focus, _FOCUSED)
    kinds = chance.choices(list(weights), list(weights.values()), k=length - 1)
    return (first, *(one(kind, chance) for kind in kinds))


def _emphasis(kind: Kind, chance: random.Random) -> int:
    return 0 if kind not in _ALWAYS and chance.random() < _LEFT_OUT else chance.choice((1, 1, 3))


def one(kind: Kind, chance: random.Random) -> Move:
    """Return a move of a kind."""
    fault = a_fault(chance) if kind is Kind.FAULT else None
    steps = 0 if kind is Kind.FAULT else chance.choice(STEPS)
    return Move(kind, chance.randrange(60), steps, fault)


def a_fault(chance: random.Random) -> faults.Fault:
    """Return something that goes wrong."""
    kind = chance.choices(list(FAULTS), list(FAULTS.values()))[0]
    deletes = kind in (faults.Kind.DELAY, faults.Kind.REPEAT, faults.Kind.FREEZE) and chance.random() < 0.3
    place = chance.choice(PLACES_OF_PRUNING if deletes else PLACES)
    after = chance.choice((0, 0, 1, 2)) if place else chance.randint(0, 12)
    return faults.Fault(kind, after, place, "delete" if deletes else "")
