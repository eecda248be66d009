"""What a function counts arrives at the driver: once for each task that ends well, and nothing of one that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import statefulspark as ss
from pyspark.sql import DataFrame
from statefulspark.operators.keyed import counting
from statefulspark.state import functionmetrics
from statefulspark.state.functionmetrics import MetricKind
from statefulspark.testing import QueryHarness
from statefulspark.testing.failures import JobTestError

pytestmark = pytest.mark.spark


class Orders(ss.KeyedProcessFunction):
    def open(self, ctx: ss.KeyedContext) -> None:
        self.orders = ctx.metrics.counter("orders")
        self.keys = ctx.metrics.gauge("rows_of_a_key")

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[object, int]]:
        self.orders.inc(len(rows))
        self.keys.set(len(rows))
        if key == "bad":
            raise ValueError("refused")
        yield key, len(rows)


def orders(rows: DataFrame) -> DataFrame:
    return ss.keyed_process(rows, key="k", function=Orders(), uid="counted-orders", schema="k string, n int")


def counted() -> dict[str, float]:
    values = counting.series_of("query")
    return {series.name: value for series, value in values if series.operator == "counted-orders"}


def test_values_of_all_tasks_arrive_once_and_those_of_a_failed_task_do_not(
    query_harness: Callable[..., QueryHarness],
) -> None:
    query = query_harness(orders, "k string")
    query.feed(*({"k": f"k{number % 7}"} for number in range(70)))
    query.feed({"k": "k1"})
    assert counted()["orders"] == 71
    assert counted()["rows_of_a_key"] in (1, 10)

    with pytest.raises(JobTestError):
        query.feed({"k": "bad"})

    assert counted()["orders"] == 71


def test_a_batch_that_runs_again_counts_again(query_harness: Callable[..., QueryHarness]) -> None:
    query = query_harness(orders, "k string")
    query.feed({"k": "k1"})
    before = counted()["orders"]

    query.add({"k": "k1"}, {"k": "k2"})
    query.run(kill="before-commit")
    query.restart()
    query.run()

    assert counted()["orders"] == before + 4


def test_series_beyond_the_limit_are_left_out_and_those_that_exist_go_on() -> None:
    sums = counting._Sums()

    def a_series(number: int) -> counting.CountedSeries:
        return counting.CountedSeries("query", "operator", f"n{number}", MetricKind.COUNTER, None)

    full = sums.addInPlace({}, {a_series(number): 1.0 for number in range(functionmetrics.MOST_SERIES + 5)})
    after = sums.addInPlace(full, {a_series(0): 2.0, a_series(functionmetrics.MOST_SERIES + 9): 1.0})

    assert len(full) == len(after) == functionmetrics.MOST_SERIES
    assert after[a_series(0)] == 3.0
    assert full[a_series(0)] == 1.0
