"""Cards that pay in three countries within an hour: a pattern over map state, with entries that expire.

    statefulspark run examples/keyed/card_fraud.py --dev

The map of a card has the moment of its latest payment in each country. Entries live for an hour after they were written, so
that the state of a card that rests is gone without a timer.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("card-fraud")
WINDOW = datetime.timedelta(hours=1)
COUNTRIES = 3


class TooManyCountries(ss.KeyedProcessFunction):
    """Reports a payment that makes it three countries within the hour before it."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: a moment for each country."""
        lives = ss.Ttl("1h")
        self.latest = ctx.map_state("latest", str, datetime.datetime, ttl=lives)

    def process(
        self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext
    ) -> Iterator[tuple[str, datetime.datetime, list[str]]]:
        """Take the payments of a card, in order."""
        for row in rows:
            self.latest.put(row.country, row.time)
            recent = sorted(country for country, time in self.latest.items() if row.time - time < WINDOW)
            if len(recent) >= COUNTRIES:
                yield key, row.time, recent


def alerts_of(payments: DataFrame) -> DataFrame:
    """Return the alerts of a stream of `card string, country string, time timestamp`."""
    return ss.keyed_process(
        payments,
        key="card",
        function=TooManyCountries(),
        uid="countries",
        schema="card string, time timestamp, countries array<string>",
    )


@job.query(uid="alerts")
def alerts(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Payments made up from Spark's rate source: most cards stay in one country, and card 7 travels."""
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", 20)).load()
    payments = numbers.selectExpr(
        "concat('card-', value % 10) AS card",
        "IF(value % 10 = 7, element_at(array('AT', 'CH', 'DE', 'FR'), int(value / 10 % 4) + 1), 'DE') AS country",
        "timestamp AS time",
    )
    return alerts_of(payments).writeStream.outputMode("update").format("console").trigger(processingTime="5 seconds")


if __name__ == "__main__":
    job.run()
