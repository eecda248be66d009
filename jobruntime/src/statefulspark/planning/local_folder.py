"""A folder of this machine in which Spark keeps state stores for a while, removed at the end.

Spark writes into such a folder after the end of what used it: the maintenance of a state store uploads the snapshot that its
last batch has made, and only then asks whether the store is still used (`StateStore.doMaintenance` of Spark 4.2). So the
folder is removed once more when that has come by.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from statefulspark.engine import session as spark_session
from statefulspark.engine import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def made(spark: SparkSession, prefix: str) -> Iterator[Path]:
    """Make a folder, and remove it afterwards.

    Args:
        spark: The session whose tasks use it.
        prefix: Beginning of its name.

    Raises:
        OSError: There is no room for it.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as root:
        try:
            yield Path(root)
        finally:
            after_maintenance(spark, lambda: shutil.rmtree(root, ignore_errors=True))


def after_maintenance(spark: SparkSession, work: Callable[[], None]) -> None:
    """Do something when the state stores that were just used are closed; the process does not wait to do it.

    That is when maintenance has come by, and an upload that it had begun has ended.
    """
    timer = threading.Timer(spark_session.maintenance_interval_s(spark) + settings.REQUEST_TIMEOUT_S, work)
    timer.daemon = True
    timer.start()
