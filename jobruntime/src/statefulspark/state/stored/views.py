"""A view of one key group: its state as columns, of which a batch reads the rows of its keys and nothing else.

Nothing is built when a view is opened: chunks that are stored as columns are used where they lie. The first layer of a
state is what its full chunk has, later ones are the changes of batches; an index over all later layers, ordered by hash
and then by age, tells in one search where a key was changed.

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

from statefulspark.state.columnar import blobs, columns, merging, renewals
from statefulspark.state.columnar.columns import Columns, PackedKeys
from statefulspark.state.memory import tables
from statefulspark.state.stored import chunks, grouptables, layers

_MOST_LAYERS = 32
"""More layers of changes are merged into one, so that a batch looks into few."""
_SLACK_BYTES = 64 << 10
"""So much more than twice of what it needs may be in a view's file."""
_Places = npt.NDArray[np.int64]


class LineageHead(Protocol):
    """What a view asks of the head of its key group."""

    @property
    def version(self) -> int:
        """The version that a batch finds."""

    @property
    def unique_id(self) -> str:
        """Id of the attempt that made it."""

    @property
    def base(self) -> int:
        """Version of the full chunk."""

    def has_ancestor(self, version: int, unique_id: str) -> bool:
        """Tell whether a version is this head or one of its predecessors."""


