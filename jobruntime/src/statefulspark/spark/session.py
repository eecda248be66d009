"""The Spark session of a driver: which settings the guarantees rest on, and which belong to the user.

Settings in `_guaranteed` are not the user's choice; asking for another value is refused by name (`contract.engine`).
Everything else has a default that suits streaming on a few cores and can be overridden.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyspark.sql import SparkSession

import statefulspark
from statefulspark import errors
from statefulspark.contract import config, engine
from statefulspark.storage import StorageOptions

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

JARS = Path(statefulspark.__file__).parent / "jars"
FILE_MANAGER = "io.statefulspark.checkpoint.ConditionalCheckpointFileManager"
STATE_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_TALKATIVE = (
    "sql.execution.python.streaming.TransformWithStateInPySparkStateServer",  # state that is empty, a socket at its end
    "sql.execution.streaming.runtime.ResolveWriteToStream",  # adaptive execution is off in streams
    "sql.execution.streaming.runtime.MicroBatchExecution",  # the same; failures come back as the query's exception
    "scheduler.DAGScheduler",  # a job group without jobs, when a query stops at a boundary
)


def hadoop_uri(uri: str) -> str:
    """Return a storage uri as Hadoop's Path prints it: s3:// becomes s3a://, file:/// becomes file:/."""
    if uri.startswith("s3://"):
        return "s3a://" + uri.removeprefix("s3://")
    return "file:" + uri.removeprefix("file://") if uri.startswith("file://") else uri


def build(job: config.JobConfig, options: StorageOptions) -> SparkSession:
    """Start the engine with the settings of a job.

    Args:
        job: The driver's configuration.
        options: Endpoint and credentials of the object store.

    Returns:
        A running session, logging warnings and errors only.

    Raises:
        SpecRejectedError: `EngineSettingRefused`: a setting would break a guarantee.
        InternalError: `JarsMissing`: the package was built without its jars.
    """
    if not any(JARS.glob("statefulspark-checkpoint*.jar")):
        raise errors.InternalError("JarsMissing", f"There are no jars in {JARS}; build them with `make jars`.")
    check_settings(job.engine.conf)
    # Workers need this very interpreter: it is the one that has the job's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"{job.namespace}/{job.name}")
    master = job.engine.master or "local[*]"
    builder = builder.master(master)
    for key, value in {
        **_defaults(),
        **_local(master),
        **job.engine.conf,
        **job.engine.platform,
        **_guaranteed(),
        **_storage(options),
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    _quieten(session)
    return session


def _quieten(session: SparkSession) -> None:
    """Silence warnings that say nothing is wrong, once per key group and batch or at every start."""
    jvm = session._jvm
    assert jvm is not None  # noqa: S101 - a classic session always has a JVM
    log4j = cast("JavaObject", jvm.org.apache.logging.log4j)
    for logger in _TALKATIVE:
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{logger}", log4j.Level.ERROR)


def check_settings(conf: Mapping[str, str]) -> None:
    """Refuse settings that would break a guarantee, all of them at once.

    Raises:
        SpecRejectedError: `EngineSettingRefused`, naming each setting and why.
    """
    refused = [f"{setting.key} ({setting.reason})" for setting in engine.find_refused(sorted(conf))]
    if refused:
        raise errors.SpecRejectedError(
            "EngineSettingRefused", "These Spark settings belong to the runtime; remove them: " + "; ".join(refused)
        )


def _guaranteed() -> dict[str, str]:
    return {
        "spark.sql.streaming.stateStore.providerClass": STATE_PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        # Deleting is the pruner's: Spark would remove files that a retained checkpoint still needs.
        "spark.sql.streaming.minBatchesToRetain": "1000000000",
        "spark.sql.streaming.fileSource.log.deletion": "false",
        "spark.driver.extraClassPath": f"{JARS}/*",
        "spark.executor.extraClassPath": f"{JARS}/*",
    }


def _local(master: str) -> dict[str, str]:
    """Keep an engine without executors off the network."""
    if not master.startswith("local"):
        return {}
    return {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}


def _defaults() -> dict[str, str]:
    cores = str(max(2, os.cpu_count() or 2))
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark pins this at a query's first batch; 200, its default, means 200 small files a batch.
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "200",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.scheduler.mode": "FAIR",
        # A worker that starts on a busy machine may take longer than the 15 s that Spark allows it.
        "spark.python.authenticate.socketTimeout": "120s",
    }


def _storage(options: StorageOptions) -> dict[str, str]:
    prefix = "spark.hadoop.fs.s3a."
    conf = {
        prefix + "path.style.access": str(options.path_style).lower(),
        prefix + "endpoint.region": options.region or "us-east-1",
        # One round trip less for each PUT; the servers answer errors without it all the same.
        prefix + "connection.expect.continue": "false",
        prefix + "change.detection.mode": "none",
        prefix + "attempts.maximum": "10",
        prefix + "connection.establish.timeout": "15s",
        prefix + "connection.maximum": "64",
    }
    if options.endpoint:
        conf[prefix + "endpoint"] = options.endpoint
        conf[prefix + "connection.ssl.enabled"] = str(options.endpoint.startswith("https")).lower()
    if options.access_key and options.secret_key:
        conf[prefix + "access.key"] = options.access_key
        conf[prefix + "secret.key"] = options.secret_key
        if options.session_token:
            conf[prefix + "session.token"] = options.session_token
            conf[prefix + "aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        else:
            conf[prefix + "aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    return conf
