"""Timers: times at which a function is called for a key, kept as state and fired with the batch.

A timer is a unique pair of key and time in one of two time domains. Timers are two map states of the operator
(`_timer_state/event_user-timers` and `_timer_state/processing_user-timers`, from key to times), so they are stored,
compacted, restored and exported like all state. In memory each key group has a heap beside the map, so that firing
reads only due timers, never all keys. Of a key group of which a batch has few keys, only these and those with due timers are
in memory; when the others are due is known from an index (`timerindex`).

A timer fires in the first batch that has reached its time, after the rows of that batch: event time is the watermark,
processing time is when Spark planned the batch. Its removal is committed together with the effects of the callback.
"""

from __future__ import annotations

import datetime
import enum
import heapq
import struct
from collections.abc import Collection, Iterable
from typing import ClassVar, Final, Literal, cast

import numpy as np

from statefulspark import errors
from statefulspark.contract import watermark
from statefulspark.state import kinds, mapstate, tables

NO_WATERMARK_MS: Final = -(2**63)
"""The watermark before there is one, as in Flink."""
MAX_WATERMARK_MS: Final = 2**63 - 1
"""The watermark when event time has ended, as in Flink: every timer is due."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
MAX_WATERMARK: Final = _EPOCH + watermark.END_OF_TIME_MS * _MILLISECOND
"""`ctx.watermark` when event time has ended: the last millisecond of the year 9999. Every event-time timer is due."""


class TimeDomain(enum.Enum):
    """The clock of a timer."""

    EVENT_TIME = "event-time"
    """The watermark of the input."""
    PROCESSING_TIME = "processing-time"
    """The clock of the machine that plans the batches."""


TIMER_CHOICES: Final = {
    "event-time": frozenset({TimeDomain.EVENT_TIME}),
    "processing-time": frozenset({TimeDomain.PROCESSING_TIME}),
    "both": frozenset(TimeDomain),
}
"""The allowed values of `timers`, and their time domains."""
TIMER_PREFIX = "_timer_state/"
"""Name prefix of the states that hold timers."""
_REBUILD_AT = 1024
_FEW_MOMENTS = 8
"""The change of a key with at most so many timers has all of them, and so says what its earliest one is."""


class TimerTable(mapstate.MapTable):
    """Timers per key, with a heap over all of them; heap entries of deleted timers are dropped lazily."""

    __slots__ = ("_heap", "_number", "_rebuild_at")

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, int, tables.Key]] = []
        self._number = 0
        self._rebuild_at = _REBUILD_AT

    def _change(self, key: tables.Key, entries: set[object] | None) -> object:
        row = self.rows.get(key)
        are_few = isinstance(row, dict) and len(row) <= _FEW_MOMENTS
        return super()._change(key, None if are_few else entries)

    def push(self, at_ms: int, key: tables.Key) -> None:
        """Add a timer that was put into the map of a key to the heap."""
        self._number += 1
        heapq.heappush(self._heap, (at_ms, self._number, key))
        if len(self._heap) > self._rebuild_at:
            self._rebuild()

    def peek(self) -> tuple[int, tables.Key] | None:
        """Return the earliest timer and its key, None when there is none."""
        heap, rows = self._heap, self.rows
        while heap:
            at_ms, _, key = heap[0]
            moments = rows.get(key)
            if isinstance(moments, dict) and at_ms in moments:
                return at_ms, key
            heapq.heappop(heap)
        return None

    def apply(self, changes: tables.Changes) -> None:
        """Apply changes to the table."""
        super().apply(changes)
        if len(changes) > len(self._heap):
            self._rebuild()
            return
        for key, change in changes.items():
            if isinstance(change, mapstate.MapChange):
                for at_ms in change.puts:
                    self.push(at_ms, key)  # type: ignore[arg-type]  # moments are integers

    def _rebuild(self) -> None:
        """Drop stale entries; done each time the heap has doubled, so that the cost per push is constant."""
        moments = [(at_ms, key) for key, row in self.rows.items() if isinstance(row, dict) for at_ms in row]
        self._heap = [(at_ms, number, key) for number, (at_ms, key) in enumerate(moments)]
        self._number = len(self._heap)
        heapq.heapify(self._heap)
        self._rebuild_at = max(_REBUILD_AT, 2 * len(self._heap))


REPLACES, HAS_PUTS = 1, 2
"""Flags of a row of moments: whether it has all moments of its key, and whether it has any."""
MOMENT_BYTES = 8
_COUNT = struct.Struct("<I")


class TimerKind(mapstate.MapKind):
    """The timers of a key, which users do not declare: stored as maps, or as columns of moments, and ordered in memory.

    A row of columns is flags in one byte; the moments that are put, in ascending order; those that are removed; and, of a
    row that has not all of its key, how many are put. So the earliest is where `timerindex` finds it without unpacking
    anything.
    """

    has_moments: ClassVar[bool] = True

    def new_table(self) -> TimerTable:
        """Return an empty table."""
        return TimerTable()

    def make_row(self, change: object) -> object:
        """Return flags and moments."""
        given = cast("mapstate.MapChange", change)
        puts = sorted(cast("Iterable[int]", given.puts))
        flags = bytes([REPLACES * given.replaced | HAS_PUTS * bool(puts)])
        if given.replaced:
            return flags + _pack_moments(puts)
        return flags + _pack_moments([*puts, *cast("Iterable[int]", given.removed)]) + _COUNT.pack(len(puts))

    def read_row(self, row: object) -> object:
        """Undo `make_row`."""
        flags, body = cast("bytes", row)[0], cast("bytes", row)[1:]
        replaced = bool(flags & REPLACES)
        puts = len(body) // MOMENT_BYTES
        if not replaced:
            puts = int.from_bytes(body[-_COUNT.size :], "little")
            body = body[: -_COUNT.size]
        moments: list[int] = np.frombuffer(body, "<i8").tolist()
        if flags > REPLACES | HAS_PUTS or puts > len(moments) or bool(puts) != bool(flags & HAS_PUTS):
            raise ValueError(f"a row of {len(moments)} moments has {puts} that are put, and the flags {flags}")
        return mapstate.MapChange(replaced, dict.fromkeys(moments[:puts]), set(moments[puts:]))


def _pack_moments(moments: list[int]) -> bytes:
    return struct.pack(f"<{len(moments)}q", *moments)


TIMERS = TimerKind("MapState", TIMER_PREFIX)


def meta_of(domain: TimeDomain) -> kinds.StateMeta:
    """Return the metadata of the timers of a domain. The name has a slash, which names of user states cannot have."""
    name = f"{TIMER_PREFIX}{domain.value.removesuffix('-time')}_user-timers"
    return kinds.StateMeta(name, TIMERS, "map<bigint,any>", has_ttl=False)


def watermark_of(engine_ms: int) -> int:
    """Convert Spark's watermark of a batch to the one that functions see."""
    if engine_ms >= watermark.END_OF_TIME_MS:
        return MAX_WATERMARK_MS
    return engine_ms if engine_ms > 0 else NO_WATERMARK_MS


