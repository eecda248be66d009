"""Kafka to Kafka, each record exactly once: orders that are far above what their customer usually spends.

    statefulspark run examples/kafka/large_orders.py --dev --parameter brokers=localhost:9092

Reads JSON like `{"id": 1, "customer": "ada", "amount": 12.5}` from `orders`, writes to `large-orders`; both topics exist.
A batch is one transaction, committed when a checkpoint covers it: readers set `isolation.level=read_committed` and see no
order twice, whatever is killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession, functions

job = ss.Job("large-orders")
FACTOR, ORDERS_BEFORE_JUDGING = 3, 3


class Spent(NamedTuple):
    """What a customer has spent so far."""

    orders: int
    total: float


class FarAboveTheMean(ss.KeyedProcessFunction):
    """Lets an order pass that is three times the mean of those before it."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: number and sum of a customer's orders."""
        self.spent = ctx.value_state("spent", Spent)

    def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[str, str]]:
        """Judge each order by those before it, then count it."""
        for row in rows:
            before = self.spent.get() or Spent(0, 0.0)
            if before.orders >= ORDERS_BEFORE_JUDGING and row.amount > FACTOR * before.total / before.orders:
                yield key, json.dumps({"id": row.id, "customer": key, "amount": row.amount})
            self.spent.update(Spent(before.orders + 1, before.total + row.amount))


def large_of(orders: DataFrame) -> DataFrame:
    """Return large orders as records, from a stream of `id bigint, customer string, amount double`."""
    return ss.keyed_process(
        orders, key="customer", function=FarAboveTheMean(), uid="spent", schema="key string, value string"
    )


@job.query(uid="large")
def large(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """From one topic into the other."""
    brokers = ctx.parameter("brokers")
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    reader = reader.option("subscribe", ctx.parameter("from", "orders")).option("startingOffsets", "earliest")
    order = functions.from_json(functions.col("value").cast("string"), "id bigint, customer string, amount double")
    orders = reader.load().select(order.alias("order")).select("order.*")
    sink = ss.sinks.KafkaSink(ctx.parameter("to", "large-orders"), bootstrap_servers=brokers)
    return ss.write(large_of(orders), sink=sink, uid="kafka")


if __name__ == "__main__":
    job.run()
