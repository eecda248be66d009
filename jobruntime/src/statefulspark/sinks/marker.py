"""How far a sink has committed, as the sink's own system remembers it.

A marker is changed in the same transaction as the rows, so that both are there or neither. It is the last committed
position (generation, batch), compared lexicographically: going back to an older cut begins a new generation and produces
its records anew, a restart in the same generation never repeats one. Beside it stands the highest epoch that opened the
sink: a driver that finds a higher one than its own has been replaced. This module is pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from statefulspark import errors
from statefulspark.contract import base

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext


class Marker(base.WireModel):
    """The last committed position and the newest epoch."""

    generation: int = 0
    batch_id: int = -1
    """-1: nothing of the generation has been committed."""
    epoch: int = 0
    lost_at: base.UtcDatetime | None = None
    """When a marker was missing that must have been there; see `sinks.kafka`."""

    @property
    def position(self) -> tuple[int, int]:
        """What positions are compared by."""
        return self.generation, self.batch_id

    def covers(self, context: SinkContext) -> bool:
        """Tell whether the context's batch has been committed, or must never be."""
        return (context.generation, context.batch_id) <= self.position

    def opened_by(self, epoch: int) -> Self:
        """Return the marker with an epoch that is at least this one."""
        return self.model_copy(update={"epoch": max(self.epoch, epoch)})

    def after(self, context: SinkContext, epoch: int) -> Self:
        """Return the marker that goes with the context's batch."""
        position = {"generation": context.generation, "batch_id": context.batch_id}
        return self.opened_by(epoch).model_copy(update=position)


NOTHING = Marker()
"""What a sink starts with."""


def require_newest(marker: Marker, epoch: int, where: str) -> None:
    """Refuse to go on for a driver that has been replaced.

    Args:
        marker: As it was just read.
        epoch: Of the driver that wants to commit.
        where: The sink's target, for the error.

    Raises:
        FencedError: A higher epoch has opened the sink.
    """
    if marker.epoch > epoch:
        raise errors.FencedError(f"Epoch {marker.epoch} writes to {where} now, so epoch {epoch} must not any more.")
