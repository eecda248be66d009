"""The ledger of `e2e/load/jobs/ledger.py` as plain PySpark: the same events, keys, periods, windows and files.

    spark-submit --properties-file spark-defaults.conf ledger.py --brokers … --checkpoints s3a://…

Its four queries:

- `ledger`: a row for every event and for every period that ends, from transformWithState, by Spark's Kafka sink;
- `windows`: sums by key and window, appended to a table by foreachBatch;
- `replaced`: the same by the careful form: what an earlier try of the batch has left is deleted in the same transaction;
- `confirmed`: events joined with their confirmations, by Spark's file sink.

State with a time to live is not here, since Spark has none beside timers in event time; nor are Iceberg and sources
with state.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

import psycopg
from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

PERIOD_MS = 5_000
LATEST = 3
EVENT = "number BIGINT, key STRING, sequence BIGINT, at_ms BIGINT, amount BIGINT, kind STRING"
ROW = """
    row STRING, key STRING, sequence BIGINT, number BIGINT, balance BIGINT, largest BIGINT, of_kind BIGINT,
    latest ARRAY<BIGINT>, due_ms BIGINT, fired BIGINT, in_period BIGINT
"""
DELAY = "10 seconds"
NAMES = [column.split()[0] for column in ROW.split(",")]
NONE_YET = (0, 0, None, 0)


class Ledger(StatefulProcessor):
    """Keeps the account of a key, and closes its periods."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare a state of each kind."""
        self.handle = handle
        self.totals = handle.getValueState("totals", "sequence BIGINT, balance BIGINT, largest BIGINT, fired BIGINT")
        self.latest = handle.getListState("latest", "amount BIGINT")
        self.kinds = handle.getMapState("kinds", "kind STRING", "count BIGINT")
        self.periods = handle.getMapState("periods", "due_ms BIGINT", "count BIGINT")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803 - Spark's name
    ) -> Iterator[Row]:
        """Yield a row for every event that is no copy; rows of a batch come in no particular order."""
        sequence, balance, largest, fired = self.totals.get() or NONE_YET
        latest = [amount for (amount,) in self.latest.get()] if self.latest.exists() else []
        for row in sorted(rows, key=lambda row: row.sequence):
            if row.sequence <= sequence:
                continue
            sequence, balance = row.sequence, balance + row.amount
            largest = row.amount if largest is None else max(largest, row.amount)
            latest = [*latest, row.amount][-LATEST:]
            of_kind = add_one(self.kinds, row.kind)
            due_ms = (row.at_ms // PERIOD_MS + 1) * PERIOD_MS
            if add_one(self.periods, due_ms) == 1:
                self.handle.registerTimer(due_ms)
            account = (balance, largest, of_kind, latest)
            yield event_row("event", key[0], sequence, row.number, *account, None, None, None)
        self.totals.update((sequence, balance, largest, fired))
        self.latest.put([(amount,) for amount in latest])

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: tuple[str],
        timerValues: TimerValues,  # noqa: N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803 - Spark's name
    ) -> Iterator[Row]:
        """Yield how many events a period had that is over."""
        due_ms = expiredTimerInfo.getExpiryTimeInMs()
        sequence, balance, largest, fired = self.totals.get() or NONE_YET
        self.totals.update((sequence, balance, largest, fired + 1))
        (count,) = self.periods.getValue((due_ms,)) or (None,)
        self.periods.removeKey((due_ms,))
        yield event_row("period", key[0], *(None,) * 6, due_ms, fired + 1, count)

    def close(self) -> None:
        """Nothing is held."""


def event_row(*values: object) -> Row:
    """Return a row of the ledger's schema."""
    return Row(**dict(zip(NAMES, values, strict=True)))


def add_one(counts: Any, key: object) -> int:  # noqa: ANN401 - a map state of either kind
    """Count one more in a map state, and return the count."""
    (before,) = counts.getValue((key,)) or (0,)
    counts.updateValue((key,), (before + 1,))
    return int(before) + 1


def read_events(spark: SparkSession, chosen: argparse.Namespace) -> DataFrame:
    """Stream the events, of a second topic too if there is one, with their time as the watermark's column."""
    rows = read_topic(spark, chosen, chosen.events)
    if chosen.more:
        rows = rows.union(read_topic(spark, chosen, chosen.more))
    event = functions.from_json(functions.col("value").cast("string"), EVENT)
    timed = rows.select(event.alias("event")).select("event.*")
    return timed.withColumn("time", functions.timestamp_millis("at_ms")).withWatermark("time", DELAY)


