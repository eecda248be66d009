"""What a user writes: a function over the rows of one key, with state.

An instance is sent to the workers by value. In each batch and for each partition a fresh copy is opened, gets the rows
of one key after the other, and is closed. What is kept in attributes is lost with the batch; what is kept in state is
there again with the next one, exactly once, wherever it runs.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Protocol, TypeVar, overload

from statefulspark import errors
from statefulspark.state import cells, chunks, descriptors, entries, store, tables
from statefulspark.state import scope as scopes

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")


class InputRow(Protocol):
    """A row: a tuple whose columns are also attributes, and items by name."""

    def __getattr__(self, column: str) -> object: ...

    def __getitem__(self, column: str | int) -> object: ...


class KeyedContext:
    """What a function sees of the engine.

    Args:
        uid: The operator's uid.
        now_ms: Processing time of the batch in milliseconds since 1970.
    """

    def __init__(self, uid: str, now_ms: int) -> None:
        self.uid = uid
        self._scope = scopes.Scope()
        self._scope.now_ms = now_ms
        self._is_open = False
        self._metas: dict[str, chunks.StateMeta] = {}
        self._ttls: dict[str, descriptors.Ttl] = {}
        self._views: dict[str, cells.Cells | entries.ListHandle[object] | entries.MapHandle[object, object]] = {}

    @property
    def key(self) -> object:
        """The key that is being processed: a value, or a tuple for a key of several columns.

        Raises:
            SpecRejectedError: There is none, as in `open` and `close`.
        """
        if self._scope.key is scopes.NO_KEY:
            raise errors.SpecRejectedError("NoCurrentKey", "There is no current key outside process().")
        return self._scope.key

    @property
    def processing_time(self) -> datetime.datetime:
        """When the batch began on this worker, in UTC; the same for all keys of a partition."""
        return datetime.datetime.fromtimestamp(self._scope.now_ms / 1000, datetime.UTC)

    @overload
    def state(self, descriptor: descriptors.ValueState[T]) -> cells.ValueHandle[T]: ...
    @overload
    def state(self, descriptor: descriptors.ReducingState[T]) -> cells.ReducingHandle[T]: ...
    @overload
    def state(
        self, descriptor: descriptors.AggregatingState[In, Acc, Out]
    ) -> cells.AggregatingHandle[In, Acc, Out]: ...
    @overload
    def state(self, descriptor: descriptors.ListState[T]) -> entries.ListHandle[T]: ...
    @overload
    def state(self, descriptor: descriptors.MapState[K, V]) -> entries.MapHandle[K, V]: ...
    def state(self, descriptor: object) -> object:
        """Return the handle of a state; call it in `open`, once per state.

        Raises:
            SpecRejectedError: The name is taken, the argument is no descriptor, or the function is open already.
        """
        if not isinstance(
            descriptor,
            descriptors.ValueState
            | descriptors.ListState
            | descriptors.MapState
            | descriptors.ReducingState
            | descriptors.AggregatingState,
        ):
            raise errors.SpecRejectedError(
                "StateDescriptorInvalid",
                f"ctx.state() takes a descriptor such as ValueState('name'), not {type(descriptor).__name__}.",
            )
        meta = self._register(descriptor.name, descriptor.kind, descriptor.type_text, descriptor.ttl)
        if isinstance(descriptor, descriptors.ListState):
            return self._view(meta, entries.ListHandle[object](meta, self._scope, descriptor.ttl))
        if isinstance(descriptor, descriptors.MapState):
            return self._view(meta, entries.MapHandle[object, object](meta, self._scope, descriptor.ttl))
        ttl = descriptor.ttl
        view = cells.Cells(meta, self._scope) if ttl is None else cells.ExpiringCells(meta, self._scope, ttl)
        self._views[meta.name] = view
        if isinstance(descriptor, descriptors.ReducingState):
            return cells.ReducingHandle(view, descriptor.reduce)
        if isinstance(descriptor, descriptors.AggregatingState):
            return cells.AggregatingHandle(view, descriptor.function)
        return cells.ValueHandle[object](view)

    def _view(self, meta: chunks.StateMeta, view: V) -> V:
        self._views[meta.name] = view  # type: ignore[assignment]  # only list and map handles come here
        return view

    def _register(
        self, name: str, kind: descriptors.StateKind, type_text: str, ttl: descriptors.Ttl | None
    ) -> chunks.StateMeta:
        if self._is_open:
            raise errors.SpecRejectedError(
                "StateDeclaredTooLate", f"State '{name}' is declared after open(); declare every state in open()."
            )
        meta = chunks.StateMeta(name, kind, type_text, ttl is not None)
        before = self._metas.get(name)
        if before is not None:
            store.check_compatible(before, meta)
            raise errors.SpecRejectedError(
                "StateNameTaken",
                f"State '{name}' is declared twice in operator '{self.uid}'; names must be unique per operator.",
            )
        self._metas[name] = meta
        if ttl is not None:
            self._ttls[name] = ttl
        return meta

    def opened(self) -> None:
        """Take note that `open` has returned: from now on the set of states is fixed."""
        self._is_open = True

    def bind(self, group: store.GroupTables) -> None:
        """Point all handles at the tables of a key group.

        Raises:
            SpecRejectedError: A stored state does not fit what is declared.
        """
        for name, view in self._views.items():
            view.bind(group.table(self._metas[name]))  # type: ignore[arg-type]  # the shape follows from the kind

    def enter(self, key: object) -> None:
        """Make a key the current one."""
        self._scope.key = key

    def leave(self) -> None:
        """Have no current key."""
        self._scope.key = scopes.NO_KEY

    def drop_expired(self, group: store.GroupTables) -> None:
        """Drop expired entries from the tables that are about to be written in full."""
        for name, ttl in self._ttls.items():
            tables.drop_expired(group.tables[name], self._scope.now_ms - ttl.duration_ms)


class KeyedProcessFunction:
    """Base of functions over keyed rows. Override `process`, and `open` to declare state."""

    def open(self, ctx: KeyedContext) -> None:
        """Get ready: declare states with `ctx.state` and keep the handles. Called once per partition and batch."""

    def process(self, key: object, rows: list[InputRow], ctx: KeyedContext) -> Iterable[object] | None:
        """Work on all rows of one key in a batch, in the order in which the batch has them.

        Args:
            key: The key: a value, or a tuple when it has several columns. Null is a key like any other.
            rows: At least one row, with every column of the input.
            ctx: Current key and time; state is reached through the handles from `open`.

        Returns:
            An iterable (mostly a generator) of output rows: tuples in the order of the schema, dicts, or Rows.
            A single column is written as a tuple of one. None is no output.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override process()")

    def close(self) -> None:
        """Release what `open` acquired. Called once per partition and batch, unless the batch failed."""
