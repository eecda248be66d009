"""Merges columns of one state, and drops expired entries; rows stay bytes unless their content decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statefulspark.state import columns, kinds, tables
from statefulspark.state.columns import Columns

In = TypeVar("In")


def merge(layers: Sequence[Columns], kind: kinds.StateKind, *, is_full: bool) -> Columns | None:
    """Merge the changes of a state.

    Args:
        layers: The oldest first, without a gap.
        kind: Their kind.
        is_full: Whether the oldest has everything: deletions are left out, and changes of other keys change nothing that is
            older.

    Returns:
        Columns with the same effect; None where they cannot be merged as columns: they have different forms of tuples, or
        are too large together.
    """
    forms = {layer.are_tuples for layer in layers if layer.row_bytes}
    keys_bytes = sum(int(layer.keys.nbytes) for layer in layers)
    # Rows that are folded come beside those that they are made of.
    most_bytes = max(keys_bytes, 2 * sum(int(layer.rows.nbytes) for layer in layers))
    if len(forms) > 1 or most_bytes > columns.LARGEST_BYTES:
        return None
    whole = Columns(
        np.concatenate([layer.hashes for layer in layers]),
        pa.concat_arrays([layer.keys for layer in layers]),
        pa.concat_arrays([layer.rows for layer in layers]),
        are_tuples=True in forms,
        source=layers[0].source,
    )
    order = np.argsort(whole.hashes, kind="stable").astype(np.int64)
    base_keys = len(layers[0]) if is_full else len(order)
    is_new = order >= base_keys
    chains = _chains(whole, order, is_new if not kind.is_one_cell else np.zeros(len(order), np.bool_))
    is_last = np.ones(len(order), np.bool_)
    is_last[[index for chain in chains for index in chain[:-1]]] = False
    keys = order[is_last]
    if kind.is_one_cell:
        rows, positions = whole.rows, keys
    else:
        begun_with = [[tables.DELETED] if is_new[chain[0]] else [] for chain in chains]
        packed = columns.pack_array(columns.pack_rows(_fold(whole, order, chains, begun_with, kind), kind)[0])
        rows, positions = columns.append_others(whole.rows, order, [chain[-1] for chain in chains], packed)
        positions = positions[is_last]
    if is_full:
        is_there = columns.sizes(rows)[positions] > 0
        keys, positions = keys[is_there], positions[is_there]
    return Columns(whole.hashes[keys], columns.take(whole.keys, keys), columns.take(rows, positions), whole.are_tuples)


def _chains(whole: Columns, order: columns.Positions, is_new: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return the indices into `order` of each key that is there more than once or new, the oldest first."""
    hashes = whole.hashes[order]
    is_like_next = np.concatenate([hashes[1:] == hashes[:-1], [False]])
    looked_at = np.flatnonzero(is_like_next | np.concatenate([[False], is_like_next[:-1]]) | is_new)
    chains: dict[bytes, list[int]] = {}
    for index, key in zip(looked_at.tolist(), columns.take(whole.keys, order[looked_at]).to_pylist(), strict=True):
        chains.setdefault(key, []).append(index)
    return [chain for chain in chains.values() if len(chain) > 1 or is_new[chain[0]]]


def _fold(
    whole: Columns,
    order: columns.Positions,
    chains: Sequence[Sequence[int]],
    begun_with: Sequence[Sequence[object]],
    kind: kinds.StateKind,
) -> list[object]:
    """Return the one change that each chain comes to."""
    indices = [index for chain in chains for index in chain]
    changes, folded = iter(whole.changes_at(order[indices], kind)), []
    for before, chain in zip(begun_with, chains, strict=True):
        first, *others = [*before, *(next(changes) for _ in chain)]
        older: tables.Changes = {None: first}
        for change in others:
            kind.merge(older, {None: change})
        folded.append(older[None])
    return folded


_SLICE = 4096
"""Rows that are objects at the same time."""
_TIME_BYTES = 8
_UINT64 = 0xCF
"""Begins an integer of eight bytes in msgpack."""


def without_expired(whole: Columns, cutoff_ms: int, kind: kinds.StateKind) -> Columns | None:
    """Return columns without the cells, elements and entries that were renewed at or before a time.

    Of cells only those that look expired become objects. One is packed as an array of the value and the time of its last
    renewal, so the time is at the end of the row. In this century it takes nine bytes there. Where the row does not end so,
    or the time is over, the row is unpacked, and only that decides. A row that ends so by chance, of a time before
    1970-02-20, is kept until it is read. Lists and maps become objects a few at a time, and are packed again where they
    lose something.

    Args:
        whole: Of a state with a time to live, without deletions.
        cutoff_ms: In milliseconds since 1970.
        kind: Its kind.

    Returns:
        The columns; None if they are too large, while both forms of rows are there.
    """
    if kind.is_one_cell:
        suspects = np.flatnonzero(~_are_surely_alive(whole, cutoff_ms)).astype(np.int64)
        if not len(suspects):
            return whole
        unpacked = cast("list[tuple[object, int]]", whole.changes_at(suspects, kind))
        is_expired = np.array([renewed_ms <= cutoff_ms for _, renewed_ms in unpacked], np.bool_)
        return whole.take(np.delete(np.arange(len(whole)), suspects[is_expired]))
    is_left, shorter = np.ones(len(whole), np.bool_), dict[int, object]()
    for begin in range(0, len(whole), _SLICE):
        positions = np.arange(begin, min(begin + _SLICE, len(whole)))
        for position, row in zip(positions.tolist(), whole.changes_at(positions, kind), strict=True):
            part = kind.alive(row, cutoff_ms)  # type: ignore[arg-type]  # a change of this kind
            if part is None:
                is_left[position] = False
            elif part != row:
                shorter[position] = part
    if not shorter:
        return whole if is_left.all() else whole.take(np.flatnonzero(is_left))
    packed = columns.pack_array(columns.pack_rows(shorter.values(), kind)[0])
    if packed.nbytes + whole.rows.nbytes > columns.LARGEST_BYTES:
        return None
    rows, positions = columns.append_others(whole.rows, np.arange(len(whole)), list(shorter), packed)
    return dataclasses.replace(whole, rows=columns.take(rows, positions)).take(np.flatnonzero(is_left))


def _are_surely_alive(cells: Columns, cutoff_ms: int) -> npt.NDArray[np.bool_]:
    """Tell of each row whether it ends in a time after the cutoff, as far as its last bytes tell."""
    offsets, body = columns.parts(cells.rows)
    are_alive = np.zeros(len(cells), np.bool_)
    long_enough = np.flatnonzero(np.diff(offsets) > _TIME_BYTES)
    starts = offsets[1:][long_enough].astype(np.int64) - _TIME_BYTES
    each_byte = np.frombuffer(body, np.uint8)
    times = columns.integers(each_byte, starts, ">u8")
    are_alive[long_enough] = (each_byte[starts - 1] == _UINT64) & (times > max(cutoff_ms, 0))
    return are_alive
