"""Starts the first Python workers while the job is being planned, so that the first batch does not wait for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def start_workers(spark: SparkSession) -> None:
    """Run an empty Python job on each core; return at once.

    Nothing waits for it. If it fails, the first batch fails too, and reports why.

    Args:
        spark: The session.
    """
    threading.Thread(target=_run, args=(spark,), name="warming", daemon=True).start()


def touch_storage(spark: SparkSession, uri: str) -> None:
    """Make Hadoop connect to the storage of a job; a failure says nothing about it.

    Args:
        spark: The session.
        uri: Of any object, as Hadoop's Path prints it.
    """
    jvm = spark._jvm
    assert jvm is not None  # noqa: S101 - a classic session always has a JVM
    try:
        path = jvm.org.apache.hadoop.fs.Path(uri)
        path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(path)
    except Py4JError as error:
        _log.warning("storage could not be reached early", extra={"why": str(error).splitlines()[0]})


def _run(spark: SparkSession) -> None:
    context = spark.sparkContext
    cores = context.defaultParallelism
    try:
        context.parallelize(range(cores), cores).foreachPartition(_consume)
    except Py4JError as error:
        _log.warning("no Python worker could be started early", extra={"why": str(error).splitlines()[0]})


def _consume(rows: Iterable[int]) -> None:
    for _ in rows:
        pass
