"""What is written down about a state, and what a kind of state is: the form of a row in `kinds`.

A **kind** is what a user declares: a descriptor, a handle, a name in storage. Kinds that keep their values alike share a
**shape**: the table, its changes, how these are merged, stored, exported and expire. Whoever works with a state asks its row
once (`meta.kind.shape.merge`) and never what kind it is. This module knows no row; `kinds` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Never, Protocol

from statefulspark.state import tables

if TYPE_CHECKING:
    from statefulspark.state import conversions, expiry, scope, ttl

Entry = tuple[tables.Key, object, tables.Cell]
"""Key, index or entry (None where the shape has none), and cell."""


class View(Protocol):
    """What looks at the tables of a state, one key group after the other."""

    def bind(self, table: Never, /) -> None:
        """Look at another key group; the table is of the shape's own class."""


class Converting(Protocol):
    """What stands between a view and a user's own type."""

    conversion: conversions.Conversion
    """Between values and their stored form; another one for a key group whose stored form is older."""


class Descriptor(Protocol):
    """What every declaration of a state tells."""

    @property
    def name(self) -> str:
        """Unique name within the operator."""

    @property
    def kind(self) -> StateKind:
        """Its row."""

    @property
    def type_text(self) -> str:
        """The type as it is written down with the state."""

    @property
    def value_type(self) -> object:
        """The declared type of one cell: a value, an element, the value of an entry."""

    @property
    def ttl(self) -> ttl.Ttl | None:
        """Time to live; None keeps it until it is cleared."""


def no_arrays(_: Descriptor, __: StateMeta, ___: scope.Scope) -> View | None:
    """Return None: the kind is never folded as columns."""
    return None


@dataclass(frozen=True, slots=True)
class Shape:
    """How kinds that keep their values alike are held, stored, exported and expire. All functions are pure.

    Attributes:
        name: For people.
        table: Makes an empty table.
        merge: Folds newer changes into older ones, in place.
        encode: Gives the columns of a chunk for what is set: changes without deletions.
        decode: Undoes it, by the number of columns: for each form that a release has written. Takes keys and columns.
        since: The oldest version of chunks that can hold it.
        cells: Gives the cells that changes set; for checks of a whole column at once.
        alive: Gives what is left of one change (no deletion) of a state with a time to live; None when nothing is.
        entries: Gives what a full chunk holds, one entry per row of an export.
        gather: Undoes it: changes of a full chunk; the entries of a key may come in any order.
        view: Makes what looks at tables.
        converting: Makes what stands between that and a type of the user's own.
        container: Family of the type that is written down, where that of a cell is its last argument; empty where it is
            the type of a cell itself.
        column: Name of the column that exports have between key and value; empty for none.
        has_entry_keys: Whether that column holds keys of the user's own: their type is the container's first argument, and
            can never change.
        needs_whole_group: Whether the rows of some keys alone are of no use, as with an order over all of them.
    """

    name: str
    table: Callable[[], tables.Table]
    merge: Callable[[tables.Changes, tables.Changes], None]
    encode: Callable[[tables.Changes], list[object]]
    decode: Mapping[int, Callable[..., tables.Changes]]
    since: int
    cells: Callable[[tables.Changes], Iterable[tables.Cell]]
    alive: Callable[[object, int], object]
    entries: Callable[[tables.Changes], Iterator[Entry]]
    gather: Callable[[Iterable[Entry]], tables.Changes]
    view: Callable[[StateMeta, scope.Scope, ttl.Ttl | None, expiry.Cleaner | None], View]
    converting: Callable[[Never, conversions.Conversion], Converting]
    container: str = ""
    column: str = ""
    has_entry_keys: bool = False
    needs_whole_group: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class StateKind:
    """A kind of state: one row of the table in `kinds`. There is one instance of each, in every process.

    Attributes:
        value: The name that is written down with the state, and stays for good.
        shape: How it is kept.
        handle: Makes what a function gets, of the descriptor, what looks at tables, and the time to live in force.
        in_arrays: Makes a view that is folded as columns, for functions over whole tables; None where the declaration does
            not allow it.
        prefix: How the names of its states begin, for a kind that is written down under another one's name.
    """

    value: str
    shape: Shape
    handle: Callable[[Never, Never, ttl.Ttl | None], object]
    in_arrays: Callable[[Never, StateMeta, scope.Scope], View | None] = no_arrays
    prefix: str = ""

    def __repr__(self) -> str:
        return f"<{self.value} {self.prefix}>" if self.prefix else f"<{self.value}>"

    def __reduce__(self) -> tuple[Callable[[str, str], StateKind], tuple[str, str]]:
        return named, (self.value, self.prefix)


@dataclass(frozen=True, slots=True)
class StateMeta:
    """What is written down about a state, and must fit when it is read by a later version of the job.

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
        ValueError: There is one of that name.
    """
    if _KINDS.setdefault((kind.value, kind.prefix), kind) is not kind:
        raise ValueError(f"there is a kind of state called {kind.value!r} already")
    return kind


def named(value: str, name: str = "") -> StateKind:
    """Return the kind of a stored state.

    Args:
        value: Its kind, as it is written down.
        name: Its name, which tells kinds apart that are written down alike.

    Raises:
        ValueError: This release knows no such kind.
    """
    prefix = name[: name.find("/") + 1]
    kind = _KINDS.get((value, prefix)) or _KINDS.get((value, ""))
    if kind is None:
        raise ValueError(f"{value!r} is no kind of state that this release knows: {', '.join(sorted(set(_names())))}")
    return kind


def _names() -> Iterator[str]:
    return (value for value, _ in _KINDS)
