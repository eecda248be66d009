"""Numbers by integer key, as arrays: cells of a state that a vectorised function folds without one Python object per cell.

A table is two arrays sorted by key. Values are 64-bit integers or floats; anything else (a sum that would overflow, a
key that is not an integer, a null) goes to the table of Python objects, which accepts every value. Both give the same
results. A key, its number and its change flag take 17 bytes; as objects they take about 200.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

T = TypeVar("T")
Keys = npt.NDArray[np.int64]
Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Combine = Callable[[Values, Values], Values | None]
"""Combines older with newer values; None when a result is out of range."""
KINDS: dict[str, type[int] | type[float]] = {"integer": int, "float": float}
"""Python's type of the values, by family of the declared type."""
KEY_BYTES = 17
"""Memory that one key takes."""
_DTYPES = {int: np.dtype(np.int64), float: np.dtype(np.float64)}
_RANGE = np.iinfo(np.int64)
_STORED_INTEGERS = ("<i1", "<i2", "<i4", "<i8")
_STORED = (*_STORED_INTEGERS, "<f8")


class ArrowColumn(Protocol):
    """An Arrow column: an array, or a chunked one."""

    null_count: int

    @property
    def type(self) -> object:
        """Arrow's type of the values."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Numbers by key.

    Attributes:
        keys: Ascending, without duplicates.
        values: One for each key.
    """

    keys: Keys
    values: Values

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def kind(self) -> type[int] | type[float]:
        """Python's type of the values."""
        return int if self.values.dtype == np.int64 else float

    def to_dict(self) -> dict[object, object]:
        """Return the numbers as Python objects."""
        return dict(zip(self.keys.tolist(), self.values.tolist(), strict=True))

    def pack(self) -> tuple[list[object], list[object]]:
        """Return keys and values as columns of a chunk, each `[type, bytes]`, with the narrowest type they fit."""
        return _pack(self.keys), _pack(self.values)

    @staticmethod
    def unpack(keys: list[object], values: list[object]) -> Numbers:
        """Read what `pack` returned.

        Raises:
            ValueError: These are not such columns.
        """
        read = Numbers(cast("Keys", _unpack(keys, _STORED_INTEGERS)), _unpack(values, _STORED))
        if len(read.values) != len(read) or (read.keys[1:] <= read.keys[:-1]).any():
            raise ValueError("columns of numbers differ in length, or their keys are not in ascending order")
        return read


def _pack(array: Values) -> list[object]:
    kind = "<f8"
    if array.dtype == np.int64:
        lowest, highest = int(array.min(initial=0)), int(array.max(initial=0))
        kind = next(name for name in _STORED_INTEGERS if np.iinfo(name).min <= lowest and highest <= np.iinfo(name).max)
    return [kind, array.astype(kind).tobytes()]


def _unpack(column: list[object], kinds: tuple[str, ...]) -> Values:
    kind, body = cast("tuple[str, bytes]", column)
    if kind not in kinds:
        raise ValueError(f"a column of numbers of type {kind!r} is unknown")
    return cast("Values", np.frombuffer(body, kind).astype(np.int64 if kind in _STORED_INTEGERS else np.float64))


def combination_of(reduce: Callable[..., object]) -> Combine | None:
    """Return the array version of a function that combines two numbers, None for an unknown function."""
    combinations: tuple[tuple[object, Combine], ...] = (
        (operator.add, _add),
        # As in Python: the first operand wins unless the second is less, which matters for NaN and -0.0.
        (min, lambda before, more: np.where(more < before, more, before)),
        (max, lambda before, more: np.where(more > before, more, before)),
    )
    return next((combine for function, combine in combinations if function is reduce), None)


def _add(before: Values, more: Values) -> Values | None:
    if before.dtype == np.int64 and len(before):
        highest, lowest = int(before.max()) + int(more.max()), int(before.min()) + int(more.min())
        if highest > _RANGE.max or lowest < _RANGE.min:
            return None
    with np.errstate(over="ignore", invalid="ignore"):
        return cast("Values", before + more)


