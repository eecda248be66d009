"""The relation between the committed output of a sink and a start of the job: own, inherited, ahead or foreign. Pure.

Positions (generation, batch) are ordered within one lineage, which is one state root. A start knows its own lineage and the
snapshots (cuts) through which it descends from others, so the positions that a sink may have stored are totally
ordered: those of ancestors, the oldest first, each up to its cut; then its own. Any other position is foreign.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """The relation of the lineage that last opened a sink to the lineage of this start."""

    NEW = "new"
    """The sink was never opened."""
    OWN = "own"
    """The lineage of this root: continue."""
    INHERITED = "inherited"
    """An ancestor of this root that committed nothing after the restored cut: continue."""
    AHEAD = "ahead"
    """An ancestor of this root that committed batches after the restored cut."""
    FOREIGN = "foreign"
    """A root that is not an ancestor of this one."""


@dataclass(frozen=True, slots=True)
class Position:
    """A batch.

    Attributes:
        lineage: Its lineage; None if a release without lineages wrote it.
        generation: Its generation in that lineage.
        batch_id: The batch; -1 for none of the generation.
    """

    lineage: str | None
    generation: int
    batch_id: int


@dataclass(frozen=True, slots=True)
class SinkLineage:
    """The lineage of a driver that opens a sink, with its ancestors.

    Attributes:
        lineage: Lineage of the driver's root.
        generation: Generation of the driver; a restored batch may be of an older one. None if irrelevant.
        root: URI of that root, for information.
        cuts: Ancestors of the state, the oldest first: the last batch of this query in each restored snapshot.
        unnamed: Lineage of positions without one, for a root that is older than lineages.
        takes_over: Whether the user allows writing to a sink with any content.
        line: For a sink that shows each batch, its last batch in each older generation of this lineage that the state
            descends from; None if what the sink has shown is not compared with it.
        known_from: Generations below this number count as contained, because nothing is known of them any more.
    """

    lineage: str | None = None
    generation: int | None = None
    root: str | None = None
    cuts: tuple[Position, ...] = ()
    unnamed: str | None = None
    takes_over: bool = False
    line: tuple[Position, ...] | None = None
    known_from: int = 0

    def named(self, lineage: str | None) -> str | None:
        """Return a lineage, with the default for positions without one."""
        return self.unnamed if lineage is None else lineage

    def is_own(self, lineage: str | None) -> bool:
        """Tell whether a lineage is that of this root."""
        return self.named(lineage) == self.lineage

    def order(self, position: Position) -> tuple[int, int, int] | None:
        """Return the sort key of a position; None for a foreign one.

        A batch of a release without lineages that is in no cut is older than all others: the first start with lineages has
        committed all batches that were prepared before.
        """
        lineage = self.named(position.lineage)
        batch_order = (position.generation, position.batch_id)
        later = (-1, *batch_order) if lineage is None else None
        for index, cut in enumerate(self.cuts):
            if self.named(cut.lineage) == lineage:
                if position.generation <= cut.generation:
                    return (index, *batch_order)
                later = (index, *batch_order)
        return (len(self.cuts), *batch_order) if lineage == self.lineage else later

    def standing(self, opener: str | None, reached: Position) -> Standing:
        """Return the relation of a sink to this start.

        Args:
            opener: The lineage that opened it last.
            reached: Its last committed position.
        """
        if self.is_own(opener):
            return Standing.OWN
        cut = next((cut for cut in reversed(self.cuts) if self.named(cut.lineage) == self.named(opener)), None)
        if cut is None:
            return Standing.FOREIGN
        reached_order, limit = self.order(reached), self.order(cut)
        return Standing.AHEAD if reached_order is None or limit is None or reached_order > limit else Standing.INHERITED

    def is_left_behind(self, reached: Position, restored: Position) -> bool:
        """Tell whether a batch that this lineage has shown is not in the state of this start.

        Such a batch was shown by a sink that shows each batch, and the job goes back to before it: its records would be
        produced again, perhaps in other batches.

        Args:
            reached: The last batch that the sink has committed.
            restored: The batch after which this start continues.
        """
        if self.line is None or reached.batch_id < 0:
            return False
        if not self.is_own(reached.lineage):
            return self._is_after_cut(reached)
        if reached.generation == restored.generation:
            return reached.batch_id > restored.batch_id
        contained = next((cut for cut in self.line if cut.generation == reached.generation), None)
        if contained is not None:
            return reached.batch_id > contained.batch_id
        return reached.generation >= self.known_from

    def _is_after_cut(self, reached: Position) -> bool:
        cut = next((cut for cut in reversed(self.cuts) if self.named(cut.lineage) == self.named(reached.lineage)), None)
        if cut is None:
            return False
        reached_order, limit = self.order(reached), self.order(cut)
        return reached_order is not None and limit is not None and reached_order > limit
