"""What the states with many entries per key share: their time to live, and their columns in a chunk."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from typing import TypeVar, cast

from statefulspark.state import kinds, ttl
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import codec


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
