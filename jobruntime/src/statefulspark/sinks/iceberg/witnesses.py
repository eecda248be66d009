"""A sink's marker in an Iceberg table: a property of the table, and its snapshots. Pure.

Each commit of a sink sets both. The property outlives the expiry of snapshots, and a table that is set back to an older
snapshot: then it speaks of rows that the table does not have. The snapshots say which rows the table has, and are lost when
they expire; they outlive a tool that sets the table's properties anew. So the newest snapshot of the sink in the history of
the table's current snapshot counts, and the property where that history does not reach so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from statefulspark.contract import base
from statefulspark.sinks.marker import Marker


class TableMarker(base.WireModel):
    """The property of a table: a sink's marker, and the snapshot that was committed with it."""

    marker: Marker
    snapshot_id: int
    sequence_number: int
    """Its order among the snapshots of the table; 0 for every snapshot of a table of format 1."""
    timestamp_ms: int
    """Its order where there is no other."""

    @classmethod
    def parse(cls, text: str, source: str) -> Self:
        """Read a property, as `Marker.parse` does."""
        stored = base.read_model(cls, Marker.FORMAT, text, source)
        Marker.FORMAT.require_known(stored.marker.format_version, source)
        return stored

    @property
    def order(self) -> tuple[int, int]:
        """Its order among the snapshots of the table."""
        return self.sequence_number, self.timestamp_ms

    def set_back_to(self, held: Marker | None) -> Marker:
        """Return the marker of a table that was set back: whoever opened it last is still the one who may write.

        Args:
            held: The marker at that time; None if the sink had committed nothing.
        """
        return self.marker.model_copy(update={"committed": () if held is None else held.committed})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the table.

    Attributes:
        snapshot_id: Its id.
        parent_id: The snapshot that was current before; None for the first one, and for one whose parent has expired, as
            pyiceberg writes it.
        order: Sequence number and time.
        marker: The sink's marker after it, as JSON; None if the sink did not commit it.
    """

    snapshot_id: int
    parent_id: int | None
    order: tuple[int, int]
    marker: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether no snapshot of the table came before; a table of format 1 does not tell."""
        return self.parent_id is None and self.order[0] == 1

    def parsed(self) -> Marker | None:
        """Return the marker."""
        return None if self.marker is None else Marker.parse(self.marker.encode(), f"The snapshot {self.snapshot_id}")


class Finding(StrEnum):
    """The relation of property and snapshots; the value is a sentence for the log."""

    EQUAL = "the property and the snapshots say the same"
    """As far as the snapshots have not expired; or there is neither."""
    PROPERTY_LOST = "the property of the table is missing, and a snapshot has the marker"
    PROPERTY_OLDER = "the property of the table was set back, and a later snapshot has the marker"
    TABLE_SET_BACK = "the table was set back to a snapshot before the sink's last commit"


@dataclass(frozen=True, slots=True)
class Reached:
    """What the table tells.

    Attributes:
        finding: How it was found.
        marker: The marker; None if the sink never was in front of the table, as far as anything tells.
        is_unknown: Whether the sink has committed to the table, and nothing tells which of its rows the table has.
    """

    finding: Finding
    marker: Marker | None = None
    is_unknown: bool = False


def reached(stored: TableMarker | None, line: Sequence[Snapshot], others: Sequence[Snapshot]) -> Reached:
    """Tell how far a sink has committed to a table.

    Args:
        stored: The property of the table; None if it is missing.
        line: The current snapshot and its ancestors, the newest first, as far as they have not expired.
        others: Every other snapshot that has not expired.
    """
    newest = next((snapshot for snapshot in line if snapshot.marker is not None), None)
    if stored is None:
        if newest is not None:
            return Reached(Finding.PROPERTY_LOST, newest.parsed())
        was_here = any(snapshot.marker is not None for snapshot in others)
        return Reached(Finding.TABLE_SET_BACK if was_here else Finding.EQUAL, is_unknown=was_here)
    if _has(stored, line, others):
        if newest is None or newest.snapshot_id == stored.snapshot_id:
            return Reached(Finding.EQUAL, stored.marker)
        return Reached(Finding.PROPERTY_OLDER, newest.parsed())
    held = None if newest is None else newest.parsed()
    is_unknown = held is None and bool(line) and not line[-1].is_first
    return Reached(Finding.TABLE_SET_BACK, None if is_unknown else stored.set_back_to(held), is_unknown)


def _has(stored: TableMarker, line: Sequence[Snapshot], others: Sequence[Snapshot]) -> bool:
    """Tell whether the table has the rows of a commit: its snapshot is in the line, or may have expired behind its end."""
    if any(snapshot.snapshot_id == stored.snapshot_id for snapshot in line):
        return True
    if not line or any(snapshot.snapshot_id == stored.snapshot_id for snapshot in others):
        return False
    return line[-1].parent_id == stored.snapshot_id or (line[-1].order > stored.order and not line[-1].is_first)
