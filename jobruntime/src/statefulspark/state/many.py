"""Many keys of a key group at once, for functions over whole tables: keys and values as columns, or as sequences.

What is given as columns is returned as a column, and what is given as sequences as a list. Each key is the current one in
its turn, in the order of the keys, so everything means what it means for a single key: times to live, defaults, conversions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from statefulspark import errors
from statefulspark.state import kinds, numbers

Given = numbers.ArrowColumn | Sequence[object]
"""One item for each row: an Arrow column, or a sequence."""


def is_column(given: object) -> bool:
    """Tell whether something is an Arrow column."""
    return isinstance(given, pa.Array | pa.ChunkedArray)


def are_columns(method: str, *given: Given) -> bool:
    """Tell whether arguments are columns and not sequences.

    Args:
        method: What they are the arguments of, for the error.
        given: Items for the same rows.

    Raises:
        InvalidArgumentError: `ColumnsInvalid`: some are columns and some are not, or they differ in length.
    """
    kinds = {is_column(argument) for argument in given}
    if len(kinds) > 1 or len({len(argument) for argument in given}) > 1:
        raise errors.InvalidArgumentError(
            "ColumnsInvalid",
            f"{method}() takes Arrow columns of one length, or sequences of one length; got "
            f"{', '.join(f'{type(argument).__name__} of {len(argument)}' for argument in given)}.",
        )
    return True in kinds


def make_column(method: str, values: Sequence[object]) -> pa.Array:
    """Return results as a column.

    Raises:
        InvalidArgumentError: `ColumnOverflow`: an integer does not fit 64 bits; `ColumnsInvalid`: the values have no type in
            common.
    """
    try:
        return pa.array(values)
    except OverflowError as error:
        large = max((value for value in values if isinstance(value, int)), key=abs)
        raise errors.InvalidArgumentError(
            "ColumnOverflow",
            f"{method}() was given columns and one of the results is {large}, which does not fit 64 bits; pass "
            "lists instead of columns.",
        ) from error
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise errors.InvalidArgumentError(
            "ColumnsInvalid",
            f"{method}() was given columns, and the results are no column ({error}); pass lists instead of columns.",
        ) from error


@dataclass(frozen=True, slots=True)
class Turns:
    """Makes keys the current one, in turn.

    Attributes:
        scope: The operator's scope.
        state: What messages name.
    """

    scope: kinds.Scope
    state: kinds.StateMeta

    def objects(self, *given: Given) -> Iterator[Sequence[object]]:
        """Return columns as Python values, and sequences as they are.

        Raises:
            InvalidArgumentError: No whole table is processed.
        """
        to_objects = self.scope.require_group(self.state)
        return (
            to_objects(cast("numbers.ArrowColumn", items)) if is_column(items) else cast("Sequence[object]", items)
            for items in given
        )

    def rows(self, method: str, keys: Given, *given: Given) -> Iterator[tuple[object, ...]]:
        """Yield the items of each row, while its key is the current one.

        Args:
            method: What was called, for errors.
            keys: Keys that the table has.
            given: Items for the same rows.

        Raises:
            InvalidArgumentError: The arguments differ in kind or length, or no whole table is processed.
        """
        are_columns(method, keys, *given)
        listed, *items = self.objects(keys, *given)
        scope, of_rows = self.scope, zip(*items, strict=True) if items else ((),) * len(listed)
        try:
            for scope.key, row in zip(listed, of_rows, strict=True):
                yield row
        finally:
            scope.key = kinds.NO_KEY


class OfManyKeys(ABC):
    """What all handles do with many keys."""

    __slots__ = ()

    @property
    @abstractmethod
    def _turns(self) -> Turns:
        """Makes keys the current one, in turn."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what the current key has."""

    def clear_many(self, keys: Given) -> None:
        """Remove what each of many keys has; in `process_table` only.

        Args:
            keys: Keys that the table has: a column, or a sequence.
        """
        for _ in self._turns.rows("clear_many", keys):
            self.clear()
