"""Shapes: what the kinds of state that share a table have in common, and how changes of each are folded together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from statefulspark.state import descriptors, tables


def merge_cells(older: tables.Changes, newer: tables.Changes) -> None:
    """Fold newer changes of a cell table into older ones, in place."""
    older.update(newer)


def merge_lists(older: tables.Changes, newer: tables.Changes) -> None:
    """Fold newer changes of a list table into older ones, in place."""
    for key, change in newer.items():
        before = older.get(key)
        if (
            isinstance(change, tables.ListChange)
            and isinstance(before, tables.ListChange)
            and change.start > before.start
        ):
            older[key] = tables.ListChange(before.start, before.items[: change.start - before.start] + change.items)
        else:
            older[key] = change


def merge_maps(older: tables.Changes, newer: tables.Changes) -> None:
    """Fold newer changes of a map table into older ones, in place."""
    for key, change in newer.items():
        before = older.get(key)
        if isinstance(change, tables.MapChange) and not change.replaced and isinstance(before, tables.MapChange):
            puts = before.puts | change.puts
            for entry in change.removed:
                puts.pop(entry, None)
            removed = set() if before.replaced else (before.removed - change.puts.keys()) | change.removed
            older[key] = tables.MapChange(before.replaced, puts, removed)
        elif isinstance(change, tables.MapChange) and before is tables.DELETED:
            # What was below the deletion must stay deleted when this change is applied without it.
            older[key] = tables.MapChange(replaced=True, puts=change.puts)
        else:
            older[key] = change


@dataclass(frozen=True, slots=True)
class Shape:
    """What the kinds that share a table have in common.

    Attributes:
        name: How it is written in chunks.
        table: Makes an empty table.
        merge: Folds newer changes into older ones.
    """

    name: str
    table: Callable[[], tables.CellTable | tables.ListTable | tables.MapTable]
    merge: Callable[[tables.Changes, tables.Changes], None]


CELLS = Shape("cells", tables.CellTable, merge_cells)
LISTS = Shape("lists", tables.ListTable, merge_lists)
MAPS = Shape("maps", tables.MapTable, merge_maps)
TIMERS = Shape("maps", tables.TimerTable, merge_maps)


def shape_of(kind: descriptors.StateKind, name: str = "") -> Shape:
    """Return the shape that holds a kind of state; timers are stored as maps, and ordered in memory."""
    if name.startswith(tables.TIMER_PREFIX):
        return TIMERS
    if kind is descriptors.StateKind.LIST:
        return LISTS
    return MAPS if kind is descriptors.StateKind.MAP else CELLS
