"""A view of one key group: its state as columns, of which a batch reads the rows of its keys and nothing else.

Nothing is built when a view is opened: chunks that are stored as columns are used where they lie (`stateviews`).

What a batch wrote is noted with the version that it made, and taken over when a later batch finds that version in the
lineage of its head. So a view never has changes of an attempt that was lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from statefulspark.state.columnar import renewals
from statefulspark.state.columnar.columns import Columns, PackedKeys
from statefulspark.state.handles import kindtypes
from statefulspark.state.memory import tables
from statefulspark.state.stored import chunks, grouptables, layers, stateviews

_SLACK_BYTES = 64 << 10
"""So much more than twice of what it needs may be in a view's file."""


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
        file: Where they are on disk; a whole key group has a file of its own, since it replaces the other.
    """

    version: int
    unique_id: str
    kind: chunks.ChunkKind
    by_state: list[tuple[chunks.StateMeta, layers.Layer]]
    file: layers.LayerFile | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it replaces all that was before."""
        return self.kind is chunks.ChunkKind.FULL


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of some keys of a key group.

    Attributes:
        tables: The rows.
        next_ms: When the earliest timer may be of all other keys, by name of the state; without states that have none.
    """

    tables: grouptables.GroupTables
    next_ms: Mapping[str, int]


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
        self.states: dict[str, stateviews.StateView] = {}
        self._noted: _Noted | None = None
        self._drawer: layers.LayerFile | None = None

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
        of_timers = sum(state.timers.size_bytes for state in self.states.values() if state.timers is not None)
        return of_timers + sum(layer.size_bytes for layer in self._all_layers() if layer.place is None)

    @property
    def disk_bytes(self) -> int:
        """Disk space of what is on disk."""
        noted = None if self._noted is None else self._noted.file
        return sum(file.size_bytes for file in (self._drawer, noted) if file is not None)

    def follow(self, head: LineageHead) -> bool:
        """Take over what was noted, if it was committed; return False if the view is of another history, or too old."""
        noted, self._noted = self._noted, None
        if noted is not None and noted.version >= head.base and head.has_ancestor(noted.version, noted.unique_id):
            if noted.is_whole:
                self.states, self._drawer = {}, noted.file
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
        state = self.states.setdefault(meta.name, stateviews.StateView(meta))
        state.meta = meta
        state.add(layer)

    def spill(self, new_drawer: Callable[[], layers.LayerFile]) -> None:
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

    def _drawn_layers(self) -> Iterator[layers.Layer]:
        """Return the layers that are, or will be, in the file of the view."""
        yield from itertools.chain.from_iterable(state.layers for state in self.states.values())
        if self._noted is not None and not self._noted.is_whole:
            yield from (layer for _, layer in self._noted.by_state)

    def _drawn_bytes(self) -> int:
        return sum(layer.size_bytes for layer in self._drawn_layers())

    def _all_layers(self) -> Iterator[layers.Layer]:
        yield from itertools.chain.from_iterable(state.layers for state in self.states.values())
        yield from (layer for _, layer in self._noted.by_state) if self._noted is not None else ()

    def with_due(self, keys: PackedKeys, due_ms: Mapping[str, int]) -> PackedKeys:
        """Return keys and those that may have due timers.

        Args:
            keys: The keys of a batch.
            due_ms: Until when timers are due, by name of the state.
        """
        due = [self.states[name].due(until_ms) for name, until_ms in due_ms.items() if name in self.states]
        return keys.joined(itertools.chain.from_iterable(due))

    def part(self, keys: PackedKeys) -> Part:
        """Return the rows of some keys."""
        group, next_ms = grouptables.GroupTables(), {}
        for name, state in self.states.items():
            rows = state.rows_of(keys)
            _apply(group.table(state.meta), state.changes_at(rows, keys.keys))
            other_ms = None if state.timers is None else state.timers.next_ms(rows.numbers, rows.positions)
            if other_ms is not None:
                next_ms[name] = other_ms
        return Part(group, next_ms)

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
        state = self.states.get(name) or stateviews.StateView(cast("chunks.Section", newer).meta)
        meta = newer.meta if newer else state.meta
        whole = state.merged(layers)
        if whole is not None and meta.has_ttl and cutoff_ms is not None:
            whole = _without_expired(whole, meta.kind.shape, cutoff_ms)
        return None if whole is None else chunks.Section(meta, whole)


def _without_expired(whole: Columns, shape: kindtypes.Shape, cutoff_ms: int) -> Columns | None:
    if shape.row_form.replaces:
        return renewals.without_expired(whole, cutoff_ms)
    return renewals.without_expired_parts(whole, cutoff_ms, shape.row_form, shape.alive)


def _layers_of(chunk: chunks.Chunk) -> list[tuple[chunks.StateMeta, layers.Layer]] | None:
    """Return the layers of a chunk; None where a state is too large for columns."""
    of_states = []
    for section in chunk.sections:
        content = section.columns()
        if content is None:
            return None
        of_states.append((section.meta, layers.Layer(content)))
    return of_states


def _apply(table: tables.Table, in_order: Iterator[tables.Changes]) -> None:
    for changes in in_order:
        table.apply(changes)


def _put(unwritten: Iterable[layers.Layer], file: layers.LayerFile) -> None:
    for layer in unwritten:
        layer.put(file)
