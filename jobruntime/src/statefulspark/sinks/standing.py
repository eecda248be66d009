"""What a sink is to a start, when it remembers what was committed to it: its own, inherited, ahead, or a stranger's. Pure.

Positions (generation, batch) count within one lineage: a root of state. A start knows its own lineage, and through which
cut it descends from which others, so every position that a sink may remember has a place in one line: those of ancestors,
the oldest first, each up to its cut; then its own. What has no place there is somebody else's, and never guessed about.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """What the state that last opened a sink is to the state of this start."""

    NEW = "new"
    """Nothing has opened the sink."""
    OWN = "own"
    """It was this root: go on."""
    INHERITED = "inherited"
    """It was a root that this one descends from, and committed nothing that the restored cut lacks: go on."""
    AHEAD = "ahead"
    """It was such a root, and it has committed more than the restored cut contains."""
    FOREIGN = "foreign"
    """It was another root, or one that this one does not descend from."""


@dataclass(frozen=True, slots=True)
class Position:
    """A batch.

    Attributes:
        lineage: Where it ran; None if a release without lineages wrote it.
        generation: Of that lineage.
        batch_id: The batch; -1 for none of the generation.
    """

    lineage: str | None
    generation: int
    batch_id: int


@dataclass(frozen=True, slots=True)
class Descent:
    """Who opens a sink, as far as lineages go.

    Attributes:
        lineage: Of the driver's root.
        generation: In which the driver runs; a batch that it restored may be of an older one. None if it does not matter.
        root: URI of that root, for people.
        cuts: What the state descends from, the oldest first: the last batch of this query that each cut contains.
        unnamed: The lineage of positions that name none, for a root that is older than lineages.
        takes_over: Somebody's explicit word to write to a sink whatever it holds.
    """

    lineage: str | None = None
    generation: int | None = None
    root: str | None = None
    cuts: tuple[Position, ...] = ()
    unnamed: str | None = None
    takes_over: bool = False

    def named(self, lineage: str | None) -> str | None:
        """Return a lineage that may not have been named, by its name."""
        return self.unnamed if lineage is None else lineage

    def is_own(self, lineage: str | None) -> bool:
        """Tell whether a lineage is this root's."""
        return self.named(lineage) == self.lineage

    def order(self, position: Position) -> tuple[int, int, int] | None:
        """Return what positions are compared by; None for one that has no place in this line.

        A batch of a release without lineages that no cut names is older than all: the first start with lineages has
        committed what was prepared then.
        """
        lineage = self.named(position.lineage)
        place = (position.generation, position.batch_id)
        later = (-1, *place) if lineage is None else None
        for index, cut in enumerate(self.cuts):
            if self.named(cut.lineage) == lineage:
                if position.generation <= cut.generation:
                    return (index, *place)
                later = (index, *place)
        return (len(self.cuts), *place) if lineage == self.lineage else later

    def standing(self, opener: str | None, reached: Position) -> Standing:
        """Tell what a sink is to this start.

        Args:
            opener: The lineage that opened it last.
            reached: Through which batch it is committed.
        """
        if self.is_own(opener):
            return Standing.OWN
        cut = next((cut for cut in reversed(self.cuts) if self.named(cut.lineage) == self.named(opener)), None)
        if cut is None:
            return Standing.FOREIGN
        place, limit = self.order(reached), self.order(cut)
        return Standing.AHEAD if place is None or limit is None or place > limit else Standing.INHERITED
