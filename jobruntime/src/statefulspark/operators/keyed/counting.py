"""The way of a function's metrics from the tasks to the driver: an accumulator of Spark.

Spark adds a task's part once: for the last stage of a batch, a second attempt of a task that has ended well is left out, and
what failed does not count. A batch that runs again, because the driver or the query was restarted before its commit, counts
again. Workers that Spark trusts send the values on Spark's own channel.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext

from statefulspark.state import functionmetrics
from statefulspark.state.functionmetrics import MetricKind

_log = logging.getLogger(__name__)


class CountedSeries(NamedTuple):
    """One value of a function.

    Attributes:
        query: Uid of the query.
        operator: Uid of the operator.
        name: Name of the metric.
        kind: What the value means.
        partition: The partition of the state that has the gauge; None for a counter, which is added up.
    """

    query: str
    operator: str
    name: str
    kind: MetricKind
    partition: int | None


Values = Mapping[CountedSeries, float]


class _Sums(AccumulatorParam[Values]):
    """Adds counters up, and keeps the newest value of gauges."""

    def zero(self, value: Values) -> Values:
        """Return no values."""
        return {}

    def addInPlace(self, value1: Values, value2: Values) -> Values:  # noqa: N802 - Spark's name
        """Return the values with those of a task; other threads may read the ones before."""
        merged = dict(value1)
        for series, value in value2.items():
            if series in merged:
                merged[series] = value + (merged[series] if series.kind is MetricKind.COUNTER else 0)
            elif len(merged) < functionmetrics.MOST_SERIES:
                merged[series] = value
            else:
                _log.debug("a metric of a function is left out, because the job has too many", extra=series._asdict())
        return merged


_accumulators: weakref.WeakKeyDictionary[SparkContext, Accumulator[Values]] = weakref.WeakKeyDictionary()


def accumulator(context: SparkContext) -> Accumulator[Values]:
    """Return the accumulator of all functions of a session."""
    if context not in _accumulators:
        _accumulators[context] = context.accumulator({}, _Sums())
    return _accumulators[context]


def send(to: Accumulator[Values], metrics: functionmetrics.FunctionMetrics, *, query: str, operator: str) -> None:
    """Add the values of the task that is about to end."""
    task = TaskContext.get()
    partition = task.partitionId() if task is not None else 0
    values = {
        CountedSeries(query, operator, name, kind, partition if kind is MetricKind.GAUGE else None): value
        for kind, name, value in functionmetrics.values(metrics)
    }
    if values:
        to.add(values)


def series_of(query: str) -> Iterator[tuple[CountedSeries, float]]:
    """Yield the values of a query's functions, in the order of their names."""
    for each in list(_accumulators.values()):
        yield from sorted(
            ((series, value) for series, value in each.value.items() if series.query == query),
            key=lambda one: (one[0].operator, one[0].name, one[0].kind, one[0].partition or 0),
        )
