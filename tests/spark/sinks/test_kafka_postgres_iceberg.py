"""One real job from Kafka into Kafka, PostgreSQL and Iceberg, killed between prepare and commit: each record is there once.

Everything is real: Spark, the broker, PostgreSQL, S3. It also proves that a job can read Kafka with nothing but the package,
that offsets are published after a checkpoint, and that no password reaches storage or the log.
"""

from __future__ import annotations

import signal
from pathlib import Path

import driverprocess
import pytest
import sinkworlds
from confluent_kafka import Producer
from kafkabroker import Broker
from postgresserver import PASSWORD, Postgres
from s3server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.s3]

JOB = Path(__file__).with_name("sinks_job.py")
KILLED, DRAINED = -signal.SIGKILL, 0
COUNT = 100


def test_killed_between_prepare_and_commit_each_record_is_in_each_system_once(
    kafka: Broker, postgres: Postgres, s3: S3Server, tmp_path: Path
) -> None:
    """A.48, A.101: what the restored checkpoint had prepared is committed, once, by the next driver."""
    dsn = postgres.new_database()
    worlds = (
        sinkworlds.kafka_world(kafka, s3),
        sinkworlds.postgres_world(dsn, s3),
        sinkworlds.iceberg_world(tmp_path, s3),
    )
    source, bucket = kafka.new_topic(), s3.new_bucket("job")
    catalog = worlds[2].recipe["catalog"]
    assert isinstance(catalog, dict)
    options = s3.options()
    environment = {
        "AWS_ENDPOINT_URL": str(options.endpoint),
        "AWS_ACCESS_KEY_ID": str(options.access_key),
        "AWS_SECRET_ACCESS_KEY": str(options.secret_key),
        "TEST_KAFKA": kafka.servers,
        "TEST_INPUT": source,
        "TEST_TOPIC": str(worlds[0].recipe["topic"]),
        "TEST_DSN": dsn,
        "TEST_CATALOG": catalog["uri"],
        "TEST_WAREHOUSE": catalog["warehouse"],
    }
    log = tmp_path / "driver.log"
    driver = driverprocess.Driver(
        JOB, f"s3://{bucket}/state", log, "--checkpoint-interval", "500ms", environment=environment, patience_s=200
    )
    produce(kafka, source)

    # In this order they commit: Kafka has the batch then, and the other two have only prepared it.
    driver.start("--parameter", "kill=PostgresSink")
    assert driver.ends() == KILLED, driver.tail
    driver.start("--parameter", "kill=")
    driver.until(lambda: all(len(world.read()) >= COUNT for world in worlds), "every system has every record")
    assert driver.drains() == DRAINED, driver.tail

    assert [world.read() for world in worlds] == [list(range(COUNT))] * 3
    assert kafka.committed("sinks-job", source) == {0: COUNT // 2, 1: COUNT // 2}
    written = [path for path in (s3.objects / bucket).rglob("*") if path.is_file()]
    assert not [path for path in [*written, log] if f"password={PASSWORD}".encode() in path.read_bytes()]


def produce(kafka: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.servers})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