@dataclass(slots=True)
class _Noted:
    """What an attempt wrote, and the version that it made.

    Attributes:
        version: The version.
        unique_id: Its id.
        kind: The whole key group, or changes.
        by_state: Layers and the states that they are of.
        drawer: Where they are on disk; a whole key group has a drawer of its own, since it replaces the other.
    """

    version: int
    unique_id: str
    kind: chunks.ChunkKind
    by_state: list[tuple[chunks.StateMeta, layers.Layer]]
    drawer: layers.Drawer | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it replaces all that was before."""
        return self.kind is chunks.ChunkKind.FULL


class StateView:
    """One state in all layers."""

    def __init__(self, meta: chunks.StateMeta) -> None:
        """Begin without layers."""
        self.meta = meta
        self.layers: list[layers.Layer] = []
        self._hashes: columns.Hashes = np.zeros(0, np.uint32)
        self._layers, self._positions = _none(), _none()

    def add(self, layer: layers.Layer) -> None:
        """Add the changes of a batch, or the whole state if there is no layer yet."""
        self.layers.append(layer)
        if len(self.layers) > 1:
            self._add_to_index(len(self.layers) - 1)
        if len(self.layers) > _MOST_LAYERS:
            self._merge_changes()

    def find(self, wanted: PackedKeys) -> Iterator[tables.Changes]:
        """Yield the changes of keys, in the order in which they are applied: one dict for all keys at a time."""
        form = self.meta.kind.shape.row_form
        queries, numbers, positions = self._candidates(wanted)
        packed = self._gather(numbers, positions, _packed_keys)
        is_same = [key == wanted.packed[query] for key, query in zip(packed, queries.tolist(), strict=True)]
        queries, numbers, positions = queries[is_same], numbers[is_same], positions[is_same]
        if form.replaces:
            is_last = np.append(queries[1:] != queries[:-1], np.ones(min(1, len(queries)), np.bool_))
            queries, numbers, positions = queries[is_last], numbers[is_last], positions[is_last]
        changes = self._gather(numbers, positions, lambda layer, places: layer.changes_at(places, form))
        yield from _by_rank([wanted.keys[query] for query in queries.tolist()], queries, changes)

    def whole(self) -> Iterator[tables.Changes]:
        """Yield the changes of all keys, layer by layer."""
        form = self.meta.kind.shape.row_form
        return (layer.columns.changes(form) for layer in self.layers)

    def merged(self, newer: Sequence[Columns]) -> Columns | None:
        """Return the whole state with newer changes; None where it cannot be merged as columns."""
        shape = self.meta.kind.shape
        return merging.merge([*_columns(self.layers), *newer], shape.row_form, shape.merge, is_full=True)

    def _candidates(self, wanted: PackedKeys) -> tuple[_Places, _Places, _Places]:
        """Return query, layer and position of all rows with the hash of a key, by query and then by age."""
        if not self.layers:
            return _none(), _none(), _none()
        queries, positions = _with_hash(self.layers[0].columns.hashes, wanted.hashes)
        later_queries, places = _with_hash(self._hashes, wanted.hashes)
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
        self._drawer: layers.Drawer | None = None

    @staticmethod
    def of(head: LineageHead, chunk: chunks.Chunk) -> GroupView:
        """Return the view of a key group that was written in full as columns."""
        view = GroupView()
        view.apply(chunk)
        view.at(head.version, head.unique_id)
        return view

    @property
    def size_bytes(self) -> int:
        """Memory of what is not on disk."""
        return sum(layer.size_bytes for layer in self._all_layers() if layer.place is None)

    @property
    def disk_bytes(self) -> int:
        """Disk space of what is on disk."""
        noted = None if self._noted is None else self._noted.drawer
        return sum(drawer.size_bytes for drawer in (self._drawer, noted) if drawer is not None)

    def follow(self, head: LineageHead) -> bool:
        """Take over what was noted, if it was committed; return False if the view is of another history, or too old."""
        noted, self._noted = self._noted, None
        if noted is not None and noted.version >= head.base and head.has_ancestor(noted.version, noted.unique_id):
            if noted.is_whole:
                self.states, self._drawer = {}, noted.drawer
            for meta, layer in noted.by_state:
                self._add(meta, layer)
            self.at(noted.version, noted.unique_id)
        return self.version >= head.base and head.has_ancestor(self.version, self.unique_id)

    def at(self, version: int, unique_id: str) -> None:
        """Say which version the view has now."""
        self.version, self.unique_id = version, unique_id

    def note(self, after: LineageHead, chunk: chunks.Chunk) -> None:
        """Note what an attempt wrote: the whole key group, or the changes since the version that the view has."""
        written = _layers_of(chunk)
        self._noted = None if written is None else _Noted(after.version, after.unique_id, chunk.kind, written)

    def apply(self, chunk: chunks.Chunk) -> bool:
        """Apply the next chunk; return False, and change nothing, if that is impossible."""
        added = _layers_of(chunk)
        for meta, layer in added or ():
            self._add(meta, layer)
        return added is not None

    def _add(self, meta: chunks.StateMeta, layer: layers.Layer) -> None:
        state = self.states.setdefault(meta.name, StateView(meta))
        state.meta = meta
        state.add(layer)

    def spill(self, new_drawer: Callable[[], layers.Drawer]) -> None:
        """Write to disk what is in memory only; it stays in memory, too, until `rest`."""
        if self._drawer is not None and self._drawer.size_bytes > 2 * self._drawn_bytes() + _SLACK_BYTES:
            # What was merged or lost is still in the file.
            self._drawer = None
            for layer in self._drawn_layers():
                layer.place = None
        self._drawer = self._drawer or new_drawer()
        for state in self.states.values():
            _put(state.layers, self._drawer)
        if self._noted is not None:
            if self._noted.is_whole:
                self._noted.drawer = self._noted.drawer or new_drawer()
            _put([layer for _, layer in self._noted.by_state], self._noted.drawer or self._drawer)

    def rest(self) -> None:
        """Hold nothing in memory that is on disk, and no address space for it."""
        for layer in self._all_layers():
            layer.rest()
        if self._drawer is not None:
            self._drawer.rest()
        if self._noted is not None and self._noted.drawer is not None:
            self._noted.drawer.rest()

    def wake(self) -> None:
        """Be ready again after `rest`."""
        if self._drawer is None:
            return
        for state in self.states.values():
            for layer in state.layers:
                layer.wake(self._drawer)
        if self._noted is not None:
            for _, layer in self._noted.by_state:
                layer.wake(self._noted.drawer or self._drawer)

    def _drawn_layers(self) -> Iterator[layers.Layer]:
        """Return the layers that are, or will be, in the drawer of the view."""
        yield from itertools.chain.from_iterable(state.layers for state in self.states.values())
        if self._noted is not None and not self._noted.is_whole:
            yield from (layer for _, layer in self._noted.by_state)

    def _drawn_bytes(self) -> int:
        return sum(layer.size_bytes for layer in self._drawn_layers())

    def _all_layers(self) -> Iterator[layers.Layer]:
        yield from itertools.chain.from_iterable(state.layers for state in self.states.values())
        yield from (layer for _, layer in self._noted.by_state) if self._noted is not None else ()

    def rows_of(self, wanted: PackedKeys) -> grouptables.GroupTables:
        """Return tables with the rows of some keys."""
        return self._tables(lambda state: state.find(wanted))

    def whole(self) -> grouptables.GroupTables:
        """Return tables with all rows."""
        return self._tables(lambda state: state.whole())

    def _tables(self, read: Callable[[StateView], Iterator[tables.Changes]]) -> grouptables.GroupTables:
        group = grouptables.GroupTables()
        for state in self.states.values():
            table = group.table(state.meta)
            for changes in read(state):
                table.apply(changes)
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
            # Elements of lists and maps expire one by one.
            is_cell = meta.kind.shape.row_form.replaces
            whole = renewals.without_expired(whole, cutoff_ms) if is_cell else None
        return None if whole is None else chunks.Section(meta, whole)


def _layers_of(chunk: chunks.Chunk) -> list[tuple[chunks.StateMeta, layers.Layer]] | None:
    """Return the layers of a chunk; None where a state has to be seen as a whole, or is too large for columns."""
    of_states = []
    for section in chunk.sections:
        content = None if section.meta.kind.shape.needs_whole_group else section.columns()
        if content is None:
            return None
        of_states.append((section.meta, layers.Layer(content)))
    return of_states


def _put(unwritten: Iterable[layers.Layer], drawer: layers.Drawer) -> None:
    for layer in unwritten:
        layer.put(drawer)


def _columns(of_layers: Iterable[layers.Layer]) -> list[Columns]:
    return [layer.columns for layer in of_layers]


def _packed_keys(layer: Columns, positions: _Places) -> list[object]:
    return cast("list[object]", blobs.take(layer.keys, positions).to_pylist())


def _with_hash(hashes: columns.Hashes, wanted: columns.Hashes) -> tuple[_Places, _Places]:
    """Return, for each hash that is found, which of the wanted ones it is and its position; several may be equal."""
    first = np.searchsorted(hashes, wanted, "left")
    counts = np.searchsorted(hashes, wanted, "right") - first
    queries = np.repeat(np.arange(len(wanted)), counts)
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
