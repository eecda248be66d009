"""A job that reads Kafka and writes to Kafka, PostgreSQL and Iceberg; it kills itself just before a sink commits.

Parameters: where everything is, and `kill`: the class of a sink whose first commit from batch 1 on is not lived to see.
"""

from __future__ import annotations

import os
import signal

import statefulspark as ss
from pyspark.sql import SparkSession
from statefulspark.driver.snapshots import kafka_offsets
from statefulspark.sinks.base import SinkContext, TwoPhaseSink
from statefulspark.sinks.iceberg.sink import IcebergMachine
from statefulspark.sinks.kafka.sink import KafkaMachine
from statefulspark.sinks.postgres.sink import PostgresMachine

job = ss.Job("sinks")


def die_before_a_commit(sink: str) -> None:
    """Let the process die between prepare and commit of a sink."""
    kinds: dict[str, type[TwoPhaseSink]] = {
        "KafkaSink": KafkaMachine,
        "PostgresSink": PostgresMachine,
        "IcebergSink": IcebergMachine,
    }
    for name, kind in kinds.items():
        if name != sink:
            continue
        commit = kind.commit

        def dying(self: TwoPhaseSink, transaction: bytes, context: SinkContext) -> None:
            if context.batch_id >= 1:
                os.kill(os.getpid(), signal.SIGKILL)
            commit(self, transaction, context)  # noqa: B023 - at most one is replaced

        kind.commit = dying  # type: ignore[method-assign]


def query(uid: str, sink: ss.sinks.KafkaSink | ss.sinks.PostgresSink | ss.sinks.IcebergSink, group: str = "") -> None:
    @job.query(uid=uid)
    def build(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
        die_before_a_commit(ctx.parameter("kill", ""))
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", os.environ["TEST_KAFKA"])
        reader = reader.option("subscribe", os.environ["TEST_INPUT"]).option("startingOffsets", "earliest")
        if group:
            reader = reader.option(kafka_offsets.GROUP_OPTION, group)
        rows = reader.option("maxOffsetsPerTrigger", "20").load()
        rows = rows.selectExpr(
            "CAST(CAST(value AS STRING) AS BIGINT) AS id", "concat('word ', CAST(value AS STRING)) AS word"
        )
        return ss.write(rows, sink=sink, uid="out", trigger="200ms")


query(
    "to-kafka",
    ss.sinks.KafkaSink(
        os.environ["TEST_TOPIC"],
        bootstrap_servers=os.environ["TEST_KAFKA"],
        serializer=ss.sinks.JsonSerializer(key="id"),
    ),
    group="sinks-job",
)
query("to-postgres", ss.sinks.PostgresSink("words", dsn=ss.Secret.env("TEST_DSN")))
query(
    "to-iceberg",
    ss.sinks.IcebergSink(
        "shop.words",
        catalog={"type": "sql", "uri": ss.Secret.env("TEST_CATALOG"), "warehouse": os.environ["TEST_WAREHOUSE"]},
    ),
)

if __name__ == "__main__":
    job.run()
