"""What becomes of a query whose rows Kafka no longer has: it skips none, and says what a person can do (a real broker)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import driverprocess
import pytest
from confluent_kafka import Producer
from kafkabroker import Broker
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from s3server import S3Server
from statefulspark import failures, storage
from statefulspark.contract import layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.storage.port import ObjectStore

pytestmark = pytest.mark.spark
_JOB = """
import statefulspark as ss

job = ss.Job("clicks")


@job.query(uid="clicks")
def clicks(spark, ctx):
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", ctx.parameter("brokers"))
    rows = reader.option("subscribe", ctx.parameter("topic")).option("startingOffsets", "earliest").load()
    values = rows.selectExpr("CAST(value AS STRING) AS value")
    return ss.write(values, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out")


if __name__ == "__main__":
    job.run()
"""
_LOSSES: dict[str, Callable[[Broker, str], None]] = {
    "expired": lambda kafka, topic: kafka.expire(topic, before=15),
    "made anew": lambda kafka, topic: kafka.make_anew(topic),
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

    failure = failures.classify_query("clicks", query._jsq.exception().get().toString(), fenced=False)

    assert (failure.code, failure.reason) == (ExitCode.INPUT_LOST, "InputLost")
    assert "rows that it has not read are no longer in Kafka" in failure.message
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


@contextlib.contextmanager
def _stopped_after_ten_rows(
    s3: S3Server, bucket: str, kafka: Broker, topic: str, folder: Path
) -> Iterator[tuple[driverprocess.Driver, ObjectStore]]:
    """Yield a driver that was killed after a checkpoint with ten rows, and the root of its job."""
    job_file, root = folder / "clicks.py", f"s3://{bucket}/state"
    job_file.write_text(_JOB)
    store = storage.open_store(f"{root}/default/clicks", s3.options())
    given = {"brokers": kafka.servers, "topic": topic, "output": f"s3://{bucket}/output"}
    flags = [flag for name, value in given.items() for flag in ("--parameter", f"{name}={value}")]
    _produce(kafka, topic, 10)
    with driverprocess.running(job_file, s3, root, folder, "--checkpoint-interval", "1s", *flags) as driver:
        driver.until(lambda: bool(store.list("checkpoints")), "a checkpoint is complete")
        driver.stop()
        yield driver, store


@pytest.mark.s3
def test_a_driver_looks_twice_for_rows_that_kafka_lost_and_ends_with_a_code_of_its_own(
    s3: S3Server, s3_bucket: str, kafka: Broker, kafka_topic: str, tmp_path: Path
) -> None:
    with _stopped_after_ten_rows(s3, s3_bucket, kafka, kafka_topic, tmp_path) as (driver, _):
        _produce(kafka, kafka_topic, 40)
        kafka.expire(kafka_topic, before=15)
        driver.start()

        code = driver.ends()
        said = driver.output

    assert code == ExitCode.INPUT_LOST
    assert said.count("restarting the query to be sure") == 1
    assert "are no longer in Kafka" in said
    assert "failOnDataLoss=false" in said


@pytest.mark.s3
def test_a_job_goes_on_when_kafka_has_its_records_again(
    s3: S3Server, s3_bucket: str, kafka: Broker, kafka_topic: str, tmp_path: Path
) -> None:
    """The batch that the ended driver has planned goes back, and is left behind."""
    with _stopped_after_ten_rows(s3, s3_bucket, kafka, kafka_topic, tmp_path) as (driver, store):
        kafka.make_anew(kafka_topic)
        driver.start()
        assert driver.ends() == ExitCode.INPUT_LOST
        _produce(kafka, kafka_topic, 14)
        driver.start()

        commits = f"{layout.query_root(2, 'clicks')}/commits"
        driver.until(lambda: len(store.list(commits)) > 1, "a batch is committed in a new generation")

    assert f"the Kafka partition {kafka_topic}-" in driver.output
    assert "had fewer records than the job has read" in driver.output
