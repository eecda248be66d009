"""Report the tasks that Spark has finished while a block waits for one call of Spark.

The steps of a start use it: nothing else runs in Spark then. The next stage is not known in advance, so each stage has a
count of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from statefulspark.checkpoint import progress
from statefulspark.contract.api import Progress

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

LOOKS_EVERY_S = 1.0
"""Time between two looks; each costs a few calls of the JVM."""


@contextmanager
def reported(session: SparkSession, report: progress.Report) -> Iterator[None]:
    """Report the tasks of Spark's active stages while the block runs.

    Args:
        session: Any session of the application.
        report: Called from a thread of its own, and not after the block.
    """
    from py4j.protocol import Py4JError

    is_over = threading.Event()

    def look() -> None:
        try:
            while not is_over.wait(LOOKS_EVERY_S):
                counted = running(session.sparkContext.statusTracker())
                if counted is not None:
                    report(counted)
        except (Py4JError, OSError):
            return  # Spark has ended, and who waits for it is told so.

    thread = threading.Thread(target=look, name="tasks-of-spark", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def running(tracker: StatusTracker) -> Progress | None:
    """Return the tasks of the active stages; None if none is active."""
    infos = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    stages = [stage for stage in infos if stage is not None]
    total = sum(stage.numTasks for stage in stages)
    done = sum(stage.numCompletedTasks for stage in stages)
    return Progress(unit="tasks", done=done, total=total) if stages else None
