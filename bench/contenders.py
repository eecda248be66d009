"""The keyed count, written for each way of keeping state on Spark, and once without any state: the floor.

Every contender turns a stream of `key` into `(key, count)`, one row for each key that a batch has touched. The state of a
key is its count, or with `value_bytes` the count and bytes beside it. The floor shuffles the rows by key and takes them to
Python and back through Arrow, which is what every Python operator pays before it has done anything.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa
import statefulspark as ss
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming import stateful_processor
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from statefulspark import state

SCHEMA = "key bigint, count bigint"
_FAR = datetime(9000, 1, 1, tzinfo=UTC)
_COUNT_BYTES = 8
_CACHE_BYTES = 3 << 30
"""Memory for state in each of the two workers, by our estimate: as much as Flink's heap has beside it."""


@dataclass(frozen=True, slots=True)
class Counter:
    """How a count is kept as state.

    Attributes:
        value_bytes: Size of the state of a key; 0 for a number.
        compressible: Whether what is beside the count are zeros.
    """

    value_bytes: int
    compressible: bool = False

    @property
    def type(self) -> type:
        """Python's type of the state."""
        return bytes if self.value_bytes else int

    @property
    def ddl(self) -> str:
        """Spark's type of the state."""
        return "count binary" if self.value_bytes else "count bigint"

    def to_state(self, count: int, before: object = None) -> object:
        """Return a count as it is kept, with the bytes beside it, which stay what they are."""
        if not self.value_bytes:
            return count
        if isinstance(before, bytes | bytearray):
            return count.to_bytes(_COUNT_BYTES, "little") + before[_COUNT_BYTES:]
        fill = bytes if self.compressible else os.urandom
        return count.to_bytes(_COUNT_BYTES, "little") + fill(self.value_bytes - _COUNT_BYTES)

    def to_count(self, kept: object) -> int:
        """Return a kept count; 0 for none."""
        if kept is None:
            return 0
        return int.from_bytes(kept[:_COUNT_BYTES], "little") if isinstance(kept, bytes | bytearray) else int(kept)  # type: ignore[call-overload]


class Count(ss.KeyedProcessFunction):
    """Counts rows per key, with one value state.

    Args:
        counter: How counts are kept.
        ttl: Their time to live.
    """

    def __init__(self, counter: Counter, ttl: ss.Ttl | None = None) -> None:
        self._counter = counter
        self._ttl = ttl

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the counter."""
        self.count: state.ValueState[object] = ctx.value_state("count", self._counter.type, ttl=self._ttl)
        self.is_plain = not self._counter.value_bytes

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Count the rows of a key."""
        if self.is_plain:
            counted = (self.count.get() or 0) + len(rows)  # type: ignore[operator]  # a number
            self.count.update(counted)
        else:
            before = self.count.get()
            counted = self._counter.to_count(before) + len(rows)
            self.count.update(self._counter.to_state(counted, before))
        yield key, counted


