"""The Spark session of tests: one in a process, with the runtime's settings, and few threads so that it is quick."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from statefulspark.contract import config
from statefulspark.engine import session, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {"spark.sql.shuffle.partitions": "2"}
"""Two partitions show what one hides: rows of two keys that are not in order, and state that is not shared."""
_MASTER = "local[2]"


def shared() -> SparkSession:
    """Return the session of this process; the first call starts it, which takes some seconds."""
    storage = config.StorageConfig(uri=f"file://{tempfile.gettempdir()}", allow_local_files=True)
    # Where tests import from and workers would not, for example a folder with a job and its tests.
    python = (sys.prefix, sys.base_prefix)
    folders = [str(Path(path).absolute()) for path in sys.path if not path.startswith(python) and Path(path).is_dir()]
    conf = {**CONF, "spark.executorEnv.PYTHONPATH": os.pathsep.join(folders)}
    engine = config.EngineConfig(master=_MASTER, conf=conf)
    job = config.JobConfig(name="tests", storage=storage, engine=engine)
    return session.build(job, settings.storage_options(storage))
