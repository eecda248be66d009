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
