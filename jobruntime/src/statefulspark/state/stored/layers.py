"""A layer of a view: columns in memory, or a place on disk from which they are taken while the view is in use."""

from __future__ import annotations

from typing import Protocol

from statefulspark.state.columnar.columns import Columns

Place = tuple[int, int]
"""First byte and length in a file."""


class LayerFile(Protocol):
    """Where the layers of a view are on disk."""

    @property
    def size_bytes(self) -> int:
        """What it takes there."""

    def put(self, layer: Columns) -> Place:
        """Write a layer; return where it is."""

    def get(self, place: Place) -> Columns:
        """Return a layer, which stays on disk."""

    def rest(self) -> None:
        """Give up address space until the next `get`."""


class Layer:
    """One layer.

    Attributes:
        place: Where it is on disk; None if it is in memory only.
        size_bytes: Its size.
    """

    __slots__ = ("_columns", "place", "size_bytes")

    def __init__(self, columns: Columns) -> None:
        """Hold columns in memory."""
        self._columns: Columns | None = columns
        self.place: Place | None = None
        self.size_bytes = columns.size_bytes

    @property
    def columns(self) -> Columns:
        """The columns, while the layer does not rest."""
        if self._columns is None:
            raise ValueError("a layer that rests was asked for its columns")
        return self._columns

    def put(self, file: LayerFile) -> None:
        """Write the columns to disk, if they are in memory only."""
        if self.place is None:
            self.place = file.put(self.columns)

    def rest(self) -> None:
        """Hold no columns that are on disk."""
        if self.place is not None:
            self._columns = None

    def wake(self, file: LayerFile) -> None:
        """Take the columns from disk."""
        if self._columns is None and self.place is not None:
            self._columns = file.get(self.place)