def read_topic(spark: SparkSession, chosen: argparse.Namespace, topic: str) -> DataFrame:
    """Stream a topic from its beginning."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", chosen.brokers)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def ledger(spark: SparkSession, chosen: argparse.Namespace) -> None:
    """A row for every event and every period, into Kafka."""
    rows = read_events(spark, chosen).groupBy("key").transformWithState(Ledger(), ROW, "Update", "EventTime")
    records = rows.select("key", functions.to_json(functions.struct("*")).alias("value"))
    kafka = records.writeStream.format("kafka").option("kafka.bootstrap.servers", chosen.brokers)
    start(kafka.option("topic", chosen.rows).outputMode("update"), "ledger", chosen)


def windows(spark: SparkSession, chosen: argparse.Namespace) -> DataFrame:
    """Events without copies by key and window; a later version of the job has the largest amount, too."""
    once = read_events(spark, chosen).dropDuplicatesWithinWatermark(["number"])
    sums = [functions.count("*").alias("events"), functions.sum("amount").alias("total")]
    if chosen.aggregate:
        sums.append(functions.max("amount").alias("largest"))
    rows = once.groupBy(functions.window("time", "10 seconds"), "key").agg(*sums)
    more = ["largest"] if chosen.aggregate else []
    return rows.selectExpr("key", "unix_millis(window.start) AS begin_ms", "events", "total", *more)


def append(batch: DataFrame, batch_id: int) -> None:
    """Insert the rows of a batch, in one transaction."""
    rows = [tuple(row) for row in batch.collect()]
    with psycopg.connect(os.environ["LOAD_DSN"]) as connection, connection.cursor() as cursor:
        cursor.executemany(insert_into("windows", batch.columns), rows)


def replace(batch: DataFrame, batch_id: int) -> None:
    """Insert the rows of a batch in place of those that an earlier try of it has left, in one transaction."""
    rows = [(*row, batch_id) for row in batch.collect()]
    with psycopg.connect(os.environ["LOAD_DSN"]) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM replaced WHERE batch_id = %s", (batch_id,))
        cursor.executemany(insert_into("replaced", [*batch.columns, "batch_id"]), rows)


def insert_into(table: str, columns: list[str]) -> str:
    """Return the statement that inserts a row of these columns."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608 - our names


def confirmed(spark: SparkSession, chosen: argparse.Namespace) -> None:
    """Events with their confirmations, into files."""
    lines = spark.readStream.schema("number BIGINT, confirmed_ms BIGINT").json(chosen.confirmations)
    lines = lines.withColumn("confirmed", functions.timestamp_millis("confirmed_ms")).withWatermark("confirmed", DELAY)
    once = read_events(spark, chosen).dropDuplicatesWithinWatermark(["number"]).alias("event")
    near = functions.expr("""
        event.number = line.number AND confirmed >= time AND confirmed <= time + INTERVAL 5 SECONDS
    """)
    pairs = once.join(lines.alias("line"), near).selectExpr("event.number", "key", "sequence", "amount", "confirmed_ms")
    start(pairs.writeStream.format("parquet").option("path", chosen.output + "/confirmed"), "confirmed", chosen)


def start(writer: Any, name: str, chosen: argparse.Namespace) -> None:  # noqa: ANN401 - Spark's writer
    """Start a query, with a checkpoint location of its own."""
    folder = f"{chosen.checkpoints}/{name}"
    writer.queryName(name).option("checkpointLocation", folder).trigger(processingTime=chosen.trigger).start()


def main() -> None:
    """Start every query, and end with the first that fails; whoever started this process starts it again."""
    parser = argparse.ArgumentParser()
    for name in ("brokers", "events", "rows", "confirmations", "output", "checkpoints"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--more", help="a second topic of events")
    parser.add_argument("--aggregate", action="store_true", help="one more aggregate for each window")
    parser.add_argument("--trigger", default="1 second")
    chosen = parser.parse_args()
    spark = SparkSession.builder.appName("ledger").getOrCreate()
    ledger(spark, chosen)
    start(windows(spark, chosen).writeStream.foreachBatch(append), "windows", chosen)
    start(windows(spark, chosen).writeStream.foreachBatch(replace), "replaced", chosen)
    confirmed(spark, chosen)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
