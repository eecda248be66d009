"""A view of one state of a key group: layers of columns, in which rows are found by the hash of their key.

The first layer is what the full chunk of the state has, later ones are the changes of batches; an index over all later
layers, ordered by hash and then by age, tells in one search where a key was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from statefulspark.state.columnar import blobs, columns, merging, moments
from statefulspark.state.columnar.columns import Columns, PackedKeys
from statefulspark.state.memory import tables
from statefulspark.state.stored import chunks, layers, timerindex

_MOST_LAYERS = 32
"""More layers of changes are merged into one, so that a batch looks into few."""
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowsFound:
    """Where the rows of keys are, by key and then by age.

    Attributes:
        queries: Which of the keys that were looked for.
        numbers: Layers.
        positions: Positions in these.
    """

    queries: _Places
    numbers: _Places
    positions: _Places


class StateView:
    """One state in all layers.

    Attributes:
        meta: The state.
        layers: The oldest first.
        timers: When rows are due, of a state with timers.
    """

    def __init__(self, meta: chunks.StateMeta) -> None:
        """Begin without layers."""
        self.meta = meta
        self.layers: list[layers.Layer] = []
        self.timers = timerindex.TimerIndex() if meta.kind.shape.has_moments else None
        self._hashes: columns.Hashes = np.zeros(0, np.uint32)
        self._layers, self._positions = _none(), _none()

    def add(self, layer: layers.Layer) -> None:
        """Add the changes of a batch, or the whole state if there is no layer yet."""
        if self.timers is not None:
            self._add_timers(self.timers, layer.columns)
        self.layers.append(layer)
        if len(self.layers) > 1:
            self._add_to_index(len(self.layers) - 1)
        if len(self.layers) > _MOST_LAYERS:
            self._merge_changes()

    def rows_of(self, looked_for: PackedKeys) -> RowsFound:
        """Return where the rows of keys are."""
        return self._rows_with(looked_for.hashes, looked_for.packed)

    def changes_at(self, rows: RowsFound, keys: Sequence[object]) -> Iterator[tables.Changes]:
        """Yield the changes in rows, in the order in which they are applied: one dict for all keys at a time.

        Args:
            rows: The rows.
            keys: The keys of which they are.
        """
        form = self.meta.kind.shape.row_form
        queries, numbers, positions = rows.queries, rows.numbers, rows.positions
        if form.replaces:
            is_last = np.append(queries[1:] != queries[:-1], np.ones(min(1, len(queries)), np.bool_))
            queries, numbers, positions = queries[is_last], numbers[is_last], positions[is_last]
        changes = self._gather(numbers, positions, lambda layer, places: layer.changes_at(places, form))
        yield from _by_rank([keys[query] for query in queries.tolist()], queries, changes)

    def due(self, until_ms: int) -> Iterator[tuple[object, bytes]]:
        """Yield keys that may have timers at or before a moment, and their bytes; one may come more than once."""
        for number, positions in self.timers.due(until_ms) if self.timers is not None else ():
            keys = blobs.take(self.layers[number].columns.keys, positions)
            yield from zip(columns.unpack_keys(keys), keys.to_pylist(), strict=True)

    def _add_timers(self, index: timerindex.TimerIndex, newer: Columns) -> None:
        """Take the timers of a layer into the index, and forget those that its rows replace."""
        earliest, is_whole = moments.read(newer)
        if self.layers:
            replacing = newer.take(np.flatnonzero(is_whole))
            replaced = self._rows_with(replacing.hashes, replacing.keys.to_pylist())
            index.forget(replaced.numbers, replaced.positions)
        index.add(earliest)

    def whole(self) -> Iterator[tables.Changes]:
        """Yield the changes of all keys, layer by layer."""
        form = self.meta.kind.shape.row_form
        return (layer.columns.changes(form) for layer in self.layers)

    def merged(self, newer: Sequence[Columns]) -> Columns | None:
        """Return the whole state with newer changes; None where it cannot be merged as columns."""
        shape = self.meta.kind.shape
        return merging.merge([*_columns(self.layers), *newer], shape.row_form, shape.merge, is_full=True)

    def _rows_with(self, hashes: columns.Hashes, packed: Sequence[bytes]) -> RowsFound:
        """Return where the rows of packed keys are: those with their hashes that have their bytes, too."""
        queries, numbers, positions = self._candidates(hashes)
        theirs = self._gather(numbers, positions, _packed_keys)
        is_same = [key == packed[query] for key, query in zip(theirs, queries.tolist(), strict=True)]
        return RowsFound(queries[is_same], numbers[is_same], positions[is_same])

    def _candidates(self, hashes: columns.Hashes) -> tuple[_Places, _Places, _Places]:
        """Return query, layer and position of all rows with one of these hashes, by query and then by age."""
        if not self.layers:
            return _none(), _none(), _none()
        queries, positions = _with_hash(self.layers[0].columns.hashes, hashes)
        later_queries, places = _with_hash(self._hashes, hashes)
        order = np.argsort(np.concatenate([queries, later_queries]), kind="stable")
        return (
            np.concatenate([queries, later_queries])[order],
            np.concatenate([np.zeros_like(positions), self._layers[places]])[order],
            np.concatenate([positions, self._positions[places]])[order],
        )

    def _gather(
        self, numbers: _Places, positions: _Places, read: Callable[[Columns, _Places], Sequence[object]]
    ) -> list[object]:
        """Return what `read` returns for each number of a layer and position."""
        gathered: list[object] = [None] * len(numbers)
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            values = read(self.layers[number].columns, positions[places])
            for index, value in zip(places.tolist(), values, strict=True):
                gathered[index] = value
        return gathered

    def _add_to_index(self, number: int) -> None:
        hashes = self.layers[number].columns.hashes
        # Behind equal hashes, which are of older layers.
        places = np.searchsorted(self._hashes, hashes, "right")
        self._hashes = np.insert(self._hashes, places, hashes)
        self._layers = np.insert(self._layers, places, number)
        self._positions = np.insert(self._positions, places, np.arange(len(hashes)))

    def _merge_changes(self) -> None:
        shape = self.meta.kind.shape
        merged = merging.merge(_columns(self.layers[1:]), shape.row_form, shape.merge, is_full=False)
        if merged is not None:
            self.layers[1:] = [layers.Layer(merged)]
            self._hashes, self._layers, self._positions = np.zeros(0, np.uint32), _none(), _none()
            self._add_to_index(1)
            if self.timers is not None:
                self.timers.merged(moments.read(merged)[0])


def _columns(of_layers: Iterable[layers.Layer]) -> list[Columns]:
    return [layer.columns for layer in of_layers]


def _packed_keys(layer: Columns, positions: _Places) -> list[object]:
    return cast("list[object]", blobs.take(layer.keys, positions).to_pylist())


def _with_hash(hashes: columns.Hashes, looked_for: columns.Hashes) -> tuple[_Places, _Places]:
    """Return, for each hash that is found, which of the looked_for ones it is and its position; several may be equal."""
    first = np.searchsorted(hashes, looked_for, "left")
    counts = np.searchsorted(hashes, looked_for, "right") - first
    queries = np.repeat(np.arange(len(looked_for)), counts)
    before = np.cumsum(counts) - counts
    return queries, np.repeat(first - before, counts) + np.arange(len(queries))


def _by_rank(keys: Sequence[object], queries: _Places, changes: Sequence[object]) -> Iterator[tables.Changes]:
    """Yield the first change of each key, then the second of those that have one, and so on."""
    is_first = np.append(np.ones(min(1, len(queries)), np.bool_), queries[1:] != queries[:-1])
    starts = np.flatnonzero(is_first)
    ranks = np.arange(len(queries)) - np.repeat(starts, np.diff(np.append(starts, len(queries))))
    for rank in range(int(ranks.max(initial=-1)) + 1):
        yield {keys[index]: changes[index] for index in np.flatnonzero(ranks == rank).tolist()}


def _none() -> _Places:
    return np.zeros(0, np.int64)
