"""What real sources tell of their lag: a Kafka topic that is read in parts, and files (a real broker, real Spark)."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafkabroker import Broker
from pyspark.sql import DataFrame, SparkSession
from statefulspark.contract import api
from statefulspark.driver.running import source_lag

pytestmark = pytest.mark.spark


def _told(frame: DataFrame, folder: Path) -> list[tuple[api.SourceStatus, ...]]:
    """Run a query until its sources have nothing more, and return what its batches with rows told of them."""
    query = frame.writeStream.format("noop").option("checkpointLocation", folder.as_uri()).start()
    try:
        query.processAllAvailable()
        batches = [batch for batch in query._jsq.recentProgress() if batch.numInputRows() > 0]
        return [tuple(map(source_lag.describe, batch.sources())) for batch in batches]
    finally:
        query.stop()


def test_a_topic_that_is_read_in_parts_tells_what_is_left_after_each(
    spark: SparkSession, kafka: Broker, kafka_topic: str, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka.servers})
    for number in range(30):
        producer.produce(kafka_topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    options = {"kafka.bootstrap.servers": kafka.servers, "subscribe": kafka_topic, "startingOffsets": "earliest"}
    topic = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger="10").load()

    assert _told(topic, tmp_path) == [
        (api.SourceStatus(name=f"Kafka {kafka_topic}", input_rows=10, lag_rows=left),) for left in (20, 10, 0)
    ]


def test_a_folder_of_files_does_not_tell_how_many_rows_are_left(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.csv").write_text(f"{number}\n")
    files = spark.readStream.schema("number INT").option("maxFilesPerTrigger", 1).csv(str(folder))

    told = _told(files, tmp_path / "checkpoint")

    assert told == [(api.SourceStatus(name=f"files in {folder.as_uri().replace('///', '/')}", input_rows=1),)] * 3
