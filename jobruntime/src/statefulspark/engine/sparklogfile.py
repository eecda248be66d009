"""Spark's log while a person looks on: in a file, so that the lines of the job are not hidden at the terminal.

`log4j2-people.properties` says what goes where. Pods and `--verbose` have what Spark logs in their own log.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from statefulspark import telemetry

CONFIGURATION = Path(__file__).with_name("log4j2-people.properties")
_log = logging.getLogger(__name__)


def java_options(application: str) -> Sequence[str]:
    """Return the options of the JVM that send Spark's log to a file, if a person looks on who has not asked for it.

    Args:
        application: The job, for the name of the file.
    """
    if not telemetry.is_for_people() or telemetry.is_verbose():
        return ()
    file = path_of(application)
    _log.info("Spark logs to a file", extra={"file": file})
    return (f"-Dlog4j2.configurationFile={CONFIGURATION}", f"-Dstatefulspark.spark.log={file}")


def path_of(application: str) -> Path:
    """Return the file of Spark's log, in a folder that only this user can write; each process has its own."""
    folder = Path(tempfile.gettempdir()) / f"statefulspark-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        folder = Path(tempfile.mkdtemp(prefix="statefulspark-"))
    return folder / f"spark-{application.replace('/', '-')}-{os.getpid()}.log"
