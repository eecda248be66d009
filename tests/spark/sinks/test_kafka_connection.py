"""One connection for source and sink: both log in at a real broker, and Spark shows the password nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import statefulspark as ss
from confluent_kafka import Producer
from kafkabroker import Broker
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from statefulspark.engine import settings
from statefulspark.sinks.kafka import session

pytestmark = pytest.mark.spark

PASSWORD = "a-wrong-password"


def read_topic(spark: SparkSession, connection: ss.sinks.KafkaConnection, topic: str) -> DataFrame:
    reader = spark.readStream.format("kafka").options(**connection.source_options())
    return (
        reader.option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING)")
    )


def started(frame: DataFrame, root: Path) -> StreamingQuery:
    writer = frame.writeStream.format("memory").queryName("connected").trigger(availableNow=True)
    return writer.option("checkpointLocation", root.as_uri()).start()


def a_login(kafka: Broker, password: ss.Secret) -> ss.sinks.KafkaConnection:
    return ss.sinks.KafkaConnection(kafka.sasl_servers, sasl="PLAIN", username="writer", password=password)


def test_a_source_logs_in_with_a_secret(spark: SparkSession, kafka: Broker, kafka_topic: str, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": kafka.servers})
    producer.produce(kafka_topic, b"hello")
    assert producer.flush(30) == 0
    (tmp_path / "password").write_text("right\n")

    started(
        read_topic(spark, a_login(kafka, ss.Secret.file(str(tmp_path / "password"))), kafka_topic), tmp_path / "root"
    ).awaitTermination(120)

    assert [row.value for row in spark.table("connected").collect()] == ["hello"]


def test_source_and_sink_show_their_certificate_to_a_broker_that_asks_for_one(
    spark: SparkSession, kafka: Broker, kafka_topic: str, tmp_path: Path
) -> None:
    connection = ss.sinks.KafkaConnection(
        kafka.tls_servers, tls=True, ca_file=str(kafka.ca_file), certificate_file=str(kafka.certificate_file)
    )
    sink = ss.sinks.KafkaSink(kafka_topic, bootstrap_servers=connection)
    target = session.KafkaTarget(kafka.tls_servers, kafka_topic, "tls", "tls/marker", options=sink.options)
    assert session.Session(target).open() is None
    producer = Producer({"bootstrap.servers": kafka.servers})
    producer.produce(kafka_topic, b"over TLS")
    assert producer.flush(30) == 0

    started(read_topic(spark, connection, kafka_topic), tmp_path / "root").awaitTermination(120)

    assert [row.value for row in spark.table("connected").collect()] == ["over TLS"]


def test_a_password_is_in_no_plan_and_no_file_of_spark(
    spark: SparkSession, kafka: Broker, kafka_topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    driver = spark.newSession()
    driver.conf.set("spark.sql.redaction.string.regex", settings.LOGIN_IN_OPTIONS)
    frame = read_topic(driver, a_login(kafka, ss.Secret.env("KAFKA_PASSWORD")), kafka_topic)
    query = started(frame, tmp_path / "root")
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination(120)

    execution = frame._jdf.queryExecution()
    plans = execution.toString() + execution.stringWithStats()
    files = b"".join(path.read_bytes() for path in (tmp_path / "root").rglob("*") if path.is_file())

    assert "kafka.sasl.jaas.config=*********(redacted)" in plans
    assert PASSWORD not in plans
    assert PASSWORD not in str(failed.value)
    assert PASSWORD.encode() not in files


def test_the_client_of_the_sink_logs_in_with_the_same_connection(
    kafka: Broker, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "right")
    sink = ss.sinks.KafkaSink(kafka_topic, bootstrap_servers=a_login(kafka, ss.Secret.env("KAFKA_PASSWORD")))
    target = session.KafkaTarget(str(sink.bootstrap_servers), kafka_topic, "one", "one/marker", options=sink.options)

    assert session.Session(target).open() is None
