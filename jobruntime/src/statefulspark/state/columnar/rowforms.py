"""How the change of one key becomes a row of columns, by shape of the state.

A row is msgpack of what a form makes of a change. Its elements are marked as a column of tuples where all of them are
tuples, since a tuple inside is an extension of msgpack, which is several times as slow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

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


REPLACES, HAS_PUTS = 1, 2
"""Flags of a row of moments: whether it has all moments of its key, and whether it has any."""
MOMENT_BYTES = 8
_COUNT = struct.Struct("<I")


def _moments_to_row(change: object) -> object:
    given = cast("tables.MapChange", change)
    puts = sorted(cast("Iterable[int]", given.puts))
    flags = bytes([REPLACES * given.replaced | HAS_PUTS * bool(puts)])
    if given.replaced:
        return flags + _pack_moments(puts)
    return flags + _pack_moments([*puts, *cast("Iterable[int]", given.removed)]) + _COUNT.pack(len(puts))


def _moments_of_row(row: object) -> object:
    flags, body = cast("bytes", row)[0], cast("bytes", row)[1:]
    replaced = bool(flags & REPLACES)
    puts = len(body) // MOMENT_BYTES
    if not replaced:
        puts = int.from_bytes(body[-_COUNT.size :], "little")
        body = body[: -_COUNT.size]
    moments: list[int] = np.frombuffer(body, "<i8").tolist()
    if flags > REPLACES | HAS_PUTS or puts > len(moments) or bool(puts) != bool(flags & HAS_PUTS):
        raise ValueError(f"a row of {len(moments)} moments has {puts} that are put, and the flags {flags}")
    return tables.MapChange(replaced, dict.fromkeys(moments[:puts]), set(moments[puts:]))


def _pack_moments(moments: list[int]) -> bytes:
    return struct.pack(f"<{len(moments)}q", *moments)


def _same(cell: object) -> object:
    return cell


CELLS = ChangeForm(_same, _same, replaces=True)
LISTS = ChangeForm(_list_to_row, _list_of_row)
MAPS = ChangeForm(_map_to_row, _map_of_row)
MOMENTS = ChangeForm(_moments_to_row, _moments_of_row)
"""Timers: flags in one byte; the moments that are put, in ascending order; those that are removed; and, of a row that has
not all of its key, how many are put. So the earliest is where `moments` finds it without unpacking anything."""
