"""The columns of a chunk section: the changes beside the keys, by shape of the state.

Each shape has one encoder, which writes the columns of changes without keys and deletions, and one decoder. Decoders
raise ValueError or TypeError for inconsistent columns. `shapes` assigns them to shapes. Lists and maps are columns over all
keys, with the number of items of each key beside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from typing import TypeVar

from statefulspark.state.memory import tables
from statefulspark.state.types import codec

Item = TypeVar("Item")


def encode_cells(changes: tables.Changes) -> list[object]:
    """Return the column of cells."""
    return [codec.pack_column(changes.values())]


def encode_lists(changes: tables.Changes) -> list[object]:
    """Return the start index of each list change, and the elements from that index on."""
    lists = [change for change in changes.values() if isinstance(change, tables.ListChange)]
    return [[change.start for change in lists], *_flat([change.items for change in lists])]


def encode_maps(changes: tables.Changes) -> list[object]:
    """Return which maps are replaced, their entries and values, and the entries that were removed."""
    maps = [change for change in changes.values() if isinstance(change, tables.MapChange)]
    return [
        [change.replaced for change in maps],
        *_flat([change.puts for change in maps]),
        codec.pack_column(itertools.chain.from_iterable(change.puts.values() for change in maps)),
        *_flat([change.removed for change in maps]),
    ]


def _flat(of_keys: Sequence[Collection[object]]) -> list[object]:
    """Return the number of items of each key, and all items."""
    return [[len(items) for items in of_keys], codec.pack_column(itertools.chain.from_iterable(of_keys))]


def decode_cells(keys: list[object], cells: list[object]) -> tables.Changes:
    """Undo `encode_cells`."""
    return dict(zip(keys, codec.unpack_column(cells), strict=True))


def decode_lists(keys: list[object], starts: list[int], counts: list[int], items: list[object]) -> tables.Changes:
    """Undo `encode_lists`."""
    elements = codec.unpack_column(items)
    _require_all(counts, elements)
    return dict(zip(keys, map(tables.ListChange, starts, map(list, _by_key(counts, elements))), strict=True))


def decode_maps(
    keys: list[object],
    replaced: list[bool],
    counts: list[int],
    entries: list[object],
    values: list[object],
    removed_counts: list[int],
    removed: list[object],
) -> tables.Changes:
    """Undo `encode_maps`."""
    names, cells, gone = codec.unpack_column(entries), codec.unpack_column(values), codec.unpack_column(removed)
    _require_all(counts, names)
    _require_all(counts, cells)
    _require_all(removed_counts, gone)
    puts = map(dict, _by_key(counts, zip(names, cells, strict=True)))
    if not gone:
        return dict(zip(keys, map(tables.MapChange, replaced, puts), strict=True))
    maps = map(tables.MapChange, replaced, puts, map(set, _by_key(removed_counts, gone)))
    return dict(zip(keys, maps, strict=True))


def _require_all(counts: list[int], items: Sized) -> None:
    if sum(counts) != len(items):
        raise ValueError(f"the header names {sum(counts)} items, the body has {len(items)}")


def _by_key(counts: list[int], items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Yield the items of each key; the counts have been compared with the items."""
    return map(itertools.islice, itertools.repeat(iter(items)), counts)
