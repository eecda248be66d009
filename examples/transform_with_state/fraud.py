# ruff: noqa: N802, N803 - processors have Spark's names
"""Payments of a card that look stolen: a processor written for Spark, run as it is on state that survives everything.

    statefulspark run examples/transform_with_state/fraud.py --dev

A card that pays a small amount and within a minute a large one is reported. The processor has a value that remembers the
small payment, a timer that forgets it, a list of the last places and a map of amounts by place. On plain Spark the last
line of `alerts_of` would be `payments.groupBy("card").transformWithState(Fraud(), ALERTS, "Append", "EventTime")`.
"""

from __future__ import annotations

from collections.abc import Iterator

import statefulspark as ss
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

job = ss.Job("fraud")
SMALL, LARGE, MINUTE_MS = 1.0, 500.0, 60_000
ALERTS = "card string, amount double, place string, spent double, places array<string>"


class Fraud(StatefulProcessor):
    """Reports a large payment within a minute of event time after a small one."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the states."""
        self.handle = handle
        self.probed = handle.getValueState("probed", "until_ms bigint")
        self.places = handle.getListState("places", "place string")
        self.spent = handle.getMapState("spent", "place string", "amount double")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Look at the payments of a card, by their time."""
        for row in sorted(rows, key=lambda row: row.time):
            at_ms = int(row.time.timestamp() * 1000)
            before = self.spent.getValue((row.place,))
            self.spent.updateValue((row.place,), ((before[0] if before else 0.0) + row.amount,))
            self.places.put([*self.places.get(), (row.place,)][-3:])
            until = self.probed.get()
            if until is not None and row.amount >= LARGE and at_ms <= until[0]:
                total = sum(amount for (amount,) in self.spent.values())
                places = [place for (place,) in self.places.get()]
                yield Row(card=key[0], amount=row.amount, place=row.place, spent=total, places=places)
            if row.amount <= SMALL:
                self.probed.update((at_ms + MINUTE_MS,))
                self.handle.registerTimer(at_ms + MINUTE_MS)

    def handleExpiredTimer(
        self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Forget a small payment, unless another one came after it."""
        until = self.probed.get()
        if until is not None and until[0] <= expiredTimerInfo.getExpiryTimeInMs():
            self.probed.clear()
        return iter([])

    def close(self) -> None:
        """Nothing to release."""


def alerts_of(payments: DataFrame) -> DataFrame:
    """Return the alerts of a stream of `card string, amount double, place string, time timestamp`."""
    cards = payments.withWatermark("time", "10 seconds").groupBy("card")
    return ss.compat.transform_with_state(cards, Fraud(), ALERTS, "Append", "EventTime", uid="fraud")


@job.query(uid="alerts")
def alerts(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Payments made of Spark's own rate source, alerts shown on the console."""
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", 50)).load()
    payments = numbers.selectExpr(
        "concat('card-', value % 40) AS card",
        "CASE WHEN value % 7 = 0 THEN 0.5D WHEN value % 23 = 0 THEN 900.0D ELSE 20.0D END AS amount",
        "concat('place-', value % 3) AS place",
        "timestamp AS time",
    )
    return alerts_of(payments).writeStream.outputMode("append").format("console").trigger(processingTime="5 seconds")


if __name__ == "__main__":
    job.run()
