"""Where Spark's log goes, and what of it.

- While a person looks on: in a file, so that it does not hide the lines of the job (`log4j2-people.properties`).
- In a pod: in the log of the driver or executor, in the form of its other lines (`log4j2-pods.properties`).
- With `--verbose`: there, in Spark's own form, and all of it.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TextIO

from statefulspark import telemetry
from statefulspark.engine import gateway

FOR_PEOPLE = Path(__file__).with_name("log4j2-people.properties")
FOR_PODS = Path(__file__).with_name("log4j2-pods.properties")
_CHATTER = re.compile(
    rb"WARNING: Using incubator modules|(Starting )?Streaming TransformWithStateInPandas Python worker"
)
"""What the JVM and Spark's Python worker on the driver print at every start, each with an empty line below it."""
_log = logging.getLogger(__name__)


def start_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM of this process, unless it was started before.

    Args:
        conf: Spark's settings.
    """
    if gateway.has_started():
        return
    if telemetry.is_verbose():
        gateway.start(conf)
        return
    if not telemetry.is_for_people():
        gateway.start(conf, (f"-Dlog4j2.configurationFile={FOR_PODS}", "-Dstatefulspark.log.tasks=off"))
        return
    output, stderr = os.pipe()
    try:
        gateway.start(conf, java_options(conf["spark.app.name"]), stderr=stderr)
    finally:
        os.close(stderr)
    lines = os.fdopen(output, "rb")
    threading.Thread(target=forward, args=(lines, sys.stderr), name="spark-stderr", daemon=True).start()


def java_options(application: str) -> Sequence[str]:
    """Return the options of the JVM that send Spark's log to a file.

    Args:
        application: The job, for the name of the file.
    """
    file = path_of(application)
    _log.info("Spark logs to a file", extra={"file": file})
    return (f"-Dlog4j2.configurationFile={FOR_PEOPLE}", f"-Dstatefulspark.spark.log={file}")


def forward(lines: IO[bytes], target: TextIO) -> None:
    """Write what the JVM and its Python workers print, such as the prints of a job's functions, but not their chatter.

    Args:
        lines: Their standard error.
        target: Standard error of this process.
    """
    was_chatter = False
    for line in lines:
        is_chatter = _CHATTER.match(line) is not None or (was_chatter and not line.strip())
        if not is_chatter:
            target.write(line.decode(errors="replace"))
            target.flush()
        was_chatter = is_chatter


def path_of(application: str) -> Path:
    """Return the file of Spark's log, in a folder that only this user can write; each process has its own."""
    folder = Path(tempfile.gettempdir()) / f"statefulspark-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        folder = Path(tempfile.mkdtemp(prefix="statefulspark-"))
    return folder / f"spark-{application.replace('/', '-')}-{os.getpid()}.log"
