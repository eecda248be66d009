"""The history of a generation: which batches of older generations of its lineage its state contains.

A restore makes a new generation from a cut, so the generations of a root are a tree, and what a sink has shown may lie on a
branch that a start does not descend from. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark.contract.manifest import Ancestor, GenerationRecord
from statefulspark.recovery.generations import Generations


@dataclass(frozen=True, slots=True)
class History:
    """The cuts of its own lineage that a generation descends from.

    Attributes:
        cuts: One for each older generation that it descends from, the newest first.
        known_from: Nothing is known of generations below this number, because their records are gone; they count as
            contained. 0 if the history is complete.
    """

    cuts: tuple[Ancestor, ...] = ()
    known_from: int = 0


def of(generations: Generations, generation: int) -> History:
    """Return the history of a generation.

    Args:
        generations: Every generation of the root.
        generation: Its number.
    """
    record = generations.record(generation)
    if record is None or generation in generations.unreadable:
        return History(known_from=generation)
    cut = _cut_of(record)
    if cut is not None:
        return from_cut(generations, cut, lineage=record.lineage)
    began_empty = record.source is None
    return History() if began_empty else History(known_from=generation)


def from_cut(generations: Generations, cut: Ancestor, *, lineage: str | None) -> History:
    """Return the history of a generation that is made from a cut.

    Args:
        generations: Every generation of the root.
        cut: The cut.
        lineage: Lineage of the generation; batches of others are no part of the history.
    """
    if cut.lineage != lineage:
        return History()
    before = of(generations, cut.generation)
    return History((cut, *before.cuts), before.known_from)


def _cut_of(record: GenerationRecord) -> Ancestor | None:
    """Return the cut that a generation was made from; None if a release that did not record it took a savepoint."""
    if record.cut is not None or record.parent_generation is None:
        return record.cut
    batches = {query.uid: query.batch_id for query in record.queries}
    return Ancestor(lineage=record.lineage, generation=record.parent_generation, batches=batches)
