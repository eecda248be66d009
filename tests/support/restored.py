"""What belongs to the whole process is after each test as it was before: the log, and the driver that Spark writes for."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark import SparkContext


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Restore the root's handlers and all levels. A handler that stays writes into a stream that its test has closed."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logger.level for name, logger in _loggers()}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, logger in _loggers():
        logger.setLevel(levels.get(name, logging.NOTSET))


def _loggers() -> list[tuple[str, logging.Logger]]:
    known = logging.root.manager.loggerDict.items()
    return [(name, logger) for name, logger in known if isinstance(logger, logging.Logger)]


@pytest.fixture(autouse=True)
def no_driver_left() -> Iterator[None]:
    """Turn the fence of the shared JVM off: the next test's files would carry the claim of this one's driver."""
    yield
    jvm = SparkContext._jvm
    if jvm is not None and hasattr(jvm.io.statefulspark.checkpoint.EpochFence, "disable"):
        jvm.io.statefulspark.checkpoint.EpochFence.disable()
