"""A bucket with Object Lock refuses each upload that carries no checksum: of logs, of state, and of data in parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import s3server
import streams
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

pytestmark = [pytest.mark.spark, pytest.mark.s3]


@pytest.fixture
def locked(spark: SparkSession, s3: s3server.S3Server, s3_bucket: str) -> Iterator[str]:
    """Return the address of a bucket that this session reaches through such a store."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    with s3server.encrypted(s3) as endpoint:
        settings = {"endpoint": endpoint, "multipart.size": "5M", "multipart.threshold": "5M"}
        for name, value in settings.items():
            hadoop.set(f"fs.s3a.bucket.{s3_bucket}.{name}", value)
        yield f"s3a://{s3_bucket}"
        for name in settings:
            hadoop.unset(f"fs.s3a.bucket.{s3_bucket}.{name}")


def test_a_stateful_query_runs_on_a_bucket_with_object_lock(spark: SparkSession, locked: str) -> None:
    query = streams.start_count(spark, f"{locked}/generations/00000001/q", name="locked", sink="noop")
    streams.wait_until(lambda: query.exception() is not None or streams.last_batch(query) >= 3, "batches are committed")
    failure = query.exception()
    query.stop()

    assert failure is None


def test_data_in_several_parts_is_written_to_a_bucket_with_object_lock(spark: SparkSession, locked: str) -> None:
    rows = spark.range(2).select(sql.expr("id"), sql.expr("repeat(sha2(string(id), 512), 100000)").alias("text"))

    rows.coalesce(1).write.option("compression", "none").csv(f"{locked}/table")

    assert spark.read.csv(f"{locked}/table").count() == 2
