"""Tests a keyed function without Spark, in milliseconds: feed rows, move the clocks, look at what comes out.

Everything of the function and its state is the product's: the state is written to bytes after each batch and read again,
values that cannot be stored are refused, and a batch that raises changes nothing. What Spark does around it is left out:
the rows' types are those of the test, and the output is not compared with the operator's schema.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from types import NoneType
from typing import Literal

import pyarrow as pa

from statefulspark import durations, errors
from statefulspark.packs import ranges
from statefulspark.state import cache, functionmetrics, functions, heads, rows, store, ttl
from statefulspark.state import timers as state_timers
from statefulspark.state.types import keyforms

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)
"""Processing time of the first batch, unless a test names another."""
_UID = "tested"
_KEY_TYPES = (str, bytes, bool, int, Decimal, date, NoneType)
"""What a key column of an operator can have; a point in time is a date, too."""
_GROUP = 0
"""All keys of a test are in one key group."""


class KeyedHarness:
    """A keyed function with its state, for one test.

    Example:
        ```python
        harness = KeyedHarness(Totals(), key="customer")
        assert harness.feed({"customer": "ada", "amount": 2}) == [("ada", 2)]
        harness.restart()
        assert harness.feed({"customer": "ada", "amount": 3}) == [("ada", 5)]
        ```
    """

    def __init__(
        self,
        function: functions.KeyedProcessFunction,
        *,
        key: str | Sequence[str],
        timers: Literal["event-time", "processing-time", "both"] | None = None,
        start: datetime = DEFAULT_START,
        ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
        is_rehearsal: bool = False,
    ) -> None:
        """Begin with empty state.

        Args:
            function: The function; each batch opens a copy of it, as a worker does.
            key: The key column, or several.
            timers: As for `keyed_process`.
            start: Processing time of the first batch.
            ttl_change: As for `keyed_process`.
            is_rehearsal: What `ctx.is_rehearsal` says.
        """
        self._function = function
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self._domains = functions.timer_domains(timers, function, _UID)
        self._ttl_change = ttl_change
        self._is_rehearsal = is_rehearsal
        self._now_ms, self._watermark_ms = state_timers.milliseconds(start), state_timers.NO_WATERMARK_MS
        self._log = MemoryLog()
        self._ids = itertools.count(1)
        self._cache = cache.LruCache()
        self._zone: tzinfo = UTC
        self._metrics: dict[str, float] = {}

    def feed(self, *batch: Mapping[str, object]) -> list[object]:
        """Run one batch with these rows, and fire the timers that are due.

        Args:
            batch: Rows by column name, all with the same columns.

        Returns:
            What the function yields, in order, as it yields it: a tuple, a dict or a Row. A table of a vectorised function
            is returned as a dict for each row.

        Raises:
            Exception: What the function raises; the state is as before the batch.
        """
        return self._run(batch)

    def advance_time(self, by: timedelta | str) -> list[object]:
        """Let processing time pass, for example `1h`, and run a batch without rows; returns what due timers yield."""
        self._now_ms += durations.of(by, "time to pass") // timedelta(milliseconds=1)
        return self._run(())

    def advance_watermark(self, to: datetime) -> list[object]:
        """Move the watermark, and run a batch without rows; returns what due timers yield.

        Args:
            to: Event time: a datetime with a time zone. A watermark never goes back.
        """
        self._watermark_ms = max(self._watermark_ms, state_timers.milliseconds(to))
        return self._run(())

    def restart(self, function: functions.KeyedProcessFunction | None = None) -> None:
        """Go on in a new process, as after a kill: only what is stored is left.

        Args:
            function: A changed version of the function; the same one when omitted.
        """
        self._cache.clear()
        self._function = function or self._function

    @property
    def metrics(self) -> dict[str, float]:
        """The counters and gauges of the function, by name. A rehearsal counts nothing."""
        return dict(self._metrics)

    @property
    def stored_bytes(self) -> int:
        """Size of the stored state."""
        return self._log.size_bytes

    def _run(self, batch: Sequence[Mapping[str, object]]) -> list[object]:
        # Spark's points in time have the zone of the session; here the rows tell it.
        times = (value for row in batch for value in row.values() if isinstance(value, datetime))
        self._zone = next((time.tzinfo for time in times if time.tzinfo is not None), self._zone)
        function = copy.deepcopy(self._function)
        context = functions.BatchContext(
            _UID,
            self._now_ms,
            watermark_ms=self._watermark_ms,
            domains=self._domains,
            ttl_change=self._ttl_change,
            is_vectorized=isinstance(self._function, functions.VectorizedProcessFunction),
            zone=self._zone,
            is_rehearsal=self._is_rehearsal,
        )
        function.open(context)
        context.opened()
        attempt, tables = self._log.attempt(), self._cache.for_operator(context.uid)
        loaded = store.load(attempt, tables, _GROUP, in_arrays=context.has_arrays_only)
        context.bind(loaded.tables, _GROUP)
        output = list(map(rows.kept, self._process(function, context, batch)))
        for at_ms in context.due():
            output.extend(map(rows.kept, function.on_timer(state_timers.moment(at_ms), context) or ()))
        loaded.commit(new_id=lambda: f"{next(self._ids):016x}", cutoffs_ms=context.cutoffs_ms)
        function.close()
        self._log.adopt(attempt)
        for kind, name, value in () if self._is_rehearsal else functionmetrics.values(context.metrics):
            before = self._metrics.get(name, 0.0) if kind is functionmetrics.MetricKind.COUNTER else 0.0
            self._metrics[name] = before + value
        return output

    def _process(
        self,
        function: functions.KeyedProcessFunction,
        context: functions.BatchContext,
        batch: Sequence[Mapping[str, object]],
    ) -> Iterator[object]:
        if not batch:
            return
        self._require_alike(batch)
        if isinstance(function, functions.VectorizedProcessFunction):
            context.clean(len(batch))
            context.enter_group(lambda part: rows.read_keys(part, self._key), rows.read_values)
            emitted = function.process_table(pa.Table.from_pylist([dict(row) for row in batch]), context)
            yield from emitted.to_pylist() if emitted is not None else ()
        else:
            for key, group in self._group_rows(batch).items():
                context.enter(key)
                context.clean(len(group))
                yield from function.process(context.key, group, context) or ()
        context.leave()

    def _require_alike(self, batch: Sequence[Mapping[str, object]]) -> None:
        columns = tuple(batch[0])
        wrong = next((row for row in batch if tuple(row) != columns), None)
        if wrong is not None:
            raise errors.InvalidArgumentError(
                "RowsDiffer",
                f"The row {wrong!r:.200} has other columns than the first one, {columns}; name them alike.",
            )
        for column in self._key:
            if column not in columns:
                raise errors.InvalidArgumentError(
                    "KeyMissing", f"The key {column!r} is no column of the rows, which have {columns}; correct key=."
                )
            unfit = next((row[column] for row in batch if not isinstance(row[column], _KEY_TYPES)), None)
            if unfit is not None:
                raise errors.InvalidArgumentError(
                    "KeyTypeUnsupported",
                    f"The key {column!r} is {unfit!r:.100}, a {type(unfit).__qualname__}. A key is a string, binary, "
                    "boolean, integer, decimal, date or timestamp, or several of these; cast it first.",
                )

    def _group_rows(self, batch: Sequence[Mapping[str, object]]) -> dict[object, list[functions.InputRow]]:
        make = rows.row_maker(tuple(batch[0]))
        grouped: dict[object, list[functions.InputRow]] = {}
        for row in batch:
            values = tuple(row[column] for column in self._key)
            (key,) = keyforms.one_form([values[0] if len(values) == 1 else values])
            grouped.setdefault(key, []).append(make(row.values()))
        return grouped


class MemoryLog:
    """The stored chunks of one key group. Writes go to a copy that replaces the original when the batch commits.

    Attributes:
        stored_head: The head; None before the first batch with state.
        chunks: Id and bytes by version.
        packs: Bytes of packs by name, for heads that name any; all attempts have them.
        reads: How often a chunk was read.
    """

    def __init__(self) -> None:
        """Begin without state."""
        self.stored_head: heads.GroupHead | None = None
        self.chunks: dict[int, tuple[str, bytes]] = {}
        self.packs: dict[str, bytes] = {}
        self.reads = 0

    @property
    def size_bytes(self) -> int:
        """Length of all chunks."""
        return sum(len(blob) for _, blob in self.chunks.values())

    def attempt(self) -> MemoryLog:
        """Return what one attempt of a batch works on."""
        copied = MemoryLog()
        copied.stored_head, copied.chunks, copied.packs = self.stored_head, dict(self.chunks), self.packs
        return copied

    def adopt(self, attempt: MemoryLog) -> None:
        """Commit an attempt."""
        self.stored_head, self.chunks = attempt.stored_head, attempt.chunks

    def head(self) -> heads.GroupHead | None:
        """Return the head, as it comes back from storage."""
        head = self.stored_head
        return head and heads.GroupHead.from_layout(head.version, head.unique_id, head.pack_layout())

    def set_head(self, head: heads.GroupHead) -> None:
        """Replace the head."""
        self.stored_head = head

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        """Return a chunk."""
        self.reads += 1
        return self.chunks.get(version)

    def packed_chunk(self, where: ranges.PackRange) -> bytes:
        """Return a chunk of a pack, which must be there."""
        self.reads += 1
        return self.packs[where.pack][where.offset : where.offset + where.length]

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        """Store a chunk."""
        self.chunks[version] = (unique_id, blob)

    def remove_chunk(self, version: int) -> None:
        """Remove a chunk, which must be there."""
        del self.chunks[version]
