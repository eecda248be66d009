"""A view of one key group: its state as columns, of which a batch reads the rows of its keys and nothing else.

Nothing is built when a view is opened: chunks that are stored as columns are used where they lie. Of each state the first
layer is what the full chunk has, later ones are the changes of batches; an index over all later layers, ordered by hash and
then by age, tells in one search where a key was changed. A layer is in memory, or in a file from which it is taken while the
view is in use.

What a batch wrote is noted with the version that it made, and taken over when a later batch finds that version in the
lineage of its head. So a view never has changes of an attempt that was lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from statefulspark.state import chunks, columns, grouptables, heads, kinds, merging, tables, timerindex
from statefulspark.state.columns import Columns, PackedKeys

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

    def __init__(self, meta: kinds.StateMeta) -> None:
        """Begin without layers."""
        self.meta = meta
        self.layers: list[Layer] = []
        self.timers = timerindex.TimerIndex() if meta.kind.has_moments else None
        self._hashes: columns.Hashes = np.zeros(0, np.uint32)
        self._layers, self._positions = _none(), _none()

    def add(self, layer: Layer) -> None:
        """Add the changes of a batch, or the whole state if there is no layer yet."""
        if self.timers is not None:
            earliest, is_whole = timerindex.read_moments(layer.columns)
            if self.layers:
                replacing = layer.columns.take(np.flatnonzero(is_whole))
                replaced = self._rows_with(replacing.hashes, replacing.keys.to_pylist())
                self.timers.forget(replaced.numbers, replaced.positions)
            self.timers.add(earliest)
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
        kind = self.meta.kind
        queries, numbers, positions = rows.queries, rows.numbers, rows.positions
        if kind.is_one_cell:
            is_last = np.append(queries[1:] != queries[:-1], np.ones(min(1, len(queries)), np.bool_))
            queries, numbers, positions = queries[is_last], numbers[is_last], positions[is_last]
        changes = self._gather(numbers, positions, lambda layer, places: layer.changes_at(places, kind))
        # The first change of each key, then the second of those that have one, and so on.
        is_first = np.append(np.ones(min(1, len(queries)), np.bool_), queries[1:] != queries[:-1])
        starts = np.flatnonzero(is_first)
        ranks = np.arange(len(queries)) - np.repeat(starts, np.diff(np.append(starts, len(queries))))
        keys_of_rows = [keys[query] for query in queries.tolist()]
        for rank in range(int(ranks.max(initial=-1)) + 1):
            yield {keys_of_rows[index]: changes[index] for index in np.flatnonzero(ranks == rank).tolist()}

    def due(self, until_ms: int) -> Iterator[tuple[object, bytes]]:
        """Yield keys that may have timers at or before a moment, and their bytes; one may come more than once."""
        for number, positions in self.timers.due(until_ms) if self.timers is not None else ():
            keys = columns.take(self.layers[number].columns.keys, positions)
            yield from zip(columns.unpack_keys(keys), keys.to_pylist(), strict=True)

    def whole(self) -> Iterator[tables.Changes]:
        """Yield the changes of all keys, layer by layer."""
        return (layer.columns.changes(self.meta.kind) for layer in self.layers)

    def merged(self, newer: Sequence[Columns]) -> Columns | None:
        """Return the whole state with newer changes; None where it cannot be merged as columns."""
        return merging.merge([*_columns(self.layers), *newer], self.meta.kind, is_full=True)

    def _rows_with(self, hashes: columns.Hashes, packed: Sequence[bytes]) -> RowsFound:
        """Return where the rows of packed keys are: those with their hashes that have their bytes, too."""
        queries, numbers, positions = self._candidates(hashes)
        theirs = self._gather(numbers, positions, lambda layer, rows: columns.take(layer.keys, rows).to_pylist())
        is_same = [key == packed[query] for key, query in zip(theirs, queries.tolist(), strict=True)]
        return RowsFound(queries[is_same], numbers[is_same], positions[is_same])

    def _candidates(self, hashes: columns.Hashes) -> tuple[_Places, _Places, _Places]:
        """Return query, layer and position of all rows with one of these hashes, by query and then by age."""
        if not self.layers:
            return _none(), _none(), _none()
        queries, positions = _find_hashes(self.layers[0].columns.hashes, hashes)
        later_queries, places = _find_hashes(self._hashes, hashes)
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
        merged = merging.merge(_columns(self.layers[1:]), self.meta.kind, is_full=False)
        if merged is not None:
            self.layers[1:] = [Layer(merged)]
            self._hashes, self._layers, self._positions = np.zeros(0, np.uint32), _none(), _none()
            self._add_to_index(1)
            if self.timers is not None:
                self.timers.merged(timerindex.read_moments(merged)[0])


def _columns(of_layers: Iterable[Layer]) -> list[Columns]:
    return [layer.columns for layer in of_layers]


def _find_hashes(hashes: columns.Hashes, looked_for: columns.Hashes) -> tuple[_Places, _Places]:
    """Return, for each hash that is found, which of the looked_for ones it is and its position; several may be equal."""
    first = np.searchsorted(hashes, looked_for, "left")
    counts = np.searchsorted(hashes, looked_for, "right") - first
    queries = np.repeat(np.arange(len(looked_for)), counts)
    before = np.cumsum(counts) - counts
    return queries, np.repeat(first - before, counts) + np.arange(len(queries))


def _none() -> _Places:
    return np.zeros(0, np.int64)


_SLACK_BYTES = 64 << 10
"""So much more than twice of what it needs may be in a view's file."""


