"""Starts what the first batch needs while the job is being planned: Python workers, and Spark's client of the object store.

Nothing waits for it. If one of these fails, the first batch fails too, and reports why.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from statefulspark.engine import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def start_workers(spark: SparkSession) -> None:
    """Run an empty Python job on each core; return at once.

    Args:
        spark: The session.
    """
    _run_beside(lambda: _start_workers(spark), "no Python worker could be started early")


def touch_storage(spark: SparkSession, uri: str) -> None:
    """Make Hadoop connect to the storage of a job; a failure says nothing about it.

    Args:
        spark: The session.
        uri: Of any object, as Hadoop's Path prints it.
    """
    jvm = session.jvm_view(spark)
    path = jvm.org.apache.hadoop.fs.Path(uri)
    _try(
        lambda: path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(path),
        "storage could not be reached early",
    )


def read_storage(spark: SparkSession, file: str) -> None:
    """Read a file on storage as Spark does, so that its client is connected and loaded; return at once.

    The first requests of a JVM take it more than a second of processor time.

    Args:
        spark: The session.
        file: Hadoop URI of a small file that exists.
    """
    _run_beside(lambda: _read(spark, file), "storage could not be read early")


def _run_beside(step: Callable[[], object], failed: str) -> None:
    threading.Thread(target=_try, args=(step, failed), name="warming", daemon=True).start()


def _try(step: Callable[[], object], failed: str) -> None:
    try:
        step()
    except Py4JError as error:
        called, *raised = str(error).splitlines()  # py4j puts what Java raised behind the name of what was called
        _log.warning(failed, extra={"why": raised[0].removeprefix(": ") if raised else called})


def _start_workers(spark: SparkSession) -> None:
    context = spark.sparkContext
    cores = context.defaultParallelism
    context.parallelize(range(cores), cores).count()


def _read(spark: SparkSession, file: str) -> None:
    path = session.jvm_view(spark).org.apache.hadoop.fs.Path(file)
    file_system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    file_system.listStatus(path.getParent())
    stream = file_system.open(path)
    try:
        stream.read()
    finally:
        stream.close()
