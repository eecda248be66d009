"""Deduplicate and enrich: a feed that repeats flights, each let through once and with the name of its airline.

    python examples/flights/prepare.py file:///tmp/flights --allow-local-files
    statefulspark run examples/flights/first_arrivals.py --dev --parameter input=file:///tmp/flights

The feed is made to repeat every tenth flight. A flight is remembered for two days, then its state is gone. The names
come from a table that is read once, at the start: a change of it is a new version of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("first-arrivals")
AIRLINES = (
    ("9E", "Endeavor Air"),
    ("AA", "American Airlines"),
    ("AS", "Alaska Airlines"),
    ("B6", "JetBlue Airways"),
    ("DL", "Delta Air Lines"),
    ("EV", "ExpressJet Airlines"),
    ("F9", "Frontier Airlines"),
    ("FL", "AirTran Airways"),
    ("HA", "Hawaiian Airlines"),
    ("MQ", "Envoy Air"),
    ("OO", "SkyWest Airlines"),
    ("UA", "United Air Lines"),
    ("US", "US Airways"),
    ("VX", "Virgin America"),
    ("WN", "Southwest Airlines"),
    ("YV", "Mesa Airlines"),
)


class FirstOnly(ss.KeyedProcessFunction):
    """Lets the first row of a flight pass, and nothing that comes again."""

    _SEEN = True

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: whether the flight has been seen, for two days."""
        self.seen = ctx.value_state("seen", bool, ttl=ss.Ttl("2d"))

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, str, str]]:
        """Take the rows of one flight; usually there is one."""
        if self.seen.get() is None:
            self.seen.update(self._SEEN)
            yield key, rows[0].carrier, rows[0].dest


def first_of(flights: DataFrame) -> DataFrame:
    """Return each flight once, from a stream of `flight_id bigint, carrier string, dest string`."""
    return ss.keyed_process(
        flights,
        key="flight_id",
        function=FirstOnly(),
        uid="seen",
        schema="flight_id bigint, carrier string, dest string",
    )


@job.query(uid="arrivals")
def arrivals(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Flights by airline and destination, enriched, in order of their files."""
    columns = (
        "flight_id bigint, year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
        "sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string, dest string"
    )
    reader = spark.readStream.schema(columns).options(
        header="true", maxFilesPerTrigger=ctx.parameter("files_per_batch", 10)
    )
    feed = reader.csv(ctx.parameter("input")).selectExpr(
        "explode(array_repeat(flight_id, IF(flight_id % 10 = 0, 2, 1))) AS flight_id", "carrier", "dest"
    )
    names = spark.createDataFrame(AIRLINES, "carrier string, airline string")
    enriched = first_of(feed).join(names, "carrier", "left").select("flight_id", "airline", "dest")
    return enriched.writeStream.outputMode("append").format("console").trigger(processingTime="2 seconds")


if __name__ == "__main__":
    job.run()
