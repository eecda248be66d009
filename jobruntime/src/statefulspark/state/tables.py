"""Rows of one state in one key group, and the changes since the last write: what all kinds of state have in common.

A table tracks the changes of a batch and returns them as a delta. Deltas can be merged without the table. Applying a delta
is idempotent, also to a table that already has a part of it: a list change replaces the list from an index on, a map change
names entries. So a stale cached table can be updated from any earlier version.

With a time to live every cell, element or entry is a pair `(value, last renewal in ms)`; tables keep the pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Never, Protocol

from statefulspark.state import numbers

Key = object
"""A key: one value, or a tuple for a key of several columns."""
Cell = object
"""A stored value, or a pair of value and last renewal where there is a time to live."""


class Deleted:
    """The change of a key whose value was removed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DELETED"


DELETED: Final = Deleted()
Changes = dict[Key, object]
"""The change of each key: DELETED, a cell, `ListChange` or `MapChange`, by the kind of state."""
Content = Changes | numbers.Numbers
"""Changes as objects, or numbers as arrays."""


class Table(Protocol):
    """All values of one state in one key group."""

    cursor: Iterator[tuple[Key]] | None
    """Position of incremental cleanup in a round over all keys; None between rounds."""

    @property
    def rows(self) -> dict[Key, object]:
        """Value per key: a cell, a list or a dict."""

    @property
    def count(self) -> int:
        """Number of keys."""

    def take_changes(self) -> Content:
        """Return the changes since the last call, and reset them."""

    def full(self) -> Content:
        """Return changes that build this table from an empty one."""

    def apply(self, changes: Changes, /) -> None:
        """Apply changes to the table, which may keep their objects and change these later."""

    def touch_row(self, key: Key) -> None:
        """Mark the whole row of a key as changed."""

    @property
    def has_parts(self) -> bool:
        """Whether a row has many cells, so that a change may cover some of them."""

    @property
    def array_bytes(self) -> int:
        """Memory that cells take as arrays, 0 while they are objects."""

    def alive(self, row: Never, cutoff_ms: int, /) -> object:
        """Return the part of a row renewed after a time: the row itself, a shorter one, or None."""

    def convert(self, row: Never, convert: Callable[[Cell], Cell], /) -> object:
        """Return a row with every cell converted."""


def apply_deleted(rows: dict[Key, object], changes: Changes) -> None:
    """Remove the rows of keys that changes delete."""
    for key, change in changes.items():
        if change is DELETED:
            rows.pop(key, None)
