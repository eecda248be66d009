"""A rehearsal: the query's own plan runs as a real streaming query over a few rows of its own sources, into nothing.

The first batch of a driver costs seconds that no later batch does: classes are loaded, code is generated and compiled, state
stores are loaded, Python workers import what the functions need. A rehearsal pays for that before the batch that counts, and
finds a function that raises before it costs anything.

It runs in a folder of its own (`rehearsal_folder`), which is removed. The sources are replaced by a file with their first
rows, which is read as a stream: no position of a source is kept, no sink is called, no state of the job is touched. A source
that a batch cannot read is replaced by a file without rows: the plan runs to the end, and no function is blamed for what it
does with that.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from statefulspark import errors
from statefulspark.checkpoint import progress
from statefulspark.engine import jvm
from statefulspark.engine import session as spark_session
from statefulspark.operators import columns
from statefulspark.operators.keyed import rehearsing
from statefulspark.planning import replacing

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from statefulspark.planning.rehearsal_folder import RehearsalFolder

CHECKPOINT = "checkpoint"
"""The checkpoint root, in the folder of a rehearsal."""
SAMPLE_ROWS = 200
LIMIT_S = 120.0
_ENOUGH_BATCHES = 2
"""One with all samples, and one without rows, as it follows where time matters. Where there may be timers by the clock Spark
runs such batches without end."""
_FILE_FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "avro"})
_READABLE = frozenset({*_FILE_FORMATS, "kafka"})
_COUNTING = frozenset({"rate", "rate-micro-batch"})
"""Spark's sources that make their rows themselves, and are read by streams only."""
_POSITIONS = ("starting", "ending", "maxoffsets", "minoffsets", "maxfiles", "maxbytes", "maxtrigger", "failondataloss")
"""Beginnings of options that say what a stream reads when; a sample reads the first rows."""
_POLL_INTERVAL_S = 0.05
_LONGEST_END_S = 10.0
"""How long a batch goes on that nobody waits for any more: Spark logs stacks of a query that is stopped within a batch."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RehearsalOutcome:
    """How a rehearsal ended.

    Attributes:
        has_run: The query read its samples to the end.
        failure: What Spark says of its failure, with the stack of the cause.
        has_rows: Whether its rows were those of its own sources, every one of them.
    """

    has_run: bool = False
    failure: str | None = None
    has_rows: bool = True


def rehearse(
    frame: DataFrame,
    mode: str,
    within: AbstractContextManager[RehearsalFolder],
    *,
    stops: Callable[[], bool],
    restore: Callable[[RehearsalFolder], None] | None = None,
    report: progress.Report = progress.ignore,
) -> RehearsalOutcome:
    """Run a query over the first rows of its sources.

    Args:
        frame: What the query writes.
        mode: Output mode.
        within: Makes the folder to run in, and removes it.
        stops: Asked about twenty times a second; the rehearsal ends with its batch when it says so, or after `LIMIT_S`.
        restore: Fills `CHECKPOINT` in the folder with the state to go on from; it begins with none when omitted.
        report: Receives how many batches are done.

    Returns:
        How it ended; neither run nor failed if it was stopped, or could not begin.
    """
    spark = frame.sparkSession
    spark_session.activate(spark)
    try:
        with within as folder:
            sampled, has_rows = _sample_sources(frame, folder.uri)
            if restore is not None and not stops():
                restore(folder)
            if stops():
                return RehearsalOutcome()
            batches, root = _Batches(report), f"{folder.uri}/{CHECKPOINT}"
            with _running(sampled, mode, root, batches) as (query, is_waiting):
                return replace(_outcome(query, is_waiting, batches, stops), has_rows=has_rows)
    except (Py4JError, PySparkException, OSError, errors.StatefulSparkError) as error:
        _log.warning("a query could not be rehearsed", extra={"why": str(error).splitlines()[0] if str(error) else ""})
        return RehearsalOutcome()


class _Batches:
    """Does with batches what a sink does, and counts them."""

    def __init__(self, report: progress.Report) -> None:
        """Count none yet."""
        self.done = 0
        self._count = progress.count_units("batches", _ENOUGH_BATCHES, report)

    def discard(self, frame: DataFrame, _: int) -> None:
        """Take a batch: Python workers read every row, and the driver collects what they say."""
        columns.map_in_arrow(frame, _consume, "part binary").collect()
        self.done += 1
        if self.done <= _ENOUGH_BATCHES:
            self._count()


def _outcome(
    query: StreamingQuery, is_waiting: Callable[[], bool], batches: _Batches, stops: Callable[[], bool]
) -> RehearsalOutcome:
    limit_s = time.monotonic() + LIMIT_S
    while query.isActive and batches.done < _ENOUGH_BATCHES and not stops() and time.monotonic() < limit_s:
        time.sleep(_POLL_INTERVAL_S)
    limit_s = time.monotonic() + _LONGEST_END_S
    while query.isActive and not is_waiting() and time.monotonic() < limit_s:
        time.sleep(_POLL_INTERVAL_S)
    if query.isActive:
        return RehearsalOutcome(has_run=batches.done >= _ENOUGH_BATCHES)
    exception = query._jsq.exception()
    if exception.isEmpty():
        return RehearsalOutcome(has_run=True)
    return RehearsalOutcome(failure=str(exception.get().toString()))


@contextlib.contextmanager
def _running(
    frame: DataFrame, mode: str, checkpoint_uri: str, batches: _Batches
) -> Iterator[tuple[StreamingQuery, Callable[[], bool]]]:
    """Run a query; the second value closes its gate, and tells whether it waits there, between two batches."""
    writer = frame.writeStream.outputMode(mode).foreachBatch(batches.discard)
    context, gate = frame.sparkSession.sparkContext, jvm.Gate(frame.sparkSession)

    def is_waiting() -> bool:
        gate.close(checkpoint_uri)
        return gate.is_waiting(checkpoint_uri)

    gate.register(checkpoint_uri, last_offsets=-1, last_committed=-1)
    # Only the tasks of this query know that they rehearse, and not those of queries that are started afterwards.
    context.setLocalProperty(rehearsing.PROPERTY, rehearsing.VALUE)
    try:
        query = writer.option("checkpointLocation", checkpoint_uri).trigger(availableNow=True).start()
    finally:
        context.setLocalProperty(rehearsing.PROPERTY, None)  # type: ignore[arg-type]  # None removes it
    try:
        yield query, is_waiting
    finally:
        query.stop()
        gate.unregister(checkpoint_uri)


def _consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    return iter(())


def _sample_sources(frame: DataFrame, folder_uri: str) -> tuple[DataFrame, bool]:
    """Return the query with every source replaced by a stream of a few rows, and whether each has rows of its own."""
    spark = frame.sparkSession
    leaves = replacing.sources(frame)
    samples = [_sample(spark, leaf) for leaf in leaves]
    streams = []
    for number, (leaf, sample) in enumerate(zip(leaves, samples, strict=True)):
        rows = spark.createDataFrame([], replacing.schema_of(leaf)) if sample is None else sample
        sample_uri = f"{folder_uri}/source-{number}"
        rows.limit(SAMPLE_ROWS).coalesce(1).write.parquet(sample_uri)
        streams.append(spark.readStream.schema(rows.schema).parquet(sample_uri))
    return replacing.replace_sources(frame, streams), None not in samples


def _sample(spark: SparkSession, leaf: JavaObject) -> DataFrame | None:
    """Return the rows of a source in a batch; None if it is none that a batch can read."""
    is_file = str(leaf.getClass().getSimpleName()) == "StreamingRelation"
    if is_file:
        pairs = leaf.dataSource().options().toSeq()
        settings = {str(pairs.apply(index)._1()): str(pairs.apply(index)._2()) for index in range(pairs.size())}
    else:
        extra = leaf.extraOptions()
        settings = {str(key): str(extra.get(key)) for key in extra.asCaseSensitiveMap().keySet().toArray()}
    options = {key: value for key, value in settings.items() if not key.lower().startswith(_POSITIONS)}
    name = str(leaf.dataSource().className() if is_file else leaf.sourceName()).lower()
    if name in _COUNTING:
        return spark.range(SAMPLE_ROWS).selectExpr("current_timestamp() AS timestamp", "id AS value")
    if name not in _READABLE:
        return None
    schema = replacing.schema_of(leaf)
    reader = spark.read.format(name).options(**options)
    sample = reader.schema(schema).load() if name in _FILE_FORMATS else reader.load()
    names = [field.name for field in schema.fields]
    return sample.select(*names) if set(names) <= set(sample.columns) else None
