"""Compares what a start, storage and a sink know of one another: may the sink go on? Pure.

Batches are comparable within one generation of one lineage (a root of state). A sink's marker has the driver that opened it,
and one position for each generation that it has committed. A start knows its own lineage, the cuts through which its state
descends from older generations and other roots, and at least which batch the sink had when its snapshot was taken. Where
these differ, something else than the job went back or forward; `compare` says what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from statefulspark.contract.manifest import Position, SinkOpening
from statefulspark.contract.rights import SinkRight

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.sinks.marker import Marker

FOR_UNKNOWN_ROWS: tuple[SinkRight, ...] = (SinkRight.REPEAT, SinkRight.LOSE)
"""The rights to go on in front of a sink if it is unknown which rows are there."""
ClaimOf = Callable[[int], str | None]
"""Returns the id under which a driver claimed an epoch of this root; None if storage does not know the epoch."""


class Standing(StrEnum):
    """How a sink relates to the state of a start."""

    NEW = "new"
    """It was never opened, and the state knows of nothing in it: it begins."""
    EQUAL = "equal"
    """It has what the state knows it to have, and nothing that the state does not contain: it goes on."""
    WENT_BACK_ON_PURPOSE = "went back on purpose"
    """It has batches after the snapshot that somebody asked for: it goes on, and they are produced once more."""
    SINK_BEHIND_HEALABLE = "sink behind, healable"
    """It lacks batches that it had, and the state names their transactions: they are committed again."""
    SINK_BEHIND = "sink behind"
    """It lacks batches that it had, and nobody has their rows any more."""
    STATE_BEHIND = "state behind"
    """It has batches that the state does not contain: they would be produced once more."""
    REPLACED = "replaced"
    """A newer driver of this root has opened it."""
    OTHER_COPY = "other copy"
    """A driver of this lineage has opened it that storage does not know, or it has another batch of a number than the state:
    storage was put back, or there are two copies."""
    FOREIGN = "foreign"
    """A root has opened it that the state does not descend from."""
    MARKER_MISSING = "marker missing"
    """It has no marker, and the state knows that it had one."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a driver knows to be in a sink: a lower bound.

    Attributes:
        committed: The last batch that the sink has committed at least; None for none.
        kept_after: The last batch before those whose transactions the driver can commit again; None if it has them from the
            sink's first one on.
        elsewhere: The last batch that was committed to another target under the sink's uid; it is not repeated in this one.
        was_opened: Whether a driver had opened the sink, so that it has a marker, also if it had committed nothing.
        origin: The lineage in which the sink began, or a later one; None if the state does not tell.
        written: The batches whose transactions the driver can commit again, each with the epoch that wrote it.
        openings: The last drivers of this lineage that opened the sink, the newest last.
    """

    committed: Position | None = None
    kept_after: Position | None = None
    elsewhere: Position | None = None
    was_opened: bool = False
    origin: str | None = None
    written: tuple[tuple[int, int], ...] = ()
    openings: tuple[SinkOpening, ...] = ()


NOTHING_EXPECTED = Expected()


@dataclass(frozen=True, slots=True)
class SinkLineage:
    """The lineage of a driver that opens a sink, with its ancestors.

    Attributes:
        lineage: Lineage of the driver's root.
        generation: Generation of the driver; a restored batch may be of an older one. None if irrelevant.
        root: URI of that root, for information.
        cuts: Ancestors of the state, the oldest first: the last batch of this query in each restored snapshot.
        line: The last batch of this query in each older generation of this lineage that the state descends from.
        known_from: Generations below this number count as contained, because nothing is known of them any more.
        went_back: The newest generation of the line that was made by going back on purpose, where batches that are
            produced once more are accepted; 0 for none, and for a sink that has shown them before a checkpoint.
        rights: What a person allows: rows that come again, rows that stay missing.
        other_jobs: Jobs of other names from whose state this one started, the newest first.
    """

    lineage: str
    generation: int | None = None
    root: str = ""
    cuts: tuple[Position, ...] = ()
    line: tuple[Position, ...] = ()
    known_from: int = 0
    went_back: int = 0
    rights: frozenset[SinkRight] = frozenset()
    other_jobs: tuple[str, ...] = ()

    def position(self, batch_id: int, generation: int) -> Position:
        """Return the position of a batch of the state, in the generation that wrote it.

        Args:
            batch_id: The batch.
            generation: The generation of the driver, for a batch of no older one.
        """
        older = (last.generation for last in self.line if batch_id <= last.batch_id)
        return Position(lineage=self.lineage, generation=min(older, default=generation), batch_id=batch_id)

    def order(self, position: Position) -> tuple[int, int, int] | None:
        """Return the sort key of a position: ancestors first, each up to its cut, then its own; None for a foreign one."""
        batch_order = (position.generation, position.batch_id)
        later = None
        for index, cut in enumerate(self.cuts):
            if cut.lineage == position.lineage:
                if position.generation <= cut.generation:
                    return (index, *batch_order)
                later = (index, *batch_order)
        return (len(self.cuts), *batch_order) if position.lineage == self.lineage else later

    def contains(self, position: Position, restored: Position) -> bool:
        """Tell whether a batch is in the state of this start.

        Args:
            position: A batch that a sink has committed.
            restored: The batch after which this start continues.
        """
        cut = next((cut for cut in reversed(self.cuts) if cut.lineage == position.lineage), None)
        if position.lineage != self.lineage:
            return cut is not None and _is_up_to(position, cut)
        if position.generation == restored.generation:
            return position.batch_id <= restored.batch_id
        contained = next((last for last in self.line if last.generation == position.generation), None)
        if contained is not None:
            return position.batch_id <= contained.batch_id
        return position.generation < self.known_from or (cut is not None and _is_up_to(position, cut))


def compare(stored: Marker | None, context: SinkContext) -> Standing:
    """Compare what a start knows, what storage knows of the sink's last opener, and what the sink has.

    Args:
        stored: The marker in the sink; None if there is none.
        context: Context of the driver that opens the sink; its batch is the one after which the job continues.
    """
    expected = context.expected
    if stored is None:
        return Standing.MARKER_MISSING if expected.was_opened else Standing.NEW
    opened = opener(stored, context)
    if opened is not Standing.EQUAL:
        return opened
    if has_another(stored, context):
        return Standing.OTHER_COPY
    is_behind = lacks(stored, expected.committed, context)
    if is_behind and lacks(stored, expected.kept_after, context):
        return Standing.SINK_BEHIND
    if would_repeat(stored, context):
        return Standing.STATE_BEHIND
    if is_behind:
        return Standing.SINK_BEHIND_HEALABLE
    return Standing.WENT_BACK_ON_PURPOSE if is_ahead(stored, context) else Standing.EQUAL


def would_repeat(stored: Marker, context: SinkContext) -> bool:
    """Tell whether a start would repeat batches of a sink: the state lacks them, and went back behind them by accident."""
    own, newest = context.descent, stored.newest
    is_on_purpose = newest is not None and newest.lineage == own.lineage and newest.generation < own.went_back
    return is_ahead(stored, context) and not is_on_purpose


def is_ahead(stored: Marker, context: SinkContext) -> bool:
    """Tell whether a sink has batches that the state does not contain."""
    return stored.newest is not None and not context.descent.contains(stored.newest, context.position)


def lacks(stored: Marker, position: Position | None, context: SinkContext) -> bool:
    """Tell whether a sink lacks a batch that it is known to have committed."""
    return position is not None and not stored.known_to(context).has(position, context.descent)


def opener(stored: Marker, context: SinkContext) -> Standing:
    """Tell whether storage knows the driver that opened a sink last: `EQUAL`, or why this driver cannot go on."""
    own = context.descent
    if stored.lineage != own.lineage:
        is_ancestor = any(cut.lineage == stored.lineage for cut in own.cuts)
        return Standing.EQUAL if is_ancestor else Standing.FOREIGN
    if stored.epoch == context.committing_epoch:
        return Standing.EQUAL if stored.claim == context.claim else Standing.OTHER_COPY
    if context.claim_of(stored.epoch) != stored.claim:
        return Standing.OTHER_COPY
    return Standing.REPLACED if stored.epoch > context.committing_epoch else Standing.EQUAL


def has_another(stored: Marker, context: SinkContext) -> bool:
    """Tell whether a sink has another batch of a number: the state's own was written after the sink's last opener.

    Epochs are comparable within one root, so batches that this root has from others say nothing.
    """
    own, reached = context.descent, stored.known_to(context)
    if stored.lineage != own.lineage:
        return False
    if _has_more_than_its_successor_found(stored, context):
        return True
    inherited = max((cut.batch_id for cut in own.cuts), default=-1)
    return any(
        batch > inherited and epoch > stored.epoch and reached.has(own.position(batch, context.generation), own)
        for batch, epoch in context.expected.written
    )


def needed_rights(
    relation: Standing, stored: Marker, context: SinkContext, *, withdraws: bool
) -> tuple[SinkRight, ...]:
    """Return the rights to go on in front of a sink all the same."""
    if relation in (Standing.FOREIGN, Standing.OTHER_COPY):
        after = beginning_beside_others(stored, context, withdraws=withdraws)
        return FOR_UNKNOWN_ROWS if lacks(stored, after, context) else (SinkRight.REPEAT,)
    repeated = (SinkRight.REPEAT,) if would_repeat(stored, context) and not withdraws else ()
    return (*repeated, SinkRight.LOSE) if relation is Standing.SINK_BEHIND else repeated


def beginning_beside_others(stored: Marker, context: SinkContext, *, withdraws: bool) -> Position | None:
    """Return the batch after which a sink goes on that has other rows under the numbers of the state's batches.

    The batches that the state had committed are there, unless the marker lacks them or the others have withdrawn them. All
    other batches that the state has prepared are committed, perhaps once more.
    """
    expected = context.expected
    is_there = not withdraws and not lacks(stored, expected.committed, context)
    return expected.committed if is_there else expected.kept_after


def _has_more_than_its_successor_found(stored: Marker, context: SinkContext) -> bool:
    """Tell whether a sink is of another life of the root: its last opener committed more than the next one began after."""
    newest = stored.newest
    began_after = next((opening.after for opening in context.expected.openings if opening.epoch > stored.epoch), None)
    if newest is None or began_after is None or newest.lineage != began_after.lineage:
        return False
    return (newest.generation, newest.batch_id) > (began_after.generation, began_after.batch_id)


def _is_up_to(position: Position, cut: Position) -> bool:
    return (position.generation, position.batch_id) <= (cut.generation, cut.batch_id)
