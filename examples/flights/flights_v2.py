"""Version 2 of the flights job: the carriers' rows gain `delayed_share` and `job_version`.

    statefulspark run examples/flights/flights_v2.py --dev \
        --parameter input=file:///tmp/flights --parameter output=file:///tmp/flights-out

The new column is computed from totals that version 1 already kept. The uids are those of version 1, so the state goes
on where it was: no flight is counted again and none is missing. `diff flights.py flights_v2.py` shows the change.

Two queries in one job, each with keyed state:

- `aircraft` writes one row per flight, with what the aircraft had been through by then. A flight that is lost or
  handled twice by any crash shows in it, since `flights` counts on from state.
- `carriers` writes one row per carrier and batch, its totals so far; the latest row counts.

Rows of one batch come in no particular order, so each function sorts its key's rows by `flight_id` first. Flights
without a tail number (all of them cancelled) share the key `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession

job = ss.Job("flights")

COLUMNS = """
    flight_id BIGINT, year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,
    sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    air_time INT, distance INT, hour INT, minute INT, time_hour STRING
"""
DELAYED_MIN = 15
"""A departure counts as delayed from more than this many minutes, as the US authorities count."""

JOB_VERSION = 2


class AircraftLogbook(ss.KeyedProcessFunction):
    """Numbers an aircraft's flights and carries its delays along."""

    schema = """
        flight_id BIGINT, tailnum STRING, flights BIGINT, cancelled BIGINT, previous_arr_delay INT,
        total_dep_delay BIGINT
    """

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: flights, cancelled flights, last known arrival delay, sum of departure delays."""
        self.logbook = ctx.value_state("logbook")

    def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[object, ...]]:
        """Yield one row per flight; a cancelled flight has no delays and leaves them as they were."""
        flights, cancelled, arr_delay, total_dep_delay = self.logbook.get() or (0, 0, None, 0)
        for row in sorted(rows, key=lambda row: row.flight_id):
            flights += 1
            cancelled += row.dep_delay is None
            total_dep_delay += row.dep_delay or 0
            yield row.flight_id, key, flights, cancelled, arr_delay, total_dep_delay
            arr_delay = arr_delay if row.arr_delay is None else row.arr_delay
        self.logbook.update((flights, cancelled, arr_delay, total_dep_delay))


class CarrierScore(ss.KeyedProcessFunction):
    """Keeps a carrier's totals."""

    schema = """
        carrier STRING, last_flight_id BIGINT, flights BIGINT, cancelled BIGINT, delayed BIGINT, total_dep_delay BIGINT,
        mean_dep_delay DOUBLE, worst_dep_delay INT, delayed_share DOUBLE, job_version INT
    """

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: flights, cancelled, delayed, sum of departure delays, worst departure delay."""
        self.score = ctx.value_state("score")

    def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[object, ...]]:
        """Yield the carrier's totals after its last flight of the batch."""
        flights, cancelled, delayed, total, worst = self.score.get() or (0, 0, 0, 0, None)
        last_flight_id = 0
        for row in sorted(rows, key=lambda row: row.flight_id):
            last_flight_id = row.flight_id
            flights += 1
            if row.dep_delay is None:
                cancelled += 1
                continue
            delayed += row.dep_delay > DELAYED_MIN
            total += row.dep_delay
            worst = row.dep_delay if worst is None else max(worst, row.dep_delay)
        self.score.update((flights, cancelled, delayed, total, worst))
        departed = flights - cancelled
        mean = total / departed if departed else None
        delayed_share = delayed / departed if departed else None
        yield key, last_flight_id, flights, cancelled, delayed, total, mean, worst, delayed_share, JOB_VERSION


def read_flights(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    """Stream the daily files in order, a few per batch."""
    return (
        spark.readStream.schema(COLUMNS)
        .options(header="true", nullValue="NA", maxFilesPerTrigger=ctx.parameter("files_per_batch", 4))
        .csv(ctx.parameter("input"))
        .na.fill({"tailnum": "UNKNOWN"})
    )


@job.query(uid="aircraft")
def aircraft(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """One row per flight."""
    flights = read_flights(spark, ctx).select("flight_id", "tailnum", "dep_delay", "arr_delay")
    logbook = ss.keyed_process(
        flights, key="tailnum", function=AircraftLogbook(), uid="aircraft-logbook", schema=AircraftLogbook.schema
    )
    return ss.write(
        logbook,
        sink=ss.sinks.FilesSink(ctx.parameter("output") + "/aircraft"),
        uid="aircraft-out",
        trigger=ctx.parameter("trigger", "0s"),
    )


@job.query(uid="carriers")
def carriers(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """One row per carrier and batch."""
    flights = read_flights(spark, ctx).select("flight_id", "carrier", "dep_delay")
    score = ss.keyed_process(
        flights, key="carrier", function=CarrierScore(), uid="carrier-score", schema=CarrierScore.schema
    )
    return ss.write(
        score,
        sink=ss.sinks.FilesSink(ctx.parameter("output") + "/carriers"),
        uid="carriers-out",
        trigger=ctx.parameter("trigger", "0s"),
    )


if __name__ == "__main__":
    job.run()
