"""Orders from Kafka, totals by customer into PostgreSQL and a copy of every order into Iceberg, each exactly once.

    statefulspark run examples/sinks/totals.py --dev --parameter brokers=localhost:9092 --parameter catalog=http://localhost:8181

Settings come from parameters, credentials from the environment: PG_DSN on the driver, CATALOG_TOKEN on the driver and the
executors.
"""

from dataclasses import dataclass

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession, functions

job = ss.Job("orders")


@job.parameters
@dataclass(frozen=True)
class Parameters:
    """Where Kafka and the catalog are."""

    brokers: str
    catalog: str
    topic: str = "orders"


def orders(spark: SparkSession, ctx: ss.QueryContext[Parameters], *, group: str) -> DataFrame:
    """Read the topic; the group is for lag monitors alone."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", ctx.parameters.brokers)
    reader = reader.option("subscribe", ctx.parameters.topic).option("startingOffsets", "earliest")
    rows = reader.option("statefulspark.publish.offsets.group", group).load()
    fields = functions.from_json(functions.col("value").cast("string"), "id bigint, customer string, amount double")
    return rows.select(fields.alias("order")).select("order.*")


@job.query(uid="totals")
def totals(spark: SparkSession, ctx: ss.QueryContext[Parameters]) -> ss.Output:
    """Keep one row per customer up to date."""
    sums = orders(spark, ctx, group="orders-totals").groupBy("customer").agg(functions.sum("amount").alias("total"))
    sink = ss.sinks.PostgresSink("totals", dsn=ss.Secret.env("PG_DSN"), upsert_by="customer")
    return ss.write(sums, sink=sink, uid="postgres", output_mode="update")


@job.query(uid="archive")
def archive(spark: SparkSession, ctx: ss.QueryContext[Parameters]) -> ss.Output:
    """Keep every order."""
    sink = ss.sinks.IcebergSink(
        "shop.orders",
        catalog={"type": "rest", "uri": ctx.parameters.catalog, "token": ss.Secret.env("CATALOG_TOKEN")},
    )
    return ss.write(orders(spark, ctx, group="orders-archive"), sink=sink, uid="iceberg")


job.run()
