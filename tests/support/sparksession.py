"""A real Spark session for tests, with the S3A jars, our checkpoint file manager and the engine's fixed settings.

A JVM takes seconds to start, so a pytest process has one: the session fixture `spark`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import processes
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from s3server import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from statefulspark.engine import gateway
from statefulspark.engine import settings as product

CHECKPOINT_MANAGER = "io.statefulspark.checkpoint.ConditionalCheckpointFileManager"
_STREAMING = "spark.sql.streaming"
_jvms: list[gateway.Launch] = []
"""What keeps the JVM of this process alive: it ends when its standard input is closed."""


def s3a_settings(endpoint: str) -> dict[str, str]:
    """Return the Hadoop settings with which s3a:// reaches a test server."""
    return {
        "fs.s3a.impl": product.FILE_SYSTEM,
        "fs.s3a.audit.execution.interceptors": product.S3_INTERCEPTORS,
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": REGION,
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.connection.expect.continue": "false",
        "fs.s3a.attempts.maximum": "2",
        "fs.s3a.retry.limit": "2",
        "fs.s3a.retry.interval": "100ms",
        "fs.s3a.connection.establish.timeout": "3s",
    }


def engine_settings() -> dict[str, str]:
    """Return the Spark settings that the product fixes."""
    return {
        f"{_STREAMING}.checkpointFileManagerClass": CHECKPOINT_MANAGER,
        f"{_STREAMING}.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        f"{_STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        f"{_STREAMING}.stateStore.checkpointFormatVersion": "2",
        **product.worker_settings(),
    }


def build_session(endpoint: str, settings: dict[str, str] | None = None) -> SparkSession:
    """Start (or get) the process's Spark session: two threads, two shuffle partitions, no UI.

    Its JVM is launched as a driver's is. PySpark's own launcher sets SPARK_HOME, with which every Python process that a
    query starts compiles PySpark again.
    """
    if not list(gateway.JARS.glob("statefulspark-checkpoint.jar")):
        pytest.fail(f"{gateway.JARS} has no jars; run `make jars` first.", pytrace=False)
    # Python workers must be this interpreter; the shell's python3 may be another version.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("tests")
    chosen = {
        "spark.driver.extraClassPath": gateway.own_class_path(),
        "spark.driver.memory": "1500m",
        "spark.driver.extraJavaOptions": processes.SHORT_LIVED,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        **engine_settings(),
        **{f"spark.hadoop.{name}": value for name, value in s3a_settings(endpoint).items()},
        **(settings or {}),
    }
    if SparkContext._gateway is None:
        _jvms.append(gateway.launch(chosen))
        with gateway.named(*gateway.wait(_jvms[-1])):
            SparkContext._ensure_initialized()
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def has_ended() -> bool:
    """Tell whether the JVM of this process has ended."""
    return any(launched.process.poll() is not None for launched in _jvms)


@pytest.fixture(scope="session")
def spark(s3: S3Server) -> Iterator[SparkSession]:
    session = build_session(s3.endpoint)
    yield session
    session.stop()
