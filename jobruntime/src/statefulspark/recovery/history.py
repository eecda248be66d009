"""The history of a generation: which batches of older generations of its lineage its state contains.

A restore makes a new generation from a cut, so the generations of a root are a tree, and what a sink has shown may lie on a
branch that a start does not descend from. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from statefulspark.contract.manifest import Ancestor
from statefulspark.recovery.generations import Generations
from statefulspark.recovery.plan import StartMode, StartPlan


@dataclass(frozen=True, slots=True)
class History:
    """The cuts of its own lineage that a generation descends from.

    Attributes:
        cuts: One for each older generation that it descends from, the newest first.
        known_from: Nothing is known of generations below this number, because their records are gone; they count as
            contained. 0 if the history is complete.
        went_back: The newest generation of them, itself included, that was made by going back on purpose or behind damage;
            0 if there is none.
        begun_in: The epoch in which each generation that is known was begun, itself included, the newest first.
    """

    cuts: tuple[Ancestor, ...] = ()
    known_from: int = 0
    went_back: int = 0
    begun_in: tuple[int, ...] = ()

    def begun_before(self, epoch: int) -> int:
        """Return the epoch in which the newest generation was begun that an earlier driver has begun; 0 for none."""
        return next((begun for begun in self.begun_in if begun < epoch), 0)


def trace(generations: Generations, generation: int) -> History:
    """Return the history of a generation.

    Args:
        generations: Every generation of the root.
        generation: Its number.
    """
    record = generations.record(generation)
    if record is None or generation in generations.unreadable:
        return History(known_from=generation)
    went_back = generation if record.goes_back else 0
    if record.cut is None:
        past = History(known_from=0 if record.source is None else generation, went_back=went_back)
    else:
        past = from_cut(generations, record.cut, lineage=record.lineage, went_back=went_back)
    return replace(past, begun_in=(record.epoch, *past.begun_in))


def from_cut(generations: Generations, cut: Ancestor, *, lineage: str | None, went_back: int = 0) -> History:
    """Return the history of a generation that is made from a cut.

    Args:
        generations: Every generation of the root.
        cut: The cut.
        lineage: Lineage of the generation; batches of others are no part of the history.
        went_back: Its number if it is made by going back; else 0.
    """
    if cut.lineage != lineage:
        return History(went_back=went_back)
    before = trace(generations, cut.generation)
    return replace(before, cuts=(cut, *before.cuts), went_back=went_back or before.went_back)


def goes_back(plan: StartPlan) -> bool:
    """Tell whether a plan makes its generation from state that was asked for, or that is older because of damage."""
    if plan.mode is StartMode.CONTINUE:
        return False
    return plan.mode is StartMode.EMPTY or plan.why_copied is not None or plan.fallback is not None
