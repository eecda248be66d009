"""Mean, spread and extremes of the delays at each airport: a function over whole tables, on real flights.

    python examples/flights/prepare.py file:///tmp/flights --allow-local-files
    statefulspark run examples/flights/delay_statistics.py --dev --parameter input=file:///tmp/flights

Arrow aggregates the rows of a batch and the states take a column with one value per airport: no Python runs for a row, nor
for an airport. Airports are numbered, because sums by an integer key stay arrays, in memory and in storage. A spread
needs no list of delays: number, sum and sum of squares give it.
"""

from __future__ import annotations

import operator

import pyarrow as pa
import pyarrow.compute as pc
import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("delay-statistics")
STATISTICS = "airport bigint, flights bigint, mean double, deviation double, earliest bigint, latest bigint"


class Statistics(ss.VectorizedProcessFunction):
    """Keeps five numbers for each airport, and derives the rest."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the states; each is one sorted array in memory and in storage."""
        self.flights = ctx.reducing_state("flights", operator.add, int)
        self.sum = ctx.reducing_state("sum", operator.add, int)
        self.squares = ctx.reducing_state("squares", operator.add, int)
        self.earliest = ctx.reducing_state("earliest", min, int)
        self.latest = ctx.reducing_state("latest", max, int)

    def process_table(self, rows: pa.Table, ctx: ss.KeyedContext) -> pa.Table:
        """Fold the delays of a batch into the states of their airports, and return the airports that changed."""
        rows = rows.append_column("square", pc.multiply(rows["delay"], rows["delay"]))
        batch = rows.group_by("airport").aggregate(
            [("delay", "count"), ("delay", "sum"), ("square", "sum"), ("delay", "min"), ("delay", "max")]
        )
        airports = batch["airport"]
        flights = self.flights.add_many(airports, batch["delay_count"])
        total = self.sum.add_many(airports, batch["delay_sum"])
        squares = self.squares.add_many(airports, batch["square_sum"])
        mean = pc.divide(pc.cast(total, pa.float64()), flights)
        variance = pc.subtract(pc.divide(pc.cast(squares, pa.float64()), flights), pc.multiply(mean, mean))
        columns = {
            "airport": airports,
            "flights": flights,
            "mean": mean,
            "deviation": pc.sqrt(pc.max_element_wise(variance, 0.0)),  # rounding may take it below zero
            "earliest": self.earliest.add_many(airports, batch["delay_min"]),
            "latest": self.latest.add_many(airports, batch["delay_max"]),
        }
        return pa.table(columns)


def statistics_of(delays: DataFrame) -> DataFrame:
    """Return the statistics of a stream of `airport bigint, delay bigint`; no column has nulls."""
    return ss.keyed_process(delays, key="airport", function=Statistics(), uid="statistics", schema=STATISTICS)


@job.query(uid="statistics")
def statistics(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Arrivals by airport; its three letters are read as a number to the base of 36, and shown as letters again."""
    flights = spark.readStream.schema(
        "flight_id bigint, year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
        "sched_arr_time int, arr_delay bigint, carrier string, flight int, tailnum string, origin string, dest string"
    ).options(header="true", nullValue="NA", maxFilesPerTrigger=ctx.parameter("files_per_batch", 10))
    arrived = flights.csv(ctx.parameter("input")).where("arr_delay IS NOT NULL")
    delays = arrived.selectExpr("CAST(conv(dest, 36, 10) AS bigint) AS airport", "arr_delay AS delay")
    named = statistics_of(delays).selectExpr("conv(airport, 10, 36) AS dest", "* EXCEPT (airport)")
    return named.writeStream.outputMode("update").format("console").trigger(processingTime="2 seconds")


if __name__ == "__main__":
    job.run()
