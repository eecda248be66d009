"""Spark's value, list and map state on top of our handles, with the same methods and results.

A state belongs to the current key. Reads return copies; an iterator reads the state of the current key at its first
iteration and does not see later changes. Expired values, elements and entries are invisible to every method. A state
that was deleted with `deleteIfExists` can be neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn, TypeVar

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark import errors
from statefulspark import state as keyed_state
from statefulspark.operators.transform import forms

Stored = tuple[object, ...]
Entry = TypeVar("Entry")


class ValueState(stateful_processor.ValueState):
    """One row.

    Args:
        name: Its name.
        handle: Its storage.
        form: The form of its value.
    """

    def __init__(self, name: str, handle: keyed_state.ValueState[Stored], form: forms.RowForm) -> None:
        self.name, self._handle, self._form = name, handle, form

    def exists(self) -> bool:
        """Tell whether there is a value."""
        return self._handle.exists()

    def get(self) -> tuple[object, ...] | None:
        """Return the value, None when there is none."""
        stored = self._handle.get()
        return None if stored is None else self._form.load(stored)

    def update(self, newValue: tuple[object, ...]) -> None:  # noqa: N803 - Spark's name
        """Set the value.

        Raises:
            TypeError: It is None; use `clear`.
            SpecRejectedError: It has another number of columns than the schema.
        """
        self._handle.update(self._form.store(newValue))

    def clear(self) -> None:
        """Remove the value."""
        self._handle.clear()


class ListState(stateful_processor.ListState):
    """A list of rows.

    Args:
        name: Its name.
        handle: Its storage.
        form: The form of an element.
    """

    def __init__(self, name: str, handle: keyed_state.ListState[Stored], form: forms.RowForm) -> None:
        self.name, self._handle, self._form = name, handle, form

    def exists(self) -> bool:
        """Tell whether there is an element."""
        return self._handle.exists()

    def get(self) -> Iterator[tuple[object, ...]]:
        """Return the elements, oldest first."""
        load = self._form.load
        return (load(element) for element in _read_lazily(self._handle.get))

    def put(self, newState: Iterable[tuple[object, ...]]) -> None:  # noqa: N803 - Spark's name
        """Replace the list.

        Raises:
            TypeError: It, or an element, is None.
            SpecRejectedError: It is empty; use `clear`. Or an element has another number of columns than the schema.
        """
        self._handle.update(self._checked(newState))

    def appendValue(self, newState: tuple[object, ...]) -> None:  # noqa: N802, N803 - Spark's names
        """Append an element.

        Raises:
            TypeError: It is None.
            SpecRejectedError: It has another number of columns than the schema.
        """
        self._handle.add(self._form.store(newState))

    def appendList(self, newState: Iterable[tuple[object, ...]]) -> None:  # noqa: N802, N803 - Spark's names
        """Append elements.

        Raises:
            TypeError: The list, or an element, is None.
            SpecRejectedError: There is none, or one has another number of columns than the schema.
        """
        self._handle.add_all(self._checked(newState))

    def clear(self) -> None:
        """Remove the list."""
        self._handle.clear()

    def _checked(self, values: Iterable[tuple[object, ...]]) -> list[Stored]:
        stored = [self._form.store(value) for value in values]
        if not stored:
            raise errors.SpecRejectedError(
                "StateValueInvalid",
                "[ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Cannot write empty list values to State Store for "
                f"StateName {self.name}. Use clear() to remove the list.",
            )
        return stored


class MapState(stateful_processor.MapState):
    """A map from rows to rows.

    Args:
        name: Its name.
        handle: Its storage.
        key_form: The form of a key.
        value_form: The form of a value.
    """

    def __init__(
        self,
        name: str,
        handle: keyed_state.MapState[Stored, Stored],
        key_form: forms.RowForm,
        value_form: forms.RowForm,
    ) -> None:
        self.name = name
        self._handle, self._key_form, self._value_form = handle, key_form, value_form

    def exists(self) -> bool:
        """Tell whether there is an entry."""
        return self._handle.exists()

    def getValue(self, key: tuple[object, ...]) -> spark_types.Row | None:  # noqa: N802 - Spark's name
        """Return the value of a key as a Row, None when there is none."""
        stored = self._handle.get(self._key_form.store_key(key))
        return None if stored is None else self._value_form.load_row(stored)

    def containsKey(self, key: tuple[object, ...]) -> bool:  # noqa: N802 - Spark's name
        """Tell whether there is an entry."""
        return self._key_form.store_key(key) in self._handle

    def updateValue(self, key: tuple[object, ...], value: tuple[object, ...]) -> None:  # noqa: N802 - Spark's name
        """Set the value of a key.

        Raises:
            TypeError: The key or the value is None.
            SpecRejectedError: One has another number of columns than its schema.
        """
        self._handle.put(self._key_form.store_key(key), self._value_form.store(value))

    def iterator(self) -> Iterator[tuple[tuple[object, ...], tuple[object, ...]]]:
        """Return keys and values, in no particular order."""
        load_key, load_value = self._key_form.load, self._value_form.load
        return ((load_key(key), load_value(value)) for key, value in _read_lazily(self._handle.items))

    def keys(self) -> Iterator[tuple[object, ...]]:
        """Return the keys, in no particular order."""
        load = self._key_form.load
        return (load(key) for key in _read_lazily(self._handle.keys))

    def values(self) -> Iterator[tuple[object, ...]]:
        """Return the values, in no particular order."""
        load = self._value_form.load
        return (load(value) for value in _read_lazily(self._handle.values))

    def removeKey(self, key: tuple[object, ...]) -> None:  # noqa: N802 - Spark's name
        """Remove an entry if it exists."""
        self._handle.remove(self._key_form.store_key(key))

    def clear(self) -> None:
        """Remove all entries."""
        self._handle.clear()


AnyState = ValueState | ListState | MapState
_CALLS: dict[type[AnyState], dict[str, str]] = {
    ValueState: {
        "exists": "checking value state exists",
        "get": "getting value state",
        "update": "updating value state",
        "clear": "clearing value state",
    },
    ListState: {
        "exists": "checking value state exists",
        "put": "updating value state",
        "appendValue": "updating value state",
        "appendList": "updating value state",
        "clear": "clearing value state",
    },
    MapState: {
        "exists": "checking map state exists",
        "getValue": "getting value",
        "containsKey": "checking if map state contains key",
        "updateValue": "updating map state value",
        "removeKey": "removing key from map state",
        "clear": "clearing map state",
    },
}
"""Spark's description of each call in error messages."""
_ITERATORS: dict[type[AnyState], tuple[str, ...]] = {
    ValueState: (),
    ListState: ("get",),
    MapState: ("iterator", "keys", "values"),
}


