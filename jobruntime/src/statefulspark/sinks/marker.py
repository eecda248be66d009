"""The committed position of a sink, stored in the sink's target system.

A marker is changed in the same transaction as the rows, so that both are committed or neither. It has the last committed
position: lineage, generation and batch. Within a lineage positions compare lexicographically: a restore from an older
snapshot starts a new generation and produces its records again, a restart in the same generation never repeats one.
Between lineages the ancestors of the start decide (`standing`). The marker also has the lineage and the highest epoch
that opened the sink: a driver that finds another lineage or a higher epoch has been replaced. This module is pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from statefulspark import errors
from statefulspark.contract import base, formats
from statefulspark.sinks.standing import Position, Standing

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext

REMEDIES = (
    "give the sink its own uid or target, or start with --take-over-sinks (restore.takeOverSinks) to write to it anyway"
)


class Marker(base.WireModel):
    """The last committed position, and the driver that opened the sink last."""

    FORMAT: ClassVar = formats.MARKER
    format_version: int | None = None
    """Absent means 1."""
    generation: int = 0
    batch_id: int = -1
    """-1: nothing of the generation has been committed."""
    epoch: int = 0
    lost_at: base.UtcDatetime | None = None
    """Time at which a lost marker was detected; see `sinks.kafka.sink`."""
    lineage: str | None = None
    """Lineage that opened the sink last; absent if a release without lineages did."""
    root: str | None = None
    """URI of its root, for information."""
    reached_in: str | None = None
    """Lineage of the position, if it is not the one that opened the sink last."""

    @classmethod
    def parse(cls, text: str | bytes, source: str) -> Self:
        """Read a marker.

        Args:
            text: JSON.
            source: Its origin, for the error.

        Raises:
            SnapshotCorruptError: `DocumentUnreadable`: it is not a marker.
            FormatVersionError: A later release wrote it, so the committed position is unknown.
        """
        marker = base.read_model(cls, cls.FORMAT, text, source)
        cls.FORMAT.require_known(1 if marker.format_version is None else marker.format_version, source)
        return marker

    @property
    def position(self) -> Position:
        """The last committed position."""
        return Position(self.reached_in or self.lineage, self.generation, self.batch_id)

    def covers(self, context: SinkContext) -> bool:
        """Tell whether the context's batch has been committed, or must never be committed."""
        reached, batch = (context.descent.order(position) for position in (self.position, context.position))
        return reached is not None and batch is not None and batch <= reached

    def opened_by(self, context: SinkContext) -> Self:
        """Return the marker after the context's driver has opened the sink, with the same position."""
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
        """Return the initial marker of the context's lineage, with nothing committed."""
        begun = {"generation": 0, "batch_id": -1, "lineage": context.descent.lineage, "reached_in": None, "epoch": 0}
        return self.model_copy(update=begun).opened_by(context)

    def after(self, context: SinkContext) -> Self:
        """Return the marker after the commit of the context's batch."""
        position = {"generation": context.generation, "batch_id": context.batch_id, "reached_in": context.lineage}
        return self.model_copy(update=position).opened_by(context)


NOTHING = Marker()
"""The marker of a new sink."""


def open_marker(stored: Marker | None, context: SinkContext, where: str, *, withdraws: bool = False) -> Marker:
    """Return the marker for a driver that opens a sink, or reject the start.

    Args:
        stored: The marker in the sink; None if the sink was never opened.
        context: Context of the driver; its batch is the one after which the job continues.
        where: The sink's target, for the error.
        withdraws: Whether the sink withdraws commits after the restored snapshot.

    Raises:
        FencedError: A higher epoch of this lineage has opened the sink.
        SpecRejectedError: `SinkAhead`: it has output after the restored snapshot, which would be repeated; within one
            lineage only a sink that shows each batch is rejected for it. `SinkTaken`: it has output of state that this
            start does not descend from.
    """
    if stored is None:
        return NOTHING.beginning(context)
    standing = context.descent.standing(stored.lineage, stored.position)
    if standing is Standing.OWN:
        require_newest(stored, context, where)
        if withdraws or not context.descent.is_left_behind(stored.position, context.position):
            return stored.opened_by(context)
        if context.descent.takes_over:
            return stored.after(context)
        raise _left_behind_error(stored, context, where)
    if standing is Standing.INHERITED:
        return stored.opened_by(context)
    if context.descent.takes_over or (withdraws and standing is Standing.AHEAD):
        return stored.beginning(context)
    raise _ahead_error(stored, context, where) if standing is Standing.AHEAD else _taken_error(stored, context, where)


def require_newest(marker: Marker, context: SinkContext, where: str) -> None:
    """Check that the driver has not been replaced.

    Args:
        marker: The current marker.
        context: Context of the driver that commits.
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


def _ahead_error(stored: Marker, context: SinkContext, where: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "SinkAhead",
        f"The sink {context.uid!r} cannot continue: {where} has output up to batch {stored.batch_id} (generation "
        f"{stored.generation}) of the job at {_root(stored)}, and this start continues after batch {context.batch_id} of an "
        "older snapshot of it, so the batches in between would be written twice. Start from the newest state of that "
        "job; or "
        f"{REMEDIES}.",
    )


def _left_behind_error(stored: Marker, context: SinkContext, where: str) -> errors.SpecRejectedError:
    since = f"after batch {context.batch_id}" if context.batch_id >= 0 else "from the beginning"
    return errors.SpecRejectedError(
        "SinkAhead",
        f"The sink {context.uid!r} shows each batch (visible='batch'), and {where} shows batch {stored.batch_id} (generation"
        f" {stored.generation}), which is not in the state that this start restores: it would continue {since}, and write"
        " the rows in between again, perhaps others. Start from the newest state instead; or remove those rows and start"
        " with --take-over-sinks (restore.takeOverSinks), which keeps what is there and writes after it.",
    )


def _taken_error(stored: Marker, context: SinkContext, where: str) -> errors.SpecRejectedError:
    own, lineage = context.descent.root or "this root", stored.lineage or "unnamed"
    if stored.root == own:
        origin = f"the state that was at {own} before (lineage {lineage}; it was deleted, or replaced)"
        remedy = "Restore that state, or start from a savepoint of it (--from)"
    else:
        origin = f"the state at {_root(stored)} (lineage {lineage}), from which the state at {own} does not descend"
        remedy = "Start from that state (--from)"
    return errors.SpecRejectedError(
        "SinkTaken",
        f"The sink {context.uid!r} cannot start: {where} has output of {origin}. {remedy}; or {REMEDIES}.",
    )


def _root(stored: Marker) -> str:
    return stored.root or "an unknown root"
