"""The context of a keyed function: its states, the current key, the time, and its timers.

The engine creates one context per partition and batch, and switches it from key group to key group (`bind`) and from
key to key (`enter`). Functions see what `KeyedContext` has of it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal

from typing_extensions import TypeVar

from statefulspark import errors
from statefulspark.state import (
    cells,
    declaring,
    evolution,
    functionmetrics,
    grouptables,
    kinds,
    ttl,
)
from statefulspark.state import (
    timers as state_timers,
)
from statefulspark.state.kinds import Descriptor, View
from statefulspark.state.types import conversions, keyforms

if TYPE_CHECKING:
    import pyarrow as pa


Key = TypeVar("Key", default=Any)


@dataclass(slots=True)
class _State:
    """A declared state with its view of the tables and its conversion."""

    declaration: evolution.Declaration
    view: View
    life: ttl.Ttl | None
    cleaner: ttl.Cleaner | None
    converts: bool

    @property
    def meta(self) -> kinds.StateMeta:
        return self.declaration.meta


class KeyedContext(declaring.StateDeclarations, Generic[Key]):
    """State, timers and time of a keyed function.

    Attributes:
        uid: The operator's uid.
        declares_only: True while a copy of the function is opened on the driver, to learn which states it declares; it
            gets no rows, so models and connections are not needed.
        is_rehearsal: True while a standby runs the query over the first rows of its sources before it takes over. Output
            and state are thrown away; what the function does elsewhere is not.
    """

    uid: str
    declares_only: bool
    is_rehearsal: bool
    _scope: kinds.Scope
    _shown_key: Callable[[object], object] | None
    _processing_time: datetime.datetime
    _watermark: datetime.datetime | None
    _timers: state_timers.BatchTimers
    _firing: state_timers.TimeDomain | None
    _metrics: functionmetrics.FunctionMetrics
    _keys_of: Callable[[pa.Table], list[object]]
    _values_of: Callable[[pa.ChunkedArray], list[object]]

    @property
    def key(self) -> Key:
        """The key that is being processed: a value, or a tuple for a key of several columns.

        Points in time are in the session's time zone.

        Raises:
            SpecRejectedError: There is none, as in `open` and `close`.
        """
        if self._scope.key is kinds.NO_KEY:
            raise errors.SpecRejectedError("NoCurrentKey", "There is no current key outside process() and on_timer().")
        # No cast: functions ask for each key, and a call costs.
        return self._scope.key if self._shown_key is None else self._shown_key(self._scope.key)  # type: ignore[return-value]

    @property
    def metrics(self) -> functionmetrics.FunctionMetrics:
        """Counters and gauges that a scraper of the driver sees: `ctx.metrics.counter("late_orders").inc()`.

        A batch that runs again counts again.
        """
        return self._metrics

    @property
    def processing_time(self) -> datetime.datetime:
        """The moment at which Spark planned the batch, in UTC; the same for all keys, tasks and replays of the batch."""
        return self._processing_time

    @property
    def watermark(self) -> datetime.datetime | None:
        """The watermark of the batch, in UTC: no row at or before it is expected any more.

        None before the first watermark, and for an input without one. When event time has ended, `ss.MAX_WATERMARK`.
        """
        return self._watermark

    @property
    def timers(self) -> state_timers.Timers:
        """Sets, deletes and lists timers of the current key."""
        return self._timers

    @property
    def time_domain(self) -> Literal["event-time", "processing-time"] | None:
        """The clock of the timer that fires, `event-time` or `processing-time`; None outside `on_timer`."""
        return None if self._firing is None else self._firing.value

    def keys(self, table: pa.Table) -> list[object]:
        """Return the key of each row of a table that has the key columns, as `add_many` and the like take it.

        Points in time are in UTC.
        """
        return self._keys_of(table)

    def values(self, column: pa.ChunkedArray) -> list[object]:
        """Return a column as Python values."""
        return self._values_of(column)

    def is_late(self, when: datetime.datetime) -> bool:
        """Tell whether the watermark has passed this event time.

        The function gets late rows like all others, as in Flink's process functions, and decides what to do with them.

        Args:
            when: Event time: a datetime with a time zone.
        """
        return state_timers.milliseconds(when) <= self._scope.watermark_ms


class BatchContext(KeyedContext[Key]):
    """The context as the engine has it, in one batch of one partition.

    Args:
        uid: The operator's uid.
        now_ms: Processing time of the batch in milliseconds since 1970.
        watermark_ms: Watermark of the batch, NO_WATERMARK_MS when there is none.
        domains: Time domains in which the operator has timers.
        ttl_change: What happens when a time to live was switched on or off.
        is_vectorized: Whether the function works on whole tables.
        zone: Time zone in which the function sees the points in time of its keys; None if keys have none.
        declares_only: See `KeyedContext`.
        is_rehearsal: See `KeyedContext`.
    """

    def __init__(
        self,
        uid: str,
        now_ms: int,
        *,
        watermark_ms: int = state_timers.NO_WATERMARK_MS,
        domains: frozenset[state_timers.TimeDomain] = frozenset(),
        ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
        is_vectorized: bool = False,
        zone: datetime.tzinfo | None = None,
        declares_only: bool = False,
        is_rehearsal: bool = False,
    ) -> None:
        self.uid = uid
        self.declares_only = declares_only
        self.is_rehearsal = is_rehearsal
        self._is_vectorized = is_vectorized
        self._shown_key = None if zone is None else keyforms.zone_setter(zone)
        self._scope = kinds.Scope()
        self._scope.now_ms, self._scope.watermark_ms = now_ms, watermark_ms
        self._ttl_change = ttl_change
        self._is_open = False
        self._states: dict[str, _State] = {}
        self._each_record: list[ttl.Cleaner] = []
        self._resolutions: dict[tuple[str, kinds.StateMeta], evolution.Resolution] = {}
        self._processing_time = state_timers.moment(now_ms)
        self._watermark = None if watermark_ms == state_timers.NO_WATERMARK_MS else state_timers.moment(watermark_ms)
        self._timers = state_timers.BatchTimers(self._scope, domains)
        self._firing = None
        self._metrics = functionmetrics.FunctionMetrics()

    def declare(self, descriptor: Descriptor) -> Any:  # noqa: ANN401 - the handle of whatever is declared
        """Return the handle of a state.

        Raises:
            SpecRejectedError: The name is taken, or the function is already open.
        """
        life = descriptor.ttl
        value = descriptor.value_type
        meta = kinds.StateMeta(descriptor.name, descriptor.kind, descriptor.type_text, life is not None)
        self._check_new(meta)
        cleaner = None
        if life is not None and life.cleanup_incrementally is not None:
            cleaner = ttl.Cleaner(life.cleanup_incrementally, life.duration_ms)
            if life.cleanup_for_every_record:
                self._each_record.append(cleaner)
        declaration = evolution.Declaration(meta, value, self._ttl_change)
        conversion = conversions.choose(value, evolution.value_type(meta))
        kind, arrays = meta.kind, None
        if self._is_vectorized and life is None and conversion is None:
            arrays = kind.new_array_view(descriptor, meta, self._scope)  # type: ignore[arg-type]  # the kind is its own
        view = arrays or kind.new_view(meta, self._scope, life, cleaner, conversion)
        self._states[meta.name] = _State(declaration, view, life, cleaner, conversion is not None)
        return kind.handle(descriptor, view)  # type: ignore[arg-type]  # the kind is its own

    def _declare(self, descriptor: Descriptor) -> Any:  # noqa: ANN401 - the handle of whatever is declared
        return self.declare(descriptor)

    def _check_new(self, meta: kinds.StateMeta) -> None:
        if self._is_open:
            raise errors.SpecRejectedError(
                "StateDeclaredTooLate", f"State '{meta.name}' is declared after open(); declare every state in open()."
            )
        before = self._states.get(meta.name)
        if before is None:
            return
        if (before.meta.kind, before.meta.type_text) != (meta.kind, meta.type_text):
            raise evolution.incompatible(before.meta, meta, f"Both are in operator '{self.uid}'.")
        raise errors.InvalidArgumentError(
            "StateNameTaken",
            f"State '{meta.name}' is declared twice in operator '{self.uid}'; names must be unique per operator.",
        )

    def withdraw(self, name: str) -> None:
        """Remove the declaration of a state while the function opens; its handle must not be used any more."""
        withdrawn = self._states.pop(name, None)
        if withdrawn is not None:
            self._each_record = [each for each in self._each_record if each is not withdrawn.cleaner]

    @property
    def state_key(self) -> object:
        """The current key as state has it, with points in time in UTC; `NO_KEY` where there is none."""
        return self._scope.key

    def opened(self) -> None:
        """Fix the set of states: `open` has returned."""
        self._is_open = True

    def bind(self, group: grouptables.GroupTables, number: int = 0) -> None:
        """Switch all handles to the tables of a key group.

        Args:
            group: Its tables.
            number: Its number.

        Raises:
            SpecRejectedError: A stored state does not fit what is declared, or there are timers of another domain.
        """
        for name, state in self._states.items():
            stored = group.metas.get(name)
            if stored is not None and stored != state.meta:
                resolution = self._resolutions.get((name, stored))
                if resolution is None:
                    resolution = self._resolutions[name, stored] = evolution.resolve(stored, state.declaration)
                group.adopt(resolution, now_ms=self._scope.now_ms)
                if state.converts:
                    self._convert_with(state, resolution.kind)
            elif state.converts:
                self._convert_with(state, evolution.value_type(state.meta))
            table = group.tables[name] if stored is not None else group.table(state.meta)
            state.view._bind(table)  # type: ignore[arg-type]  # a table of its kind
            if state.cleaner is not None:
                state.cleaner.bind(table, number)
        for domain in self._timers.domains:
            table = group.table(domain.meta)
            domain.bind(table, group.next_ms.get(domain.meta.name))  # type: ignore[arg-type]  # a table of timers
        with_rows = [name for name, table in group.tables.items() if name in group.next_ms or table.count]
        state_timers.check_declared(with_rows, self._timers, self.uid)

    @property
    def timer_domains(self) -> tuple[state_timers.DomainTimers, ...]:
        """The timers of each declared time domain; event time first."""
        return self._timers.domains

    @property
    def due_ms(self) -> dict[str, int]:
        """Until when timers are due, by name of the state that has them."""
        return {domain.meta.name: self._timers.now_ms(domain.domain) for domain in self._timers.domains}

    @staticmethod
    def _convert_with(state: _State, kind: object) -> None:
        conversion = conversions.choose(state.declaration.value, kind)  # type: ignore[arg-type]  # a parsed type
        if conversion is not None:
            state.view.conversion = conversion  # type: ignore[attr-defined]  # a view that converts

    def enter(self, key: object) -> None:
        """Set the current key."""
        self._scope.key = key

    def enter_group(
        self, keys_of: Callable[[pa.Table], list[object]], values_of: Callable[[pa.ChunkedArray], list[object]]
    ) -> None:
        """Start to work on all keys of the bound key group at once.

        Args:
            keys_of: Returns the key of each row of a table.
            values_of: Returns a column as Python values.
        """
        self._keys_of, self._values_of = keys_of, values_of
        self._scope.to_objects = values_of

    def leave(self) -> None:
        """Clear the current key."""
        self._scope.key = kinds.NO_KEY
        self._scope.to_objects = None
        self._firing = None

    @property
    def has_arrays_only(self) -> bool:
        """Whether every state is kept as arrays."""
        return all(isinstance(state.view, cells.NumberCells) for state in self._states.values())

    @property
    def cleans_for_every_record(self) -> bool:
        """Whether a state cleans up some entries for every processed record."""
        return bool(self._each_record)

    @property
    def cleans_on_the_way(self) -> bool:
        """Whether access to one key also cleans up entries of other keys."""
        return any(state.cleaner is not None for state in self._states.values())

    @property
    def cleaners(self) -> dict[str, ttl.Cleaner]:
        """Incremental cleaners by the name of the state."""
        return {name: state.cleaner for name, state in self._states.items() if state.cleaner is not None}

    @property
    def now_ms(self) -> int:
        """Processing time of the batch in milliseconds since 1970."""
        return self._scope.now_ms

    @property
    def watermark_ms(self) -> int:
        """Watermark of the batch in milliseconds since 1970, `NO_WATERMARK_MS` when there is none."""
        return self._scope.watermark_ms

    def clean(self, records: int) -> None:
        """Run one step of incremental cleanup for each processed record."""
        for cleaner in self._each_record:
            for _ in range(records):
                cleaner.step(self._scope.now_ms)

    def due(self) -> Iterator[int]:
        """Remove and yield due timers of the bound key group, earliest first, and set the current key to the key of each.

        Due timers that are set meanwhile are included.

        Yields:
            The time of the timer, which is no longer in the state.
        """
        fired = True
        while fired:
            fired = False
            for domain in self._timers.domains:
                while (due := domain.take_due(self._timers.now_ms(domain.domain))) is not None:
                    at_ms, self._scope.key = due
                    self._firing, fired = domain.domain, True
                    yield at_ms
        self.leave()

    def next_wake_ms(self, clock: state_timers.TimeDomain) -> int | None:
        """Return when the bound key group must be processed again even without rows, in the time of `clock`.

        None when it has no timers. With processing time, event-time timers are checked in every batch.
        """
        moments = []
        for domain in self._timers.domains:
            next_ms = domain.next_ms()
            if next_ms is not None:
                moments.append(next_ms if domain.domain is clock else self._timers.now_ms(clock) + 1)
        return min(moments, default=None)

    @property
    def cutoffs_ms(self) -> dict[str, int]:
        """Until when entries were renewed that may be dropped, by name of the state; without states that keep them."""
        lives = self.lifetimes
        return {
            name: self._scope.now_ms - life.duration_ms for name, life in lives.items() if life.cleanup_in_background
        }

    @property
    def declarations(self) -> tuple[evolution.Declaration, ...]:
        """The states that were declared, in order."""
        return tuple(state.declaration for state in self._states.values())

    @property
    def lifetimes(self) -> dict[str, ttl.Ttl]:
        """Time to live by name, of the states that have one."""
        return {name: state.life for name, state in self._states.items() if state.life is not None}
