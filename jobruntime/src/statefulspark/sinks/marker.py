"""How far a sink has committed, as the sink's own system remembers it.

A marker is changed in the same transaction as the rows, so that both are there or neither. It is the last committed
position: lineage, generation and batch. Within a lineage positions compare lexicographically: going back to an older cut
begins a new generation and produces its records anew, a restart in the same generation never repeats one. Between
lineages the descent of the start tells (`standing`). Beside it stands who opened the sink last, the lineage and the highest
epoch: a driver that finds another lineage or a higher epoch there has been replaced. This module is pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from statefulspark import errors
from statefulspark.contract import base, formats
from statefulspark.sinks.standing import Position, Standing

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext

WAYS_OUT = (
    "give the sink a uid or a target of its own, or start with --take-over-sinks (restore.takeOverSinks) to write to it "
    "all the same"
)


class Marker(base.WireModel):
    """The last committed position, and who opened the sink last."""

    FORMAT: ClassVar = formats.MARKER
    format_version: int | None = None
    """Absent means 1."""
    generation: int = 0
    batch_id: int = -1
    """-1: nothing of the generation has been committed."""
    epoch: int = 0
    lost_at: base.UtcDatetime | None = None
    """When a marker was missing that must have been there; see `sinks.kafka.sink`."""
    lineage: str | None = None
    """That opened the sink last; absent if a release without lineages did."""
    root: str | None = None
    """URI of its root, for people."""
    reached_in: str | None = None
    """Lineage of the position, if it is not the one that opened the sink last."""

    @classmethod
    def parse(cls, text: str | bytes, source: str) -> Self:
        """Read a marker.

        Args:
            text: JSON.
            source: Where it is; named in the error.

        Raises:
            SnapshotCorruptError: `DocumentUnreadable`: it is none.
            FormatVersionError: A later release wrote it, and this one cannot tell what it has committed.
        """
        marker = base.read_model(cls, cls.FORMAT, text, source)
        cls.FORMAT.require_known(1 if marker.format_version is None else marker.format_version, source)
        return marker

    @property
    def position(self) -> Position:
        """Through which batch the sink is committed."""
        return Position(self.reached_in or self.lineage, self.generation, self.batch_id)

    def covers(self, context: SinkContext) -> bool:
        """Tell whether the context's batch has been committed, or must never be."""
        reached, batch = (context.descent.order(one) for one in (self.position, context.position))
        return reached is not None and batch is not None and batch <= reached

    def opened_by(self, context: SinkContext) -> Self:
        """Return the marker that the context's driver leaves when it opens the sink, at the same position."""
        own = context.descent
        is_own = own.is_own(self.lineage)
        position = self.position.lineage
        return self.model_copy(
            update={
                "epoch": max(self.epoch, context.committing_epoch) if is_own else context.committing_epoch,
                "lineage": own.lineage,
                "root": own.root,
                "reached_in": None if own.is_own(position) else position,
            }
        )

    def beginning(self, context: SinkContext) -> Self:
        """Return the marker with which the context's lineage begins: nothing of it is committed, all before it is past."""
        begun = {"generation": 0, "batch_id": -1, "lineage": context.descent.lineage, "reached_in": None, "epoch": 0}
        return self.model_copy(update=begun).opened_by(context)

    def after(self, context: SinkContext) -> Self:
        """Return the marker that goes with the context's batch."""
        position = {"generation": context.generation, "batch_id": context.batch_id, "reached_in": context.lineage}
        return self.model_copy(update=position).opened_by(context)


NOTHING = Marker()
"""What a sink starts with."""


def admitted(found: Marker | None, context: SinkContext, where: str, *, withdraws: bool = False) -> Marker:
    """Return the marker with which a driver opens a sink, or refuse.

    Args:
        found: As the sink has it; None if nobody has opened the sink.
        context: The driver's; its batch is the one after which the job goes on.
        where: The sink's target, for the error.
        withdraws: Whether the sink takes back what the cut does not contain.

    Raises:
        FencedError: A higher epoch of this lineage has opened the sink.
        SpecRejectedError: `SinkAhead`: it holds output after the cut, which would be repeated. `SinkTaken`: it holds output
            of state that this start does not descend from.
    """
    if found is None:
        return NOTHING.beginning(context)
    standing = context.descent.standing(found.lineage, found.position)
    if standing is Standing.OWN:
        require_newest(found, context, where)
        return found.opened_by(context)
    if standing is Standing.INHERITED:
        return found.opened_by(context)
    if context.descent.takes_over or (withdraws and standing is Standing.AHEAD):
        return found.beginning(context)
    raise _ahead(found, context, where) if standing is Standing.AHEAD else _taken(found, context, where)


def require_newest(marker: Marker, context: SinkContext, where: str) -> None:
    """Refuse to go on for a driver that has been replaced.

    Args:
        marker: As it was just read.
        context: Of the driver that wants to commit.
        where: The sink's target, for the error.

    Raises:
        FencedError: Another lineage, or a higher epoch, has opened the sink.
    """
    if not context.descent.is_own(marker.lineage):
        raise errors.FencedError(
            f"The job at {marker.root or 'another root'} has taken {where} over, so the one at "
            f"{context.descent.root or 'this root'} must not write there any more."
        )
    if marker.epoch > context.committing_epoch:
        raise errors.FencedError(
            f"Epoch {marker.epoch} writes to {where} now, so epoch {context.committing_epoch} must not any more."
        )


def _ahead(found: Marker, context: SinkContext, where: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "SinkAhead",
        f"The sink {context.uid!r} cannot go on: {where} holds output up to batch {found.batch_id} (generation "
        f"{found.generation}) of the job at {_root(found)}, and this start goes on after batch {context.batch_id} of an "
        "older cut of it, so what lies between would be there twice. Start from the newest state of that job; or "
        f"{WAYS_OUT}.",
    )


def _taken(found: Marker, context: SinkContext, where: str) -> errors.SpecRejectedError:
    own, lineage = context.descent.root or "this root", found.lineage or "unnamed"
    if found.root == own:
        whose = f"the state that was at {own} before (lineage {lineage}; it was deleted, or replaced)"
        beginning = "Bring that state back, or start from a savepoint of it (--from)"
    else:
        whose = f"the state at {_root(found)} (lineage {lineage}), from which the state at {own} does not descend"
        beginning = "Start from that state (--from)"
    return errors.SpecRejectedError(
        "SinkTaken",
        f"The sink {context.uid!r} cannot start: {where} holds output of {whose}. {beginning}; or {WAYS_OUT}.",
    )


def _root(found: Marker) -> str:
    return found.root or "an unknown place"
