"""A view of one key group: its state as columns, of which a batch reads the rows of its keys and nothing else.

Nothing is built when a view is opened: chunks that are stored as columns are used where they lie. The first layer of a
state is what its full chunk has, later ones are the changes of batches; an index over all later layers, ordered by hash
and then by age, tells in one search where a key was changed.

What a batch wrote is noted with the version that it made, and taken over when a later batch finds that version in the
lineage of its head. So a view never has changes of an attempt that was lost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from statefulspark.state.columnar import blobs, columns, merging
from statefulspark.state.columnar.columns import Columns, PackedKeys
from statefulspark.state.memory import tables
from statefulspark.state.stored import chunks, grouptables

_MOST_LAYERS = 32
"""More layers of changes are merged into one, so that a batch looks into few."""
_Places = npt.NDArray[np.int64]


class Head(Protocol):
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


@dataclass(frozen=True, slots=True)
class _Noted:
    """What an attempt wrote, and the version that it made; its columns are in memory or on disk."""

    version: int
    unique_id: str
    chunk: chunks.Chunk
    is_on_disk: bool = False

    @property
    def size_bytes(self) -> int:
        """Size of its columns."""
        contents = (section.content for section in self.chunk.sections)
        return sum(content.size_bytes for content in contents if isinstance(content, Columns))

    def spill(self, keep: Callable[[Columns], Columns]) -> _Noted:
        """Return the same with what `keep` returns for its columns."""
        sections = tuple(
            dataclasses.replace(section, content=keep(section.content))
            if isinstance(section.content, Columns)
            else section
            for section in self.chunk.sections
        )
        return dataclasses.replace(self, chunk=dataclasses.replace(self.chunk, sections=sections), is_on_disk=True)


class StateView:
    """One state in all layers."""

    def __init__(self, meta: chunks.StateMeta) -> None:
        """Begin without layers."""
        self.meta = meta
        self.layers: list[Columns] = []
        self.on_disk = 0
        self._hashes: columns.Hashes = np.zeros(0, np.uint32)
        self._layers, self._positions = _none(), _none()

    @property
    def size_bytes(self) -> int:
        """Memory of the layers that are not on disk."""
        return sum(layer.size_bytes for layer in self.layers[self.on_disk :])

    @property
    def disk_bytes(self) -> int:
        """Disk space of the others."""
        return sum(layer.size_bytes for layer in self.layers[: self.on_disk])

    def add(self, layer: Columns, *, is_on_disk: bool = False) -> None:
        """Add the changes of a batch, or the whole state if there is no layer yet."""
        if is_on_disk and self.on_disk == len(self.layers):
            self.on_disk += 1
        self.layers.append(layer)
        if len(self.layers) > 1:
            self._add_to_index(len(self.layers) - 1)
        if len(self.layers) > _MOST_LAYERS:
            self._merge_changes()

    def find(self, wanted: PackedKeys) -> Iterator[tables.Changes]:
        """Yield the changes of keys, in the order in which they are applied: one dict for all keys at a time."""
        form = self.meta.kind.shape.row_form
        queries, layers, positions = self._candidates(wanted)
        packed = self._gather(layers, positions, _packed_keys)
        is_same = [key == wanted.packed[query] for key, query in zip(packed, queries.tolist(), strict=True)]
        queries, layers, positions = queries[is_same], layers[is_same], positions[is_same]
        if form.replaces:
            is_last = np.append(queries[1:] != queries[:-1], np.ones(min(1, len(queries)), np.bool_))
            queries, layers, positions = queries[is_last], layers[is_last], positions[is_last]
        changes = self._gather(layers, positions, lambda layer, places: layer.changes_at(places, form))
        yield from _by_rank([wanted.keys[query] for query in queries.tolist()], queries, changes)

    def whole(self) -> Iterator[tables.Changes]:
        """Yield the changes of all keys, layer by layer."""
        form = self.meta.kind.shape.row_form
        return (layer.changes(form) for layer in self.layers)

    def merged(self, newer: Sequence[Columns]) -> Columns | None:
        """Return the whole state with newer changes; None where it cannot be merged as columns."""
        shape = self.meta.kind.shape
        return merging.merge([*self.layers, *newer], shape.row_form, shape.merge, is_full=True)

    def spill(self, keep: Callable[[Columns], Columns]) -> None:
        """Replace the layers in memory by what `keep` returns for them."""
        for number in range(self.on_disk, len(self.layers)):
            self.layers[number] = keep(self.layers[number])
            self.on_disk = number + 1

    def _candidates(self, wanted: PackedKeys) -> tuple[_Places, _Places, _Places]:
        """Return query, layer and position of all rows with the hash of a key, by query and then by age."""
        if not self.layers:
            return _none(), _none(), _none()
        queries, positions = _with_hash(self.layers[0].hashes, wanted.hashes)
        later_queries, places = _with_hash(self._hashes, wanted.hashes)
        order = np.argsort(np.concatenate([queries, later_queries]), kind="stable")
        return (
            np.concatenate([queries, later_queries])[order],
            np.concatenate([np.zeros_like(positions), self._layers[places]])[order],
            np.concatenate([positions, self._positions[places]])[order],
        )

    def _gather(
        self, layers: _Places, positions: _Places, read: Callable[[Columns, _Places], Sequence[object]]
    ) -> list[object]:
        """Return what `read` returns for each layer and position."""
        found: list[object] = [None] * len(layers)
        for number in np.unique(layers).tolist():
            places = np.flatnonzero(layers == number)
            values = read(self.layers[number], positions[places])
            for place, value in zip(places.tolist(), values, strict=True):
                found[place] = value
        return found

    def _add_to_index(self, number: int) -> None:
        hashes = self.layers[number].hashes
        # Behind equal hashes, which are of older layers.
        places = np.searchsorted(self._hashes, hashes, "right")
        self._hashes = np.insert(self._hashes, places, hashes)
        self._layers = np.insert(self._layers, places, number)
        self._positions = np.insert(self._positions, places, np.arange(len(hashes)))

    def _merge_changes(self) -> None:
        shape = self.meta.kind.shape
        merged = merging.merge(self.layers[1:], shape.row_form, shape.merge, is_full=False)
        if merged is not None:
            self.layers[1:] = [merged]
            self.on_disk = min(self.on_disk, 1)
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

    @staticmethod
    def of(head: Head, chunk: chunks.Chunk) -> GroupView:
        """Return the view of a key group that was written in full as columns."""
        view = GroupView()
        view.apply(chunk)
        view.at(head.version, head.unique_id)
        return view

    @property
    def size_bytes(self) -> int:
        """Memory of what is not on disk."""
        noted_bytes = self._noted.size_bytes if self._noted is not None and not self._noted.is_on_disk else 0
        return noted_bytes + sum(state.size_bytes for state in self.states.values())

    @property
    def disk_bytes(self) -> int:
        """Disk space of what is on disk."""
        noted_bytes = self._noted.size_bytes if self._noted is not None and self._noted.is_on_disk else 0
        return noted_bytes + sum(state.disk_bytes for state in self.states.values())

    def follow(self, head: Head) -> bool:
        """Take over what was noted, if it was committed; return False if the view is of another history, or too old."""
        noted, self._noted = self._noted, None
        if noted is not None and noted.version >= head.base and head.has_ancestor(noted.version, noted.unique_id):
            self.apply(noted.chunk, is_on_disk=noted.is_on_disk)
            self.at(noted.version, noted.unique_id)
        return self.version >= head.base and head.has_ancestor(self.version, self.unique_id)

    def at(self, version: int, unique_id: str) -> None:
        """Say which version the view has now."""
        self.version, self.unique_id = version, unique_id

    def note(self, after: Head, chunk: chunks.Chunk) -> None:
        """Note what an attempt wrote: the whole key group, or the changes since the version that the view has."""
        self._noted = _Noted(after.version, after.unique_id, chunk)

    def apply(self, chunk: chunks.Chunk, *, is_on_disk: bool = False) -> bool:
        """Apply a chunk; return False, and be of no more use, if that is impossible.

        Args:
            chunk: The next one, or the whole key group.
            is_on_disk: Whether its columns are on disk.
        """
        if chunk.kind is chunks.ChunkKind.FULL:
            self.states = {}
        for section in chunk.sections:
            layer = None if section.meta.kind.shape.needs_whole_group else section.columns()
            if layer is None:
                self.at(0, "")
                return False
            state = self.states.setdefault(section.meta.name, StateView(section.meta))
            state.meta = section.meta
            state.add(layer, is_on_disk=is_on_disk and layer is section.content)
        return True

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

    def merged(self, delta: chunks.Chunk) -> chunks.Chunk | None:
        """Return the whole key group with the changes of a batch; None where it cannot be merged as columns."""
        newer = {section.meta.name: section for section in delta.sections}
        names = [*self.states, *(name for name in newer if name not in self.states)]
        sections = [self._merged(name, newer.get(name)) for name in names]
        if None in sections:
            return None
        whole = (section for section in cast("list[chunks.Section]", sections) if len(section.content))
        return chunks.Chunk(chunks.ChunkKind.FULL, tuple(whole))

    def _merged(self, name: str, newer: chunks.Section | None) -> chunks.Section | None:
        layers = []
        if newer is not None:
            layer = newer.columns()
            if layer is None:
                return None
            layers.append(layer)
        state = self.states.get(name) or StateView(cast("chunks.Section", newer).meta)
        whole = state.merged(layers)
        return None if whole is None else chunks.Section(newer.meta if newer else state.meta, whole)

    def spill(self, keep: Callable[[Columns], Columns]) -> None:
        """Replace what is in memory by what `keep` returns for it."""
        for state in self.states.values():
            state.spill(keep)
        if self._noted is not None and not self._noted.is_on_disk:
            self._noted = self._noted.spill(keep)


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
        yield {keys[place]: changes[place] for place in np.flatnonzero(ranks == rank).tolist()}


def _none() -> _Places:
    return np.zeros(0, np.int64)
