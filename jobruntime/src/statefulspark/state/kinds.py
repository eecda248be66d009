"""What a kind of state is, how a state is described in storage, and the current key.

A kind is what a user declares: a descriptor, a handle, a name in storage; and what is done with its values: rows in memory,
changes, bytes. Code that works with a state calls its kind (`meta.kind.merge`) and never branches on it. A new kind is a
module with a `StateKind` and its descriptor.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, Never, Protocol, cast

from statefulspark import errors
from statefulspark.state import numbers, tables, ttl
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import conversions, typetext

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")


class NoKey:
    """The key outside `process`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_KEY"


NO_KEY: Final = NoKey()
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

    def require_key(self, state: StateMeta) -> object:
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

    def require_group(self, state: StateMeta) -> ToObjects:
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
"""Key, index or entry (None where the kind has none), and cell."""


class View(Protocol):
    """Access to the tables of a state, one key group at a time."""

    def _bind(self, table: Never, /) -> None:
        """Switch to another key group; the table has the class of the kind's."""


class StateKind(ABC):
    """A kind of state. Its methods are pure. There is one instance of each kind per process, which registers itself.

    Attributes:
        value: The name that is stored with the state and never changes.
        prefix: Name prefix of its states, for a kind that is stored under the name of another kind.
        container: Family of the stored type if the cell type is its last argument; empty if the stored type is the cell
            type.
        column: Name of the column between key and value in exports; empty for none.
        has_entry_keys: Whether that column holds user keys: their type is the first argument of the container and can
            never change.
        has_moments: Whether a row is moments, of which those that are due are asked for over all keys.
        is_one_cell: Whether a change is one cell: it replaces older ones of its key, and is its own row of columns.
        has_columns: Whether many keys are stored as columns.
    """

    container: ClassVar[str] = ""
    column: ClassVar[str] = ""
    has_entry_keys: ClassVar[bool] = False
    has_moments: ClassVar[bool] = False
    is_one_cell: ClassVar[bool] = False
    has_columns: ClassVar[bool] = False

    def __init__(self, value: str, prefix: str = "") -> None:
        """Register the kind.

        Raises:
            ValueError: The name is taken.
        """
        self.value, self.prefix = value, prefix
        if _KINDS.setdefault((value, prefix), self) is not self:
            raise ValueError(f"a kind of state named {value!r} exists already")

    def __repr__(self) -> str:
        return f"<{self.value} {self.prefix}>" if self.prefix else f"<{self.value}>"

    def __reduce__(self) -> tuple[Callable[[str, str], StateKind], tuple[str, str]]:
        return named, (self.value, self.prefix)

    @abstractmethod
    def new_table(self) -> tables.Table:
        """Return an empty table."""

    @abstractmethod
    def new_view(
        self,
        state: StateMeta,
        scope: Scope,
        life: ttl.Ttl | None,
        cleaner: ttl.Cleaner | None,
        conversion: conversions.Conversion | None,
    ) -> View:
        """Return the view of the tables of a state; with a conversion, it has that attribute."""

    def new_array_view(self, descriptor: Never, state: StateMeta, scope: Scope) -> View | None:
        """Return a view that is folded as columns, for functions over whole tables; None if the declaration has none."""
        return None

    def handle(self, descriptor: Never, view: Never) -> object:
        """Return the user's handle, from what is declared and its view."""
        return view

    @abstractmethod
    def merge(self, older: tables.Changes, newer: tables.Changes) -> None:
        """Fold newer changes into older ones, in place."""

    @abstractmethod
    def encode(self, changes: tables.Changes) -> list[object]:
        """Return the columns of a section of a chunk for changes without deletions, beside that of the keys."""

    @abstractmethod
    def decode(self, keys: Collection[object], *columns: list[object]) -> tables.Changes:
        """Undo `encode`.

        Raises:
            ValueError, TypeError: The columns do not fit together.
        """

    def make_row(self, change: object) -> object:
        """Return what is packed for a change as a row of columns."""
        return self.encode({None: change})

    def read_row(self, row: object) -> object:
        """Undo `make_row`; raises ValueError or TypeError for what it never returns."""
        return self.decode([None], *cast("list[list[object]]", row))[None]

    @abstractmethod
    def written_cells(self, changes: tables.Changes) -> Iterable[tables.Cell]:
        """Return the cells that changes set, to check a whole column at once."""

    @abstractmethod
    def alive(self, change: Never, cutoff_ms: int) -> object:
        """Return the unexpired part of a change (no deletion) of a state with a time to live; None if there is none."""

    @abstractmethod
    def entries(self, changes: tables.Changes) -> Iterator[Entry]:
        """Yield the content of a full chunk, one entry per row of an export."""

    @abstractmethod
    def gather(self, entries: Iterable[Entry]) -> tables.Changes:
        """Return changes of a full chunk from entries, which may be in any order; undoes `entries`."""


_KINDS: dict[tuple[str, str], StateKind] = {}


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
            f"{value!r} is not a kind of state that this release knows: {', '.join(sorted({value for value, _ in _KINDS}))}"
        )
    return kind


class Descriptor:
    """What all declarations of a state have. They are frozen dataclasses, and hold no state.

    `BatchContext.declare` turns one into a handle. Names are unique per operator. The type is a schema string as
    in Spark's DDL ("bigint", "array<string>"), a Python type or a codec; it is stored with the state and compared with the
    declaration of a later version of the job (`evolution`). Without a type, the state accepts every value that can be
    stored.
    """

    kind: ClassVar[StateKind]
    name: str
    type: object = None
    ttl: Ttl | None = None

    def __post_init__(self) -> None:
        if not _NAME.match(str(self.name)):
            raise errors.InvalidArgumentError(
                "StateNameInvalid",
                f"'{self.name}' is not a valid state name: use a letter or underscore, then letters, digits, '_', '-' and "
                "'.', 128 characters at most.",
            )

    @property
    def type_text(self) -> str:
        """The type as it is stored with the state."""
        text = typetext.canonical(self.type)
        return f"{self.kind.container}<{text}>" if self.kind.container else text

    @property
    def value_type(self) -> object:
        """The declared type of one cell: a value, an element, the value of an entry."""
        return self.type
