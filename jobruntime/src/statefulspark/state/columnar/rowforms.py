"""How the change of one key becomes a row of columns, by shape of the state.

A row is msgpack of what a form makes of a change. Its elements are marked as a column of tuples where all of them are
tuples, since a tuple inside is an extension of msgpack, which is several times as slow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from statefulspark.state.memory import tables
from statefulspark.state.types import codec


@dataclass(frozen=True, slots=True)
class ChangeForm:
    """The form of a shape. Deletions have no form: their row is empty.

    Attributes:
        to_row: Returns what is packed for a change.
        of_row: Undoes that; raises ValueError or TypeError for what `to_row` never returns.
        replaces: Whether every change makes older ones of its key superfluous.
    """

    to_row: Callable[[object], object]
    of_row: Callable[[object], object]
    replaces: bool = False


def _list_to_row(change: object) -> object:
    given = cast("tables.ListChange", change)
    return [given.start, codec.pack_column(given.items)]


def _list_of_row(row: object) -> object:
    start, items = cast("tuple[int, list[object]]", row)
    return tables.ListChange(start, codec.unpack_column(items))


def _map_to_row(change: object) -> object:
    given = cast("tables.MapChange", change)
    columns = (given.puts, given.puts.values(), given.removed)
    return [given.replaced, *map(codec.pack_column, columns)]


def _map_of_row(row: object) -> object:
    replaced, *columns = cast("tuple[bool, list[object], list[object], list[object]]", row)
    entries, cells, removed = map(codec.unpack_column, columns)
    return tables.MapChange(replaced, dict(zip(entries, cells, strict=True)), set(removed))


def _same(cell: object) -> object:
    return cell


CELLS = ChangeForm(_same, _same, replaces=True)
LISTS = ChangeForm(_list_to_row, _list_of_row)
MAPS = ChangeForm(_map_to_row, _map_of_row)
