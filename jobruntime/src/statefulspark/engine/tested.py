"""Moves the clocks of a query and ends what a kill ends, for tests of jobs; no job uses it.

The clocks are Spark's own, of a running query: the moment that a batch is planned at, and the watermark that it is planned
with. Both are written into the offset log with the batch, as always.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

from statefulspark.engine import session as spark_session

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_STREAMING = "org.apache.spark.sql.execution.streaming"
_ALL_BATCHES = 2**62


class TestedQuery:
    """A running query of a job that is tested."""

    __test__ = False  # pytest: not a class of tests

    def __init__(self, spark: SparkSession, uid: str) -> None:
        """Find the query that runs under a uid."""
        self._jvm = spark_session.jvm_view(spark)
        self._query = next(query for query in spark.streams.active if query.name == uid)
        self._execution = cast("JavaObject", self._query._jsq.streamingQuery())
        self.uid = uid

    def set_clock(self, now_ms: int) -> None:
        """Make batches begin at a moment, until it is set again; what waits for a trigger is not told."""
        clock = self._execution.triggerClock()
        if str(clock.getClass().getSimpleName()) == "ManualClock":
            clock.setTime(now_ms)
            return
        field = self._execution.getClass().getSuperclass().getDeclaredField("triggerClock")
        field.setAccessible(True)
        field.set(self._execution, self._jvm.org.apache.spark.util.ManualClock(now_ms))

    @property
    def watermark_ms(self) -> int:
        """The watermark of the next batch; 0 before there is one."""
        return int(self._execution.watermarkTracker().currentWatermark())

    def set_watermark(self, watermark_ms: int) -> None:
        """Move the watermark of the next batch, also if Spark has just found that none is needed."""
        lock = self._execution.awaitProgressLock()  # held while Spark plans a batch
        lock.lock()
        try:
            self._execution.watermarkTracker().setWatermark(watermark_ms)
            field = self._execution.getClass().getDeclaredField("watermarkPropagator")
            field.setAccessible(True)
            field.get(self._execution).purge(_ALL_BATCHES)
        finally:
            lock.unlock()

    def process_all(self) -> bool:
        """Wait until it has processed everything there is, or has failed; a query that never rests does not return.

        Returns:
            Whether it has not failed.
        """
        try:
            self._query.processAllAvailable()
        except StreamingQueryException:
            return False
        return True

    def newest_batch(self) -> dict[str, object]:
        """Return what Spark has measured of its newest batch; empty before the first."""
        progress = self._query._jsq.lastProgress()
        return {} if progress is None else dict(json.loads(progress.json()))


def stop_all(spark: SparkSession, uids: Iterable[str]) -> None:
    """Stop the queries of a job wherever they are."""
    of_job = set(uids)
    for query in spark.streams.active:
        if query.name in of_job:
            query.stop()


def end_workers(spark: SparkSession) -> None:
    """End every Python process of Spark's, with all that is in its memory, and unload the state that the JVM has open."""
    jvm = spark_session.jvm_view(spark)
    jvm.io.statefulspark.internals.Environment.stopPythonWorkers()
    getattr(jvm, f"{_STREAMING}.state.StateStore").stop()


def send_by_value(module: str) -> None:
    """Send what a module defines to workers as it is: they cannot import the module of a test."""
    if module in sys.modules and module.partition(".")[0] not in ("statefulspark", "pyspark"):
        cloudpickle.register_pickle_by_value(sys.modules[module])  # type: ignore[no-untyped-call]  # Spark's copy has no types
