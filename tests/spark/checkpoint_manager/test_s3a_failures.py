"""What Spark really says when S3A cannot use storage is judged as storage, with what helps."""

from __future__ import annotations

import pytest
from processes import free_port
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from s3server import S3Server
from statefulspark import failures

pytestmark = [pytest.mark.spark, pytest.mark.s3]
_SETTINGS = "fs.s3a.bucket"


@pytest.mark.parametrize(
    ("bucket", "settings", "reason", "advice"),
    [
        pytest.param("no-such-bucket", {}, "NoSuchBucket", "create the bucket", id="no bucket"),
        pytest.param("wrong-key", {"secret.key": "wrong"}, "AccessDenied", "check the access key", id="a wrong key"),
        pytest.param(
            "nobody-there", {"endpoint": "http://127.0.0.1:{port}"}, "StorageUnreachable", "server runs", id="no server"
        ),
        pytest.param(
            "no-name", {"endpoint": "http://s3.invalid"}, "StorageUnreachable", "server runs", id="no such name"
        ),
        pytest.param(
            "no-tls",
            {"endpoint": "{https}", "connection.ssl.enabled": "true"},
            "StorageUnreachable",
            "waits until TLS",
            id="no TLS",
        ),
    ],
)
def test_what_spark_says_of_a_failed_read_is_told_as_storage(
    spark: SparkSession, s3: S3Server, bucket: str, settings: dict[str, str], reason: str, advice: str
) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in settings.items():
        given = value.format(port=free_port(), https=s3.endpoint.replace("http:", "https:"))
        hadoop.set(f"{_SETTINGS}.{bucket}.{key}", given)

    with pytest.raises((PySparkException, Py4JJavaError)) as failed:
        spark.read.text(f"s3a://{bucket}/folder/file").collect()
    failure = failures.classify_query("words", _text_of(failed.value), fenced=False)

    assert failure.reason == reason, _text_of(failed.value)
    assert advice in failure.message


def _text_of(error: PySparkException | Py4JJavaError) -> str:
    """Return the text with Java's stack, as the driver has it of a query."""
    return str(error) if isinstance(error, Py4JJavaError) else f"{error}\n{error._stackTrace}"
