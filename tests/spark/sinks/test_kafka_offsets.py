"""Offsets of Kafka sources in consumer groups: what a lag monitor sees after a checkpoint (a real broker, real Spark)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafkabroker import Broker
from manifests import a_query
from pyspark.sql import DataFrame, SparkSession
from statefulspark import errors
from statefulspark.contract.manifest import QueryEntry
from statefulspark.driver.snapshots import kafka_offsets

pytestmark = pytest.mark.spark


def read_topic(spark: SparkSession, kafka: Broker, topic: str, group: str = "") -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    return (reader.option(kafka_offsets.GROUP_OPTION, group) if group else reader).load()


def produce(kafka: Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.servers})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0


def reading(offsets: tuple[str, ...]) -> QueryEntry:
    return a_query("clicks", offsets=offsets)


def test_a_query_reads_kafka_with_the_packages_jars_and_its_checkpointed_offsets_are_published(
    spark: SparkSession, kafka: Broker, kafka_topic: str, tmp_path: Path
) -> None:
    produce(kafka, kafka_topic, 30)
    frame = read_topic(spark, kafka, kafka_topic, group="clicks-job")
    root = str(tmp_path / "root")
    writer = frame.selectExpr("CAST(value AS STRING) AS value").writeStream.format("memory").queryName("kafka_rows")
    query = writer.option("checkpointLocation", f"file:{root}").trigger(availableNow=True).start()
    query.awaitTermination(120)
    offset_log = (Path(root) / "offsets" / "0").read_text().splitlines()[2:]
    publisher = kafka_offsets.OffsetPublisher(spark, kafka_offsets.targets("clicks", frame))
    publisher.publish([reading(tuple(offset_log))])
    publisher.close()
    rows = sorted(int(row.value) for row in spark.table("kafka_rows").collect())
    assert rows == list(range(30))
    assert kafka.committed("clicks-job", kafka_topic) == {0: 15, 1: 15}


def test_each_source_has_the_group_and_the_line_of_its_own(spark: SparkSession, kafka: Broker) -> None:
    first, second, quiet = kafka.new_topic(), kafka.new_topic(), kafka.new_topic()
    frame = read_topic(spark, kafka, first, "one").union(read_topic(spark, kafka, quiet))
    frame = frame.union(read_topic(spark, kafka, second, "two"))
    publisher = kafka_offsets.OffsetPublisher(spark, kafka_offsets.targets("clicks", frame))
    lines = (json.dumps({first: {"0": 4}}), json.dumps({quiet: {"0": 5}}), json.dumps({second: {"0": 6, "1": 0}}))
    publisher.publish([a_query("other", offsets=("{}",)), reading(lines)])
    publisher.close()
    found = {topic: kafka.committed(group, topic) for group, topic in (("one", first), ("two", second), ("two", quiet))}
    assert found == {first: {0: 4}, second: {0: 6, 1: 0}, quiet: {}}


def test_a_source_before_its_first_batch_publishes_nothing(
    spark: SparkSession, kafka: Broker, kafka_topic: str
) -> None:
    frame = read_topic(spark, kafka, kafka_topic, "early")
    publisher = kafka_offsets.OffsetPublisher(spark, kafka_offsets.targets("clicks", frame))
    publisher.publish([reading(("-",)), reading(())])
    publisher.close()
    assert kafka.committed("early", kafka_topic) == {}


def test_a_group_with_members_is_reported_once_and_fails_nothing(
    spark: SparkSession, kafka: Broker, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    member = Consumer({"bootstrap.servers": kafka.servers, "group.id": "taken", "log_level": 0})
    member.subscribe([kafka_topic])
    while not member.assignment():
        member.poll(0.1)
    publisher = kafka_offsets.OffsetPublisher(
        spark, kafka_offsets.targets("clicks", read_topic(spark, kafka, kafka_topic, "taken"))
    )
    entry = reading((json.dumps({kafka_topic: {"0": 1}}),))
    publisher.publish([entry])
    publisher.publish([entry])
    member.close()
    publisher.publish([entry])
    publisher.close()
    assert [record.getMessage() for record in caplog.records if "offsets" in record.getMessage()] == [
        "offsets could not be published; the job continues without them"
    ]
    assert kafka.committed("taken", kafka_topic) == {0: 1}


def test_the_option_on_another_source_is_refused_by_name(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").option(kafka_offsets.GROUP_OPTION, "group").load()
    with pytest.raises(errors.SpecRejectedError, match=r"'clicks'.*on a source of the format rate"):
        kafka_offsets.targets("clicks", frame)
