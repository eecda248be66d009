"""The kinds of state: what each of them brings along, and how a state is described in storage.

A **kind** is what a user declares: a descriptor, a handle, a name in storage. Kinds with the same layout of values share a
**shape**: the table, its changes, and how these are merged, stored, exported and expired. Code that works with a state
uses the functions of its row (`meta.kind.shape.merge`) and never branches on the kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Never, Protocol, cast

from statefulspark import errors
from statefulspark.state import cleanup, columns, numbers, tables, ttl
from statefulspark.state.types import conversions


class NoKey:
    """The key outside `process`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_KEY"


NO_KEY: Final = NoKey()


class KindLabel(Protocol):
    """What messages say of a kind of state."""

    @property
    def value(self) -> str:
        """Its stored name."""


class StateLabel(Protocol):
    """What messages say of a state; its stored metadata has it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> KindLabel:
        """Its kind."""


ToObjects = Callable[[numbers.ArrowColumn], list[object]]


class Scope:
    """Current key and times, shared by all handles of an operator.

    Attributes:
        key: The current key, or NO_KEY.
        now_ms: Processing time of the batch, milliseconds since 1970 in UTC.
        watermark_ms: Watermark of the batch in milliseconds since 1970.
        to_objects: Converts a column to Python values while a whole key group is processed and no single key; otherwise
            None.
    """

    __slots__ = ("key", "now_ms", "to_objects", "watermark_ms")

    def __init__(self) -> None:
        self.to_objects: ToObjects | None = None
        self.key: object = NO_KEY
        self.now_ms = 0
        self.watermark_ms = -(2**63)

    def require_key(self, state: StateLabel) -> object:
        """Return the current key.

        Raises:
            SpecRejectedError: There is none.
        """
        if self.key is NO_KEY:
            raise errors.SpecRejectedError(
                "KeyedStateOutsideKey",
                f"Keyed state '{state.name}' with type {state.kind.value} can only be used on a 'keyed stream', i.e., "
                "after a 'keyBy()' operation. There is no current key here: use the state inside process(), not in "
                "open() or close().",
            )
        return self.key

    def require_group(self, state: StateLabel) -> ToObjects:
        """Return the function that converts columns of the current key group to Python values.

        Raises:
            SpecRejectedError: There is none.
        """
        if self.to_objects is None:
            raise errors.SpecRejectedError(
                "KeyedStateOutsideTable",
                f"The state '{state.name}' of many keys can only be used inside process_table() of a "
                "VectorizedProcessFunction.",
            )
        return self.to_objects


Entry = tuple[tables.Key, object, tables.Cell]
"""Key, index or entry (None where the shape has none), and cell."""


class View(Protocol):
    """Access to the tables of a state, one key group at a time."""

    def bind(self, table: Never, /) -> None:
        """Switch to another key group; the table has the class of the shape."""


class Converting(Protocol):
    """A view that converts values of a user-defined type."""

    conversion: conversions.Conversion
    """Converts values; a key group with an older stored form has its own."""


class Descriptor(Protocol):
    """The fields of every state declaration."""

    @property
    def name(self) -> str:
        """Unique name within the operator."""

    @property
    def kind(self) -> StateKind:
        """Its row in `kinds`."""

    @property
    def type_text(self) -> str:
        """The type as it is stored with the state."""

    @property
    def value_type(self) -> object:
        """The declared type of one cell: a value, an element, the value of an entry."""

    @property
    def ttl(self) -> ttl.Ttl | None:
        """Time to live; None keeps it until it is cleared."""


def no_arrays(_: Descriptor, __: StateMeta, ___: Scope) -> View | None:
    """Return None: the kind is never folded as columns."""
    return None


@dataclass(frozen=True, slots=True)
class Shape:
    """The layout shared by kinds: how values are held, stored, exported and expired. All functions are pure.

    Attributes:
        name: A label.
        table: Creates an empty table.
        merge: Folds newer changes into older ones, in place.
        encode: Returns the columns of a chunk for changes without deletions.
        decode: The inverse; takes keys and columns.
        cells: Returns the cells that changes set, to check a whole column at once.
        alive: Returns the unexpired part of one change (no deletion) of a state with a time to live, or None.
        entries: Returns the content of a full chunk, one entry per row of an export.
        gather: The inverse: changes of a full chunk from entries, which may be in any order.
        view: Creates the view of the tables.
        converting: Wraps a view for a user-defined type.
        container: Family of the stored type if the cell type is its last argument; empty if the stored type is the cell
            type.
        column: Name of the column between key and value in exports; empty for none.
        has_entry_keys: Whether that column holds user keys: their type is the first argument of the container and can
            never change.
        has_moments: Whether a row is moments, of which those that are due are asked for over all keys.
        row: How a change becomes a row of columns. A shape without is never stored as columns.
    """

    name: str
    table: Callable[[], tables.Table]
    merge: Callable[[tables.Changes, tables.Changes], None]
    encode: Callable[[tables.Changes], list[object]]
    decode: Callable[..., tables.Changes]
    cells: Callable[[tables.Changes], Iterable[tables.Cell]]
    alive: Callable[[object, int], object]
    entries: Callable[[tables.Changes], Iterator[Entry]]
    gather: Callable[[Iterable[Entry]], tables.Changes]
    view: Callable[[StateMeta, Scope, ttl.Ttl | None, cleanup.Cleaner | None], View]
    converting: Callable[[Never, conversions.Conversion], Converting]
    container: str = ""
    column: str = ""
    has_entry_keys: bool = False
    has_moments: bool = False
    row: columns.ChangeForm | None = None

    @property
    def row_form(self) -> columns.ChangeForm:
        """How a change becomes a row of columns in memory: its own form, or one made of its chunk columns."""
        return self.row or columns.ChangeForm(self._to_row, self._of_row)

    def _to_row(self, change: object) -> object:
        return self.encode({None: change})

    def _of_row(self, row: object) -> object:
        return self.decode([None], *cast("list[object]", row))[None]


@dataclass(frozen=True, slots=True, eq=False)
class StateKind:
    """A kind of state: one row of the table in `kinds`. There is one instance of each per process.

    Attributes:
        value: The name that is stored with the state and never changes.
        shape: Its layout.
        handle: Creates the user's handle from descriptor, view and the time to live in force.
        in_arrays: Creates a view that is folded as columns, for functions over whole tables; returns None where the
            declaration does not allow it.
        prefix: Name prefix of its states, for a kind that is stored under the name of another kind.
    """

    value: str
    shape: Shape
    handle: Callable[[Never, Never, ttl.Ttl | None], object]
    in_arrays: Callable[[Never, StateMeta, Scope], View | None] = no_arrays
    prefix: str = ""

    def __repr__(self) -> str:
        return f"<{self.value} {self.prefix}>" if self.prefix else f"<{self.value}>"

    def __reduce__(self) -> tuple[Callable[[str, str], StateKind], tuple[str, str]]:
        return named, (self.value, self.prefix)


@dataclass(frozen=True, slots=True)
class StateMeta:
    """The stored metadata of a state, compared when a later version of the job reads the state.

    Attributes:
        name: Its name.
        kind: Its kind.
        type_text: Declared type, `any` when none was declared.
        has_ttl: Whether each entry carries the time of its last renewal.
    """

    name: str
    kind: StateKind
    type_text: str
    has_ttl: bool


_KINDS: dict[tuple[str, str], StateKind] = {}


def register(kind: StateKind) -> StateKind:
    """Add a row, and return it; the rows of this distribution are in `kinds`.

    Raises:
        ValueError: The name is taken.
    """
    if _KINDS.setdefault((kind.value, kind.prefix), kind) is not kind:
        raise ValueError(f"a kind of state named {kind.value!r} exists already")
    return kind


def named(value: str, name: str = "") -> StateKind:
    """Return the kind of a stored state.

    Args:
        value: The stored name of its kind.
        name: Its name, which distinguishes kinds with the same stored name.

    Raises:
        ValueError: The kind is unknown to this release.
    """
    prefix = name[: name.find("/") + 1]
    kind = _KINDS.get((value, prefix)) or _KINDS.get((value, ""))
    if kind is None:
        raise ValueError(
            f"{value!r} is not a kind of state that this release knows: {', '.join(sorted(set(_names())))}"
        )
    return kind


def _names() -> Iterator[str]:
    return (value for value, _ in _KINDS)


_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")


def check_name(name: str) -> None:
    """Reject a name that no state can have.

    Raises:
        SpecRejectedError: `StateNameInvalid`.
    """
    if not _NAME.match(name):
        raise errors.SpecRejectedError(
            "StateNameInvalid",
            f"'{name}' is not a valid state name: use a letter or underscore, then letters, digits, '_', '-' and '.', "
            "128 characters at most.",
        )


def view_itself(_: Descriptor, view: View | Converting, __: ttl.Ttl | None) -> object:
    """Return the view as the handle."""
    return view