class NumberTable:
    """A mutable table of numbers by key, with change flags.

    Args:
        numbers: The initial content.
        changed: Keys that count as changed.
    """

    __slots__ = ("_dirty", "_keys", "_values")

    def __init__(self, numbers: Numbers, changed: Set[int] = frozenset()) -> None:
        self._keys = numbers.keys
        self._values = numbers.values.copy()
        self._dirty = np.isin(numbers.keys, np.fromiter(changed, np.int64, len(changed)))

    @staticmethod
    def from_rows(
        rows: Mapping[object, object], changed: Set[object], kind: type[int] | type[float]
    ) -> NumberTable | None:
        """Build a table from rows of Python objects; None if they are not numbers of this type by integer key."""
        if not set(map(type, rows)) <= {int} or not set(map(type, rows.values())) <= {kind} or changed - rows.keys():
            return None
        try:
            keys = np.fromiter(rows, np.int64, len(rows))
            values = cast("Values", np.fromiter(rows.values(), _DTYPES[kind], len(rows)))
        except OverflowError:
            return None
        order = np.argsort(keys)
        return NumberTable(Numbers(keys[order], values[order]), cast("Set[int]", changed))

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def size_bytes(self) -> int:
        """Memory that it takes."""
        return self._keys.nbytes + self._values.nbytes + self._dirty.nbytes

    def holds(self, kind: type[int] | type[float]) -> bool:
        """Tell whether its values are of this type."""
        return self._values.dtype == _DTYPES[kind]

    def fold(self, added: Numbers, combine: Combine) -> Values | None:
        """Combine numbers with the stored ones and return the new value of each key; None when one is out of range."""
        positions, exists = self._find(added.keys)
        folded = combine(self._values[positions[exists]], added.values[exists])
        if folded is None:
            return None
        after = added.values.copy()
        after[exists] = folded
        self._set(positions, exists, Numbers(added.keys, after), is_change=True)
        return after

    def put(self, newer: Numbers) -> None:
        """Apply changes of the same type."""
        positions, exists = self._find(newer.keys)
        self._set(positions, exists, newer, is_change=False)

    def get(self, keys: Keys) -> tuple[Values, npt.NDArray[np.bool_]]:
        """Return a number for each key, in any order, and which of the keys exist; the numbers of others mean nothing."""
        positions, exists = self._find(keys)
        values = np.zeros(len(keys), self._values.dtype)
        values[exists] = self._values[positions[exists]]
        return cast("Values", values), exists

    def changes(self) -> Numbers:
        """Return the changes since the last call of `clean`."""
        return Numbers(self._keys[self._dirty], self._values[self._dirty])

    def clean(self) -> None:
        """Reset the change flags."""
        self._dirty = np.zeros(len(self._keys), np.bool_)

    def full(self) -> Numbers:
        """Return the whole content."""
        return Numbers(self._keys, self._values)

    def _find(self, keys: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return the (insertion) positions of keys, and which of the keys exist."""
        positions = np.searchsorted(self._keys, keys)
        exists = np.zeros(len(keys), np.bool_)
        inside = positions < len(self._keys)
        exists[inside] = self._keys[positions[inside]] == keys[inside]
        return positions, exists

    def _set(
        self, positions: npt.NDArray[np.intp], exists: npt.NDArray[np.bool_], numbers: Numbers, *, is_change: bool
    ) -> None:
        self._values[positions[exists]] = numbers.values[exists]
        if is_change:
            self._dirty[positions[exists]] = True
        new = ~exists
        if new.any():
            self._keys = np.insert(self._keys, positions[new], numbers.keys[new])
            self._values = cast("Values", np.insert(self._values, positions[new], numbers.values[new]))
            self._dirty = np.insert(self._dirty, positions[new], is_change)


def merge(older: Numbers, newer: Numbers) -> Numbers | None:
    """Return older numbers overwritten by newer ones, None when their types differ."""
    if older.values.dtype != newer.values.dtype:
        return None
    table = NumberTable(older)
    table.put(newer)
    return table.full()


def read_keys(keys: ArrowColumn) -> Keys | None:
    """Read a column of keys; None for nulls, and for keys that are not 64-bit integers."""
    if keys.null_count or not _is_integer(keys.type):
        return None
    return cast("Keys", _to_numpy(keys).astype(np.int64))


def newest(_: object, more: T) -> T:
    """Return the newer of two values, or of two arrays of numbers."""
    return more


def read_columns(
    keys: ArrowColumn, values: ArrowColumn, kind: type[int] | type[float]
) -> tuple[Numbers, npt.NDArray[np.intp]] | None:
    """Read two Arrow columns.

    Args:
        keys: Keys, in any order.
        values: One for each key.
        kind: Type of the values.

    Returns:
        The numbers, sorted, and the original position of each; None for nulls, duplicate keys, keys that are not 64-bit
        integers, and values of another type.
    """
    unsorted = read_keys(keys)
    if unsorted is None or values.null_count:
        return None
    if not (_is_integer(values.type) if kind is int else pa.types.is_floating(values.type)):
        return None
    order = np.argsort(unsorted, kind="stable")
    in_order = unsorted[order]
    if (in_order[1:] == in_order[:-1]).any():
        return None
    return Numbers(in_order, cast("Values", _to_numpy(values).astype(_DTYPES[kind])[order])), order


def _to_numpy(column: ArrowColumn) -> Values:
    whole = pa.chunked_array([column]) if isinstance(column, pa.Array) else cast("pa.ChunkedArray", column)
    return cast("Values", whole.to_numpy())


def _is_integer(kind: object) -> bool:
    return bool(pa.types.is_integer(kind)) and not pa.types.is_uint64(kind)