class ProcessorError(errors.SpecRejectedError, PySparkRuntimeError):
    """The error of Spark's client, for processors that catch it, and also a SpecRejectedError.

    Operator action: the message names the call of the processor that Spark does not allow; change the processor.
    """


def refuse(message: str) -> NoReturn:
    """Raise an error with Spark's message.

    Raises:
        ProcessorError: Always.
    """
    raise ProcessorError("StatefulProcessorFailed", message)


def refuse_class(error_class: str, message: str, *, doing: str) -> NoReturn:
    """Raise an error with one of Spark's error classes for a forbidden call.

    Args:
        error_class: Name of the error class.
        message: Spark's message.
        doing: Prefix of Spark's client.

    Raises:
        ProcessorError: Always.
    """
    refuse(f"{doing}[{error_class}] {message} SQLSTATE: 42802")


def delete(state: AnyState) -> None:
    """Make every call of a deleted state fail; its iterators are empty, as in Spark."""
    kind = type(state)
    for method, doing in _CALLS[kind].items():
        message = f"Error {doing}: {kind.__name__.removesuffix('State')} state {state.name} is not initialized."
        setattr(state, method, _refusal_of(message))
    for method in _ITERATORS[kind]:
        setattr(state, method, lambda: iter(()))


def _refusal_of(message: str) -> Callable[..., NoReturn]:
    def refused(*_: object, **__: object) -> NoReturn:
        refuse(message)

    return refused


def _read_lazily(read: Callable[[], Iterable[Entry]]) -> Iterator[Entry]:
    """Read at the first iteration."""
    yield from read()