@dataclass(slots=True)
class _Noted:
    """What an attempt wrote, and the version that it made.

    Attributes:
        version: The version.
        unique_id: Its id.
        kind: The whole key group, or changes.
        by_state: Layers and the states that they are of.
        file: Where they are on disk; a whole key group has a file of its own, since it replaces the other.
    """

    version: int
    unique_id: str
    kind: chunks.ChunkKind
    by_state: list[tuple[kinds.StateMeta, Layer]]
    file: LayerFile | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it replaces all that was before."""
        return self.kind is chunks.ChunkKind.FULL


class GroupView:
    """All states of one key group, at one version.

    Attributes:
        version: Number of batches that changed the key group.
        unique_id: Id of the attempt that made the version.
        states: By name.
    """

    def __init__(self) -> None:
        """Begin before the first version."""
        self.version, self.unique_id = 0, ""
        self.states: dict[str, StateView] = {}
        self._noted: _Noted | None = None
        self._drawer: LayerFile | None = None

    @staticmethod
    def from_chunk(head: heads.GroupHead, chunk: chunks.Chunk) -> GroupView:
        """Return the view of a key group that was written in full as columns."""
        view = GroupView()
        view.apply(chunk)
        view.set_version(head.version, head.unique_id)
        return view

    @property
    def size_bytes(self) -> int:
        """Memory of what is not on disk."""
        of_timers = sum(state.timers.size_bytes for state in self.states.values() if state.timers is not None)
        return of_timers + sum(layer.size_bytes for layer in self._all_layers() if layer.place is None)

    @property
    def disk_bytes(self) -> int:
        """Disk space of what is on disk."""
        noted = None if self._noted is None else self._noted.file
        return sum(file.size_bytes for file in (self._drawer, noted) if file is not None)

    def follow(self, head: heads.GroupHead) -> bool:
        """Take over what was noted, if it was committed; return False if the view is of another history, or too old."""
        noted, self._noted = self._noted, None
        if noted is not None and head.follows(noted.version, noted.unique_id):
            if noted.is_whole:
                self.states, self._drawer = {}, noted.file
            for meta, layer in noted.by_state:
                self._add(meta, layer)
            self.set_version(noted.version, noted.unique_id)
        return head.follows(self.version, self.unique_id)

    def set_version(self, version: int, unique_id: str) -> None:
        """Say which version the view has now."""
        self.version, self.unique_id = version, unique_id

    def note(self, after: heads.GroupHead, chunk: chunks.Chunk) -> None:
        """Note what an attempt wrote: the whole key group, or the changes since the version that the view has."""
        written = _layers_of(chunk)
        self._noted = None if written is None else _Noted(after.version, after.unique_id, chunk.kind, written)

    def apply(self, chunk: chunks.Chunk) -> bool:
        """Apply the next chunk; return False, and change nothing, if that is impossible."""
        added = _layers_of(chunk)
        for meta, layer in added or ():
            self._add(meta, layer)
        return added is not None

    def _add(self, meta: kinds.StateMeta, layer: Layer) -> None:
        state = self.states.setdefault(meta.name, StateView(meta))
        state.meta = meta
        state.add(layer)

    def spill(self, new_drawer: Callable[[], LayerFile]) -> None:
        """Write to disk what is in memory only; it stays in memory, too, until `rest`."""
        needed_bytes = sum(layer.size_bytes for layer in self._drawn_layers())
        if self._drawer is not None and self._drawer.size_bytes > 2 * needed_bytes + _SLACK_BYTES:
            # What was merged or lost is still in the file.
            self._drawer = None
            for layer in self._drawn_layers():
                layer.place = None
        self._drawer = self._drawer or new_drawer()
        for state in self.states.values():
            _put(state.layers, self._drawer)
        if self._noted is not None:
            if self._noted.is_whole:
                self._noted.file = self._noted.file or new_drawer()
            _put([layer for _, layer in self._noted.by_state], self._noted.file or self._drawer)

    def rest(self) -> None:
        """Hold nothing in memory that is on disk, and no address space for it."""
        for layer in self._all_layers():
            layer.rest()
        if self._drawer is not None:
            self._drawer.rest()
        if self._noted is not None and self._noted.file is not None:
            self._noted.file.rest()

    def wake(self) -> None:
        """Be ready again after `rest`."""
        if self._drawer is None:
            return
        for state in self.states.values():
            for layer in state.layers:
                layer.wake(self._drawer)
        if self._noted is not None:
            for _, layer in self._noted.by_state:
                layer.wake(self._noted.file or self._drawer)

    def _drawn_layers(self) -> Iterator[Layer]:
        """Return the layers that are, or will be, in the file of the view."""
        yield from itertools.chain.from_iterable(state.layers for state in self.states.values())
        if self._noted is not None and not self._noted.is_whole:
            yield from (layer for _, layer in self._noted.by_state)

    def _all_layers(self) -> Iterator[Layer]:
        yield from itertools.chain.from_iterable(state.layers for state in self.states.values())
        yield from (layer for _, layer in self._noted.by_state) if self._noted is not None else ()

    def add_due(self, keys: PackedKeys, due_ms: Mapping[str, int]) -> PackedKeys:
        """Return keys and those that may have due timers.

        Args:
            keys: The keys of a batch.
            due_ms: Until when timers are due, by name of the state.
        """
        due = [self.states[name].due(until_ms) for name, until_ms in due_ms.items() if name in self.states]
        return keys.joined(itertools.chain.from_iterable(due))

    def part(self, keys: PackedKeys) -> grouptables.GroupTables:
        """Return tables with the rows of some keys."""
        group = grouptables.GroupTables()
        for name, state in self.states.items():
            rows = state.rows_of(keys)
            _apply(group.table(state.meta), state.changes_at(rows, keys.keys))
            other_ms = None if state.timers is None else state.timers.next_ms(rows.numbers, rows.positions)
            if other_ms is not None:
                group.next_ms[name] = other_ms
        return group

    def whole(self) -> grouptables.GroupTables:
        """Return tables with all rows."""
        group = grouptables.GroupTables()
        for state in self.states.values():
            _apply(group.table(state.meta), state.whole())
        return group

    def merged(self, delta: chunks.Chunk, cutoffs_ms: Mapping[str, int]) -> chunks.Chunk | None:
        """Return the whole key group with the changes of a batch; None where it cannot be merged as columns.

        Args:
            delta: The changes.
            cutoffs_ms: Until when entries were renewed that are left out, by name of the state.
        """
        newer = {section.meta.name: section for section in delta.sections}
        names = [*self.states, *(name for name in newer if name not in self.states)]
        sections = [self._merged(name, newer.get(name), cutoffs_ms.get(name)) for name in names]
        if None in sections:
            return None
        whole = (section for section in cast("list[chunks.Section]", sections) if len(section.content))
        return chunks.Chunk(chunks.ChunkKind.FULL, tuple(whole))

    def _merged(self, name: str, newer: chunks.Section | None, cutoff_ms: int | None) -> chunks.Section | None:
        layers = []
        if newer is not None:
            layer = newer.columns()
            if layer is None:
                return None
            layers.append(layer)
        state = self.states.get(name) or StateView(cast("chunks.Section", newer).meta)
        meta = newer.meta if newer else state.meta
        whole = state.merged(layers)
        if whole is not None and meta.has_ttl and cutoff_ms is not None:
            whole = merging.without_expired(whole, cutoff_ms, meta.kind)
        return None if whole is None else chunks.Section(meta, whole)


def _layers_of(chunk: chunks.Chunk) -> list[tuple[kinds.StateMeta, Layer]] | None:
    """Return the layers of a chunk; None where a state is too large for columns."""
    of_states = []
    for section in chunk.sections:
        content = section.columns()
        if content is None:
            return None
        of_states.append((section.meta, Layer(content)))
    return of_states


def _apply(table: tables.Table, in_order: Iterator[tables.Changes]) -> None:
    for changes in in_order:
        table.apply(changes)


def _put(unwritten: Iterable[Layer], file: LayerFile) -> None:
    for layer in unwritten:
        layer.put(file)