def milliseconds(when: datetime.datetime) -> int:
    """Return a moment as milliseconds since 1970, rounded up so that no timer fires early.

    Raises:
        InvalidTypeError: `TimerMomentInvalid`: it has no time zone, or is no datetime.
    """
    given: object = when
    if isinstance(given, datetime.datetime) and given.tzinfo is not None:
        return -((_EPOCH - given) // _MILLISECOND)
    raise errors.InvalidTypeError(
        "TimerMomentInvalid",
        f"{when!r:.100} is no moment: pass a datetime with a time zone, such as a column of a row.",
    )


def moment(at_ms: int) -> datetime.datetime:
    """Return milliseconds since 1970 as a datetime in UTC. After the year 9999, it is `MAX_WATERMARK`."""
    try:
        # In integers: a float of seconds cannot hold the milliseconds of all years.
        return _EPOCH + at_ms * _MILLISECOND
    except OverflowError:
        return MAX_WATERMARK if at_ms > 0 else datetime.datetime.min.replace(tzinfo=datetime.UTC)


class DomainTimers:
    """The timers of one domain in the bound key group."""

    __slots__ = ("_other_ms", "_scope", "_table", "domain", "meta")

    def __init__(self, domain: TimeDomain, keyed: kinds.Scope) -> None:
        self.domain = domain
        self.meta = meta_of(domain)
        self._scope = keyed
        self._table = TimerTable()
        self._other_ms: int | None = None

    def bind(self, table: TimerTable, other_ms: int | None = None) -> None:
        """Switch to another key group.

        Args:
            table: Its timers, or those of some keys, with all that are due.
            other_ms: When the earliest timer may be of other keys; None without.
        """
        self._table, self._other_ms = table, other_ms

    def register(self, at_ms: int) -> None:
        """Set a timer for the current key; no effect if it is already set."""
        key, rows = self._scope.require_key(self.meta), self._table.rows
        moments = rows.get(key)
        if not isinstance(moments, dict):
            rows[key] = {at_ms: None}
        elif at_ms not in moments:
            moments[at_ms] = None
        else:
            return
        self._table.touch(key, at_ms)
        self._table.push(at_ms, key)

    def delete(self, at_ms: int) -> None:
        """Remove a timer of the current key; no effect if it is not set."""
        self._remove(self._scope.require_key(self.meta), at_ms)

    def _remove(self, key: object, at_ms: int) -> None:
        moments = self._table.rows.get(key)
        if not isinstance(moments, dict) or at_ms not in moments:
            return
        del moments[at_ms]
        if not moments:
            del self._table.rows[key]
        self._table.touch(key, at_ms)

    def moments(self) -> list[int]:
        """Return the timers of the current key, earliest first."""
        return sorted(cast("dict[int, object]", self._table.rows.get(self._scope.require_key(self.meta), {})))

    def next_ms(self) -> int | None:
        """Return the time of the earliest timer in the key group, or an earlier one; None when there is none."""
        first = self._table.peek()
        moments = [moment for moment in (first and first[0], self._other_ms) if moment is not None]
        return min(moments, default=None)

    def take_due(self, now_ms: int) -> tuple[int, object] | None:
        """Remove and return the earliest due timer as time and key; None when none is due."""
        first = self._table.peek()
        if first is None or first[0] > now_ms:
            return None
        self._remove(first[1], first[0])
        return first


class Timers:
    """Sets, deletes and lists timers of the current key.

    A timer is a pair of key and moment. Moments are rounded up to a millisecond.
    """

    _timers: dict[str, DomainTimers]
    _only: DomainTimers | None

    def set(self, when: datetime.datetime, *, domain: Literal["event-time", "processing-time"] | None = None) -> None:
        """Call `on_timer` for this key once, in the first batch whose time has reached a moment; in this batch if it has.

        Args:
            when: The moment. Setting it twice has no further effect.
            domain: The clock; needed only by an operator with `timers="both"`.

        Raises:
            InvalidArgumentError: `TimersNotDeclared`: the operator has no timers of this domain; `TimerDomainMissing`.
            InvalidTypeError: `TimerMomentInvalid`: it is no datetime with a time zone.
            SpecRejectedError: `NoCurrentKey`.
        """
        self._of(domain).register(milliseconds(when))

    def delete(
        self, when: datetime.datetime, *, domain: Literal["event-time", "processing-time"] | None = None
    ) -> None:
        """Delete a timer of this key; no effect if it is not set.

        Args:
            when: The moment that it was set for.
            domain: As for `set`.

        Raises:
            InvalidArgumentError: As for `set`, and so are the others.
        """
        self._of(domain).delete(milliseconds(when))

    def list(self, *, domain: Literal["event-time", "processing-time"] | None = None) -> tuple[datetime.datetime, ...]:
        """Return the timers of this key, earliest first, in UTC. A timer that fires is not among them.

        Args:
            domain: As for `set`.

        Raises:
            InvalidArgumentError: As for `set`.
        """
        return tuple(map(moment, self._of(domain).moments()))

    def _of(self, domain: Literal["event-time", "processing-time"] | None) -> DomainTimers:
        if domain is None and self._only is not None:
            return self._only
        chosen = self._timers.get(domain) if domain is not None else None
        if chosen is not None:
            return chosen
        if domain is None and self._timers:
            raise errors.InvalidArgumentError(
                "TimerDomainMissing",
                'The operator has timers="both"; name the clock: domain="event-time" or domain="processing-time".',
            )
        declared = " and ".join(self._timers) or "no timers"
        raise errors.InvalidArgumentError(
            "TimersNotDeclared",
            f"The function uses {domain or 'some'} timers, and its operator was declared with {declared}. Declare them: "
            f'keyed_process(…, timers="{domain or TimeDomain.EVENT_TIME.value}"), or timers="both".',
        )


class BatchTimers(Timers):
    """The timers as the engine has them, in one batch.

    Args:
        keyed: Current key and times.
        domains: The declared domains of the operator; timers of others are rejected.
    """

    def __init__(self, keyed: kinds.Scope, domains: frozenset[TimeDomain]) -> None:
        self._scope = keyed
        self._timers = {domain.value: DomainTimers(domain, keyed) for domain in TimeDomain if domain in domains}
        self._only = next(iter(self._timers.values())) if len(self._timers) == 1 else None

    @property
    def domains(self) -> tuple[DomainTimers, ...]:
        """The timers of each declared domain; event time first."""
        return tuple(self._timers.values())

    def now_ms(self, domain: TimeDomain) -> int:
        """Return the time of a domain."""
        return self._scope.watermark_ms if domain is TimeDomain.EVENT_TIME else self._scope.now_ms


def check_declared(stored: Collection[str], service: BatchTimers, uid: str) -> None:
    """Reject state with timers of an undeclared domain: they would never fire.

    Args:
        stored: Names of states that have timers, and of others.
        service: Has the declared domains.
        uid: The operator.

    Raises:
        InvalidArgumentError: There are such timers.
    """
    declared = {timers.meta.name for timers in service.domains}
    for name in stored:
        if name.startswith(TIMER_PREFIX) and name not in declared:
            kind = name.removeprefix(TIMER_PREFIX).partition("_")[0]
            raise errors.InvalidArgumentError(
                "TimersNotDeclared",
                f"The state of keyed operator '{uid}' has {kind}-time timers, which would not fire as declared "
                f'now. Pass timers="{kind}-time" or timers="both" to keyed_process(), or give the operator another uid.',
            )
