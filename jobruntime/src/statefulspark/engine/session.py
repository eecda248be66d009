"""The Spark session of a driver, built on a JVM that was started ahead (`gateway`) with the settings of `settings`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from statefulspark import errors, telemetry
from statefulspark.contract import config, engine
from statefulspark.engine import gateway, settings
from statefulspark.storage import StorageOptions

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_TALKATIVE = (
    "sql.execution.python.streaming.TransformWithStateInPySparkStateServer",  # state that is empty, a socket at its end
    "sql.execution.streaming.runtime.ResolveWriteToStream",  # adaptive execution is off in streams
    "sql.execution.streaming.runtime.MicroBatchExecution",  # the same; failures come back as the query's exception
    # RocksDB's own threads print through the JVM, at warnings too; one that does while the JVM ends lets it hang for ever.
    "sql.execution.streaming.state.RocksDB",
    "scheduler.DAGScheduler",  # a job group without jobs, when a query stops at a boundary
)

_SAID_AGAIN = (
    "executor.Executor",  # every failure of a task, with its stack; executors of their own keep it in their log
    "sql.execution.streaming.runtime.MicroBatchExecution",  # what ended a query, which is its exception
)
"""Stacks of what is reported anyway, each of which hides the sentence below hundreds of lines."""


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
        InternalError: `JarsMissing`: the package was built without its jars. `JavaMissing`, `JvmNotStarted`.
    """
    if not any(gateway.JARS.glob("statefulspark-checkpoint*.jar")):
        raise errors.InternalError("JarsMissing", f"There are no jars in {gateway.JARS}; build them with `make jars`.")
    check_settings(job.engine.conf)
    # Workers need this very interpreter: it is the one that has the job's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = settings.spark_conf(job, options)
    if SparkContext._gateway is None:
        gateway.connect(conf)
    else:
        gateway.abandon()  # The job's file has started Spark by itself.
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    _quieten(session)
    return session


def activate(session: SparkSession) -> None:
    """Make a session the active one of the calling thread: Spark looks there, and it may have been built in another."""
    jvm = session._jvm
    assert jvm is not None  # noqa: S101 - a classic session always has a JVM
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def _quieten(session: SparkSession) -> None:
    """Silence warnings that say nothing is wrong, once per key group and batch or at every start."""
    jvm = session._jvm
    assert jvm is not None  # noqa: S101 - a classic session always has a JVM
    log4j = cast("JavaObject", jvm.org.apache.logging.log4j)
    levels = dict.fromkeys(_TALKATIVE, log4j.Level.ERROR)
    if not telemetry.is_verbose():
        levels |= {"scheduler.TaskSetManager": log4j.Level.ERROR} | dict.fromkeys(_SAID_AGAIN, log4j.Level.OFF)
    for logger, level in levels.items():
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{logger}", level)


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
