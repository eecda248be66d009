"""What a function counts has names that Prometheus takes, and values that mean one thing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import statefulspark as ss
from statefulspark import errors
from statefulspark.state import functionmetrics
from statefulspark.state.functionmetrics import MetricKind
from statefulspark.testing import KeyedHarness


class Orders(ss.KeyedProcessFunction):
    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> None:
        ctx.metrics.counter("orders").inc(len(rows))
        ctx.metrics.gauge("largest").set(max(row.amount for row in rows))
        if key == "bad":
            raise ValueError("refused")


def test_a_counter_adds_up_and_a_gauge_has_its_newest_value() -> None:
    metrics = functionmetrics.FunctionMetrics()

    for amount in (1, 2.5):
        metrics.counter("orders").inc(amount)
        metrics.gauge("largest").set(amount)
    metrics.gauge("never_set")

    assert list(functionmetrics.values(metrics)) == [
        (MetricKind.COUNTER, "orders", 3.5),
        (MetricKind.GAUGE, "largest", 2.5),
    ]


@pytest.mark.parametrize("name", ["", "Orders", "1st", "late-orders", "a" * 81, "orders_total", "a\n"])
def test_a_name_that_prometheus_would_not_take_is_refused(name: str) -> None:
    metrics = functionmetrics.FunctionMetrics()

    for method in (metrics.counter, metrics.gauge):
        with pytest.raises(errors.InvalidArgumentError, match="MetricInvalid"):
            method(name)


@pytest.mark.parametrize(("first", "second"), [("counter", "gauge"), ("gauge", "counter")])
def test_a_counter_and_a_gauge_of_one_name_are_refused_by_name(first: str, second: str) -> None:
    metrics = functionmetrics.FunctionMetrics()
    getattr(metrics, first)("orders")

    with pytest.raises(errors.InvalidArgumentError, match=f"The metric 'orders' of this function is a {first} already"):
        getattr(metrics, second)("orders")
    assert getattr(metrics, first)("orders") is getattr(metrics, first)("orders")


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf])
def test_a_counter_only_rises(amount: float) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="use a gauge"):
        functionmetrics.FunctionMetrics().counter("orders").inc(amount)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_gauge_that_is_no_finite_number_has_no_value(value: float) -> None:
    metrics = functionmetrics.FunctionMetrics()

    metrics.gauge("mean").set(value)

    assert list(functionmetrics.values(metrics)) == []


def test_values_are_plain_numbers_for_the_way_to_the_driver() -> None:
    metrics = functionmetrics.FunctionMetrics()

    metrics.counter("orders").inc(np.int64(2))  # type: ignore[arg-type]  # as of a table
    metrics.gauge("largest").set(np.float64(2.5))

    assert [type(value) for _, _, value in functionmetrics.values(metrics)] == [float, float]


def test_a_gauge_takes_numbers_only() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        functionmetrics.FunctionMetrics().gauge("largest").set("much")  # type: ignore[arg-type]


def test_a_test_of_a_function_sees_what_it_counts_and_nothing_of_a_batch_that_failed() -> None:
    harness = KeyedHarness(Orders(), key="customer")
    harness.feed({"customer": "ada", "amount": 2}, {"customer": "bob", "amount": 5})
    harness.feed({"customer": "ada", "amount": 3})
    with pytest.raises(ValueError, match="refused"):
        harness.feed({"customer": "bad", "amount": 9})

    assert harness.metrics == {"orders": 3, "largest": 3}
