"""What becomes of a query whose rows Kafka no longer has: it skips none, and says what a person can do (a real broker)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafkabroker import Broker
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from statefulspark import failures
from statefulspark.contract.exit_codes import ExitCode

pytestmark = pytest.mark.spark
_LOSSES: dict[str, Callable[[Broker, str], None]] = {
    "expired": lambda kafka, topic: kafka.expire(topic, before=15),
    "deleted": lambda kafka, topic: kafka.delete_topic(topic),
}


def _produce(kafka: Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.servers})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0


def _start(spark: SparkSession, kafka: Broker, topic: str, folder: Path, **options: str) -> StreamingQuery:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.servers).options(**options)
    rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", folder.as_uri())
    return writer.trigger(availableNow=True).start()


@pytest.mark.parametrize("lose", _LOSSES.values(), ids=_LOSSES)
def test_rows_that_kafka_lost_before_they_were_read_end_the_job_for_a_person(
    spark: SparkSession, kafka: Broker, kafka_topic: str, tmp_path: Path, lose: Callable[[Broker, str], None]
) -> None:
    _produce(kafka, kafka_topic, 10)
    _start(spark, kafka, kafka_topic, tmp_path).awaitTermination(120)
    _produce(kafka, kafka_topic, 40)
    lose(kafka, kafka_topic)
    query = _start(spark, kafka, kafka_topic, tmp_path)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(120)

    failure = failures.of_query("clicks", query._jsq.exception().get().toString(), fenced=False)

    assert (failure.code, failure.reason) == (ExitCode.INPUT_LOST, "InputLost")
    assert f"are no longer in Kafka. {'Partitions' if lose is _LOSSES['deleted'] else ''}" in failure.message
    assert kafka_topic in failure.message


def test_a_job_that_accepts_the_loss_goes_on_with_the_rows_that_are_there(
    spark: SparkSession, kafka: Broker, kafka_topic: str, tmp_path: Path
) -> None:
    _produce(kafka, kafka_topic, 10)
    _start(spark, kafka, kafka_topic, tmp_path).awaitTermination(120)
    _produce(kafka, kafka_topic, 40)
    kafka.expire(kafka_topic, before=15)
    query = _start(spark, kafka, kafka_topic, tmp_path, failOnDataLoss="false")

    query.awaitTermination(120)

    assert sum(batch["numInputRows"] for batch in query.recentProgress) == 20