class TimedCount(Count):
    """Counts rows per key, and sets a timer for each key that it sees for the first time."""

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Count the rows of a key."""
        before = self.count.get()
        if before is None:
            ctx.timers.set(_FAR + timedelta(milliseconds=hash(key) % 1000))
        if self.is_plain:
            counted = (before or 0) + len(rows)  # type: ignore[operator]  # a number
            self.count.update(counted)
        else:
            counted = self._counter.to_count(before) + len(rows)
            self.count.update(self._counter.to_state(counted, before))
        yield key, counted

    def on_timer(self, when: datetime, ctx: ss.KeyedContext) -> None:
        """Do nothing: the timers lie behind the end of the run."""


class VectorizedCount(ss.VectorizedProcessFunction):
    """Counts rows per key with Arrow, and adds the counts of a batch to the state all at once.

    Args:
        counter: How counts are kept.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the counter."""
        add: Callable[[object, object], object] = self._add if self._counter.value_bytes else operator.add
        self.count: state.ReducingState[object] = ctx.reducing_state("count", add, self._counter.type)

    def _add(self, before: object, more: object) -> object:
        return self._counter.to_state(self._counter.to_count(before) + self._counter.to_count(more), before)

    def process_table(self, rows: pa.Table, ctx: ss.KeyedContext) -> pa.Table:
        """Count the rows of a key group."""
        counts = rows.group_by("key").aggregate([([], "count_all")])
        if not self._counter.value_bytes:
            totals = self.count.add_many(counts["key"], counts["count_all"])
            return pa.table({"key": counts["key"], "count": totals})
        counted = ctx.values(counts["count_all"])
        added = [self._counter.to_state(count) for count in counted]  # type: ignore[arg-type]  # a column of numbers
        totals = [self._counter.to_count(kept) for kept in self.count.add_many(ctx.keys(counts), added)]
        return pa.table({"key": counts["key"], "count": totals})


class SparkCount(stateful_processor.StatefulProcessor):
    """Counts rows per key in Spark's own way.

    Args:
        counter: How counts are kept.
        in_pandas: Whether rows come and go as frames.
    """

    def __init__(self, counter: Counter, *, in_pandas: bool) -> None:
        self._counter = counter
        self._in_pandas = in_pandas

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        """Declare the counter."""
        self.count = handle.getValueState("count", self._counter.ddl)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        rows: Iterator[object],
        timerValues: object,  # noqa: N803 - Spark's name
    ) -> Iterator[object]:
        """Count the rows of a key."""
        row = self.count.get()
        before = None if row is None else row[0]
        more = sum(map(len, rows)) if self._in_pandas else sum(1 for _ in rows)  # type: ignore[arg-type]  # frames
        counted = self._counter.to_count(before) + more
        self.count.update((self._counter.to_state(counted, before),))
        if self._in_pandas:
            yield pd.DataFrame({"key": [key[0]], "count": [counted]})
        else:
            yield Row(key=key[0], count=counted)

    def close(self) -> None:
        """Nothing to release."""


def _floor(rows: DataFrame, counter: Counter) -> DataFrame:
    def there_and_back(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ones = pa.array([1], pa.int64()).take(pa.array([0] * batch.num_rows, pa.int32()))
            yield pa.RecordBatch.from_arrays([batch.column(0), ones], names=["key", "count"])

    return rows.repartition("key").mapInArrow(there_and_back, SCHEMA)


def _jvm(rows: DataFrame, counter: Counter) -> DataFrame:
    return rows.groupBy("key").count()


def _ours(rows: DataFrame, counter: Counter) -> DataFrame:
    return ss.keyed_process(
        rows, key="key", function=Count(counter), uid="plain", schema=SCHEMA, cache_bytes=_CACHE_BYTES
    )


def _ttl(rows: DataFrame, counter: Counter) -> DataFrame:
    function = Count(counter, ss.Ttl("1d"))
    return ss.keyed_process(rows, key="key", function=function, uid="ttl", schema=SCHEMA)


def _timers(rows: DataFrame, counter: Counter) -> DataFrame:
    timed = rows.withColumn("time", sql.timestamp_seconds(sql.lit(1_000_000_000))).withWatermark("time", "1 second")
    return ss.keyed_process(
        timed.select("key"),
        key="key",
        function=TimedCount(counter),
        uid="timers",
        schema=SCHEMA,
        timers="event-time",
    )


def _vectorized(rows: DataFrame, counter: Counter) -> DataFrame:
    function = VectorizedCount(counter)
    return ss.keyed_process(
        rows, key="key", function=function, uid="vectorized", schema=SCHEMA, cache_bytes=_CACHE_BYTES
    )


def _processor(rows: DataFrame, counter: Counter) -> DataFrame:
    processor = SparkCount(counter, in_pandas=False)
    return ss.compat.transform_with_state(rows.groupBy("key"), processor, SCHEMA, "Update", "None", uid="processor")


def _spark_rows(rows: DataFrame, counter: Counter) -> DataFrame:
    processor = SparkCount(counter, in_pandas=False)
    return rows.groupBy("key").transformWithState(processor, SCHEMA, "Update", "None")


def _spark_pandas(rows: DataFrame, counter: Counter) -> DataFrame:
    processor = SparkCount(counter, in_pandas=True)
    return rows.groupBy("key").transformWithStateInPandas(processor, SCHEMA, "Update", "None")


def _spark_groups(rows: DataFrame, counter: Counter) -> DataFrame:
    def count(key: tuple[int], frames: Iterator[pd.DataFrame], kept: GroupState) -> Iterator[pd.DataFrame]:
        before = kept.get[0] if kept.exists else None
        counted = counter.to_count(before) + sum(map(len, frames))
        kept.update((counter.to_state(counted, before),))
        yield pd.DataFrame({"key": [key[0]], "count": [counted]})

    return rows.groupBy("key").applyInPandasWithState(count, SCHEMA, counter.ddl, "update", GroupStateTimeout.NoTimeout)


@dataclass(frozen=True, slots=True)
class Contender:
    """A way of counting.

    Attributes:
        build: Makes the query from the rows.
        is_slow: Whether it gets fewer batches.
        counts: Whether it counts at all; the floor does not.
    """

    build: Callable[[DataFrame, Counter], DataFrame]
    is_slow: bool = False
    counts: bool = True


CONTENDERS = {
    "floor": Contender(_floor, counts=False),
    "jvm": Contender(_jvm),
    "plain": Contender(_ours),
    "ttl": Contender(_ttl),
    "timers": Contender(_timers),
    "vectorized": Contender(_vectorized),
    "processor": Contender(_processor),
    "spark-rows": Contender(_spark_rows, is_slow=True),
    "spark-pandas": Contender(_spark_pandas, is_slow=True),
    "spark-groups": Contender(_spark_groups, is_slow=True),
}
"""By name: no state; `groupBy().count()`; five of ours, the last of which runs the very processor of `spark-rows`; Spark's
`transformWithState`, the same `InPandas`, and `applyInPandasWithState`."""
