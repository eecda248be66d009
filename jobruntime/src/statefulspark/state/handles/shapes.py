"""The shapes of state: one cell per key, a list, a map, or timers in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import cast

from statefulspark.state.columnar import rowforms
from statefulspark.state.handles import cells, converting, entries, kindtypes, sections
from statefulspark.state.memory import cleanup, tables, timertable, ttl
from statefulspark.state.memory import scope as scopes


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
            # Older entries must stay deleted when this change is applied without the deletion.
            older[key] = tables.MapChange(replaced=True, puts=change.puts)
        else:
            older[key] = change


def _view_of_cells(
    state: kindtypes.StateMeta, scope: scopes.Scope, life: ttl.Ttl | None, cleaner: cleanup.Cleaner | None
) -> cells.Cells:
    if life is None:
        return cells.Cells(state, scope)
    return (
        cells.ExpiringCells(state, scope, life) if cleaner is None else cells.CleaningCells(state, scope, life, cleaner)
    )


def _set_cells(changes: tables.Changes) -> Iterable[tables.Cell]:
    return changes.values()


def _set_elements(changes: tables.Changes) -> Iterator[tables.Cell]:
    lists = (change.items for change in changes.values() if isinstance(change, tables.ListChange))
    return (cell for items in lists for cell in items)


def _set_values(changes: tables.Changes) -> Iterator[tables.Cell]:
    maps = (change.puts for change in changes.values() if isinstance(change, tables.MapChange))
    return (cell for puts in maps for cell in puts.values())


def _alive_cell(change: object, cutoff_ms: int) -> object:
    return tables.CellTable.alive(cast("tuple[object, int]", change), cutoff_ms)


def _alive_list(change: object, cutoff_ms: int) -> object:
    before = cast("tables.ListChange", change)
    items = tables.ListTable.alive(cast("list[tuple[object, int]]", before.items), cutoff_ms)
    return None if items is None else tables.ListChange(before.start, [*items])


def _alive_map(change: object, cutoff_ms: int) -> object:
    before = cast("tables.MapChange", change)
    puts = tables.MapTable.alive(cast("dict[object, tuple[object, int]]", before.puts), cutoff_ms)
    return None if puts is None else tables.MapChange(before.replaced, {**puts}, before.removed)


def _entries_of_cells(changes: tables.Changes) -> Iterator[kindtypes.Entry]:
    return ((key, None, cell) for key, cell in changes.items())


def _entries_of_lists(changes: tables.Changes) -> Iterator[kindtypes.Entry]:
    for key, change in changes.items():
        for index, cell in enumerate(cast("tables.ListChange", change).items):
            yield key, index, cell


def _entries_of_maps(changes: tables.Changes) -> Iterator[kindtypes.Entry]:
    for key, change in changes.items():
        for entry, cell in cast("tables.MapChange", change).puts.items():
            yield key, entry, cell


def _gather_cells(entries_of_keys: Iterable[kindtypes.Entry]) -> tables.Changes:
    return {key: cell for key, _, cell in entries_of_keys}


def _gather_lists(entries_of_keys: Iterable[kindtypes.Entry]) -> tables.Changes:
    lists: dict[tables.Key, list[tuple[int, tables.Cell]]] = {}
    for key, index, cell in entries_of_keys:
        lists.setdefault(key, []).append((cast("int", index), cell))
    for elements in lists.values():
        elements.sort(key=lambda element: element[0])
    return {key: tables.ListChange(0, [cell for _, cell in elements]) for key, elements in lists.items()}


def _gather_maps(entries_of_keys: Iterable[kindtypes.Entry]) -> tables.Changes:
    maps: dict[tables.Key, dict[object, tables.Cell]] = {}
    for key, entry, cell in entries_of_keys:
        maps.setdefault(key, {})[entry] = cell
    return {key: tables.MapChange(replaced=True, puts=puts) for key, puts in maps.items()}


CELLS = kindtypes.Shape(
    name="cells",
    table=tables.CellTable,
    merge=merge_cells,
    encode=sections.encode_cells,
    decode=sections.decode_cells,
    cells=_set_cells,
    alive=_alive_cell,
    entries=_entries_of_cells,
    gather=_gather_cells,
    view=_view_of_cells,
    converting=cells.ConvertingCells,
    row=rowforms.CELLS,
)
LISTS = kindtypes.Shape(
    name="lists",
    table=tables.ListTable,
    merge=merge_lists,
    encode=sections.encode_lists,
    decode=sections.decode_lists,
    cells=_set_elements,
    alive=_alive_list,
    entries=_entries_of_lists,
    gather=_gather_lists,
    view=entries.ListHandle,
    converting=converting.ConvertingList,
    container="array",
    column="index",
    row=rowforms.LISTS,
)
MAPS = kindtypes.Shape(
    name="maps",
    table=tables.MapTable,
    merge=merge_maps,
    encode=sections.encode_maps,
    decode=sections.decode_maps,
    cells=_set_values,
    alive=_alive_map,
    entries=_entries_of_maps,
    gather=_gather_maps,
    view=entries.MapHandle,
    converting=converting.ConvertingMap,
    container="map",
    column="entry",
    has_entry_keys=True,
    row=rowforms.MAPS,
)
MOMENTS = dataclasses.replace(MAPS, name="moments", table=timertable.TimerTable, has_moments=True, row=rowforms.MOMENTS)
"""Stored as maps, or as columns of moments, and ordered in memory."""
