"""What the states with many entries per key share: handle, time to live, and columns in a chunk."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from typing import Any, ClassVar, Generic, TypeVar, cast

from statefulspark.state import kinds, many, ttl
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import codec, conversions

TableT = TypeVar("TableT")


class Expiry:
    """Wraps and unwraps cells; without a time to live the cell is the value."""

    __slots__ = ("_cleaner", "_scope", "active", "duration_ms", "renews_on_read", "shows_expired")

    def __init__(self, scope: kinds.Scope, life: Ttl | None, cleaner: ttl.Cleaner | None) -> None:
        self._scope = scope
        self._cleaner = cleaner
        self.active = life is not None
        self.duration_ms = 0 if life is None else life.duration_ms
        self.renews_on_read = life is not None and life.renews_on_read
        self.shows_expired = life is not None and life.shows_expired

    def step(self) -> None:
        """Clean up the next entries of the table; called before every read and write."""
        if self._cleaner is not None:
            self._cleaner.step(self._scope.now_ms)

    def wrap(self, value: object) -> object:
        """Return the cell of a value that is written now."""
        return (value, self._scope.now_ms) if self.active else value

    def unwrap(self, cell: object) -> object:
        """Return the value of a cell."""
        return cast("tuple[object, int]", cell)[0] if self.active else cell

    def is_expired(self, cell: object) -> bool:
        """Tell whether the time of a cell is over."""
        return self.active and cast("tuple[object, int]", cell)[1] + self.duration_ms <= self._scope.now_ms


class EntriesHandle(many.OfManyKeys, Generic[TableT]):
    """The entries of the current key.

    Attributes:
        conversion: Converts values of a user-defined type; a key group with an older stored form has its own.
    """

    __slots__ = ("_expiry", "_meta", "_scope", "_table", "conversion")
    conversion: conversions.Conversion

    def __init__(
        self, meta: kinds.StateMeta, scope: kinds.Scope, life: Ttl | None, cleaner: ttl.Cleaner | None = None
    ) -> None:
        self._meta = meta
        self._scope = scope
        self._expiry = Expiry(scope, life, cleaner)
        self._table: TableT

    def _bind(self, table: TableT) -> None:
        """Switch to another key group."""
        self._table = table

    @property
    def _turns(self) -> many.Turns:
        """Makes keys the current one, in turn."""
        return many.Turns(self._scope, self._meta)


class EntriesKind(kinds.StateKind):
    """Many entries per key.

    Attributes:
        handles: Class of the handle, and of that with a conversion.
    """

    has_columns: ClassVar[bool] = True
    handles: ClassVar[tuple[type[EntriesHandle[Any]], type[EntriesHandle[Any]]]]

    def new_view(
        self,
        state: kinds.StateMeta,
        scope: kinds.Scope,
        life: Ttl | None,
        cleaner: ttl.Cleaner | None,
        conversion: conversions.Conversion | None,
    ) -> EntriesHandle[Any]:
        """Return the handle."""
        plain, converting = self.handles
        if conversion is None:
            return plain(state, scope, life, cleaner)
        handle = converting(state, scope, life, cleaner)
        handle.conversion = conversion
        return handle


Item = TypeVar("Item")


def flat_columns(of_keys: Sequence[Collection[object]]) -> list[object]:
    """Return the number of items of each key, and all items."""
    return [[len(items) for items in of_keys], codec.pack_column(itertools.chain.from_iterable(of_keys))]


def require_all(counts: list[int], items: Sized) -> None:
    """Refuse items that are not as many as their counts say.

    Raises:
        ValueError: They are more, or fewer.
    """
    if sum(counts) != len(items):
        raise ValueError(f"the header names {sum(counts)} items, the body has {len(items)}")


def split_by_key(counts: list[int], items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Yield the items of each key; the counts have been compared with the items."""
    return map(itertools.islice, itertools.repeat(iter(items)), counts)
