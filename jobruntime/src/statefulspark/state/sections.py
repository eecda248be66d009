"""The columns of a chunk's section: what changed, side by side with the keys, by shape of the state.

Lists and maps are columns over all keys, with the number of items of each key beside them. Chunks of version 1 and 2 have a
column per key instead; those are only read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from statefulspark.state import codec, tables

Item = TypeVar("Item")


def encode(shape: str, changes: tables.Changes) -> list[object]:
    """Return the columns that say what is set, without keys and without deletions."""
    return _ENCODE[shape](changes)


def decode(shape: str, keys: list[object], columns: Sequence[object]) -> tables.Changes:
    """Undo `encode`.

    Raises:
        ValueError, TypeError: The columns do not belong together.
    """
    return _DECODE[shape, len(columns)](keys, *columns)


def _encode_cells(changes: tables.Changes) -> list[object]:
    return [codec.pack_column(changes.values())]


def _encode_lists(changes: tables.Changes) -> list[object]:
    lists = [change for change in changes.values() if isinstance(change, tables.ListChange)]
    return [[change.start for change in lists], *_flat([change.items for change in lists])]


def _encode_maps(changes: tables.Changes) -> list[object]:
    maps = [change for change in changes.values() if isinstance(change, tables.MapChange)]
    return [
        [change.replaced for change in maps],
        *_flat([change.puts for change in maps]),
        codec.pack_column(itertools.chain.from_iterable(change.puts.values() for change in maps)),
        *_flat([change.removed for change in maps]),
    ]


def _flat(of_keys: Sequence[Collection[object]]) -> list[object]:
    """Return how many items each key has, and all of them."""
    return [[len(items) for items in of_keys], codec.pack_column(itertools.chain.from_iterable(of_keys))]


_ENCODE: dict[str, Callable[[tables.Changes], list[object]]] = {
    "cells": _encode_cells,
    "lists": _encode_lists,
    "maps": _encode_maps,
}


def _decode_cells(keys: list[object], cells: list[object]) -> tables.Changes:
    return dict(zip(keys, codec.unpack_column(cells), strict=True))


def _decode_lists(keys: list[object], starts: list[int], counts: list[int], items: list[object]) -> tables.Changes:
    lists = map(tables.ListChange, starts, map(list, _by_key(counts, codec.unpack_column(items))))
    return dict(zip(keys, lists, strict=True))


def _decode_maps(
    keys: list[object],
    replaced: list[bool],
    counts: list[int],
    entries: list[object],
    values: list[object],
    removed_counts: list[int],
    removed: list[object],
) -> tables.Changes:
    pairs = list(zip(codec.unpack_column(entries), codec.unpack_column(values), strict=True))
    puts = map(dict, _by_key(counts, pairs))
    gone = map(set, _by_key(removed_counts, codec.unpack_column(removed)))
    maps = map(tables.MapChange, replaced, puts, gone)
    return dict(zip(keys, maps, strict=True))


def _by_key(counts: list[int], items: Sequence[Item]) -> Iterator[Iterator[Item]]:
    if sum(counts) != len(items):
        raise ValueError(f"it says {sum(counts)} items and holds {len(items)}")
    rest = iter(items)
    return (itertools.islice(rest, count) for count in counts)


def _decode_lists_by_key(keys: list[object], starts: list[int], items: list[list[object]]) -> tables.Changes:
    lists = map(tables.ListChange, starts, map(codec.unpack_column, items))
    return dict(zip(keys, lists, strict=True))


def _decode_maps_by_key(
    keys: list[object],
    replaced: list[bool],
    entries: list[list[object]],
    values: list[list[object]],
    removed: list[list[object]],
) -> tables.Changes:
    puts = [
        dict(zip(codec.unpack_column(names), codec.unpack_column(cells), strict=True))
        for names, cells in zip(entries, values, strict=True)
    ]
    maps = map(tables.MapChange, replaced, puts, [set(codec.unpack_column(names)) for names in removed])
    return dict(zip(keys, maps, strict=True))


_DECODE: dict[tuple[str, int], Callable[..., tables.Changes]] = {
    ("cells", 1): _decode_cells,
    ("lists", 2): _decode_lists_by_key,
    ("lists", 3): _decode_lists,
    ("maps", 4): _decode_maps_by_key,
    ("maps", 6): _decode_maps,
}
"""By shape and number of columns."""
