"""A standalone Spark cluster of processes: a master, and workers on hosts of their own, ended by their process ids.

The hosts are different addresses of the loopback interface. Spark runs a speculative copy of a task only on another host
than the first attempt's, so what `local-cluster` starts, with all its executors on one host, never has any.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

_SPARK = Path(pyspark.__file__).parent
_MASTER_HOST = "127.0.0.1"
_STARTS_WITHIN_S = 60.0
_ENDS_WITHIN_S = 15.0
_URL = re.compile(r"Starting Spark master at (spark://[\d.:]+)")
_REGISTERED = "Successfully registered with master"


@contextmanager
def running(folder: Path, *, hosts: tuple[str, ...], memory: str) -> Iterator[str]:
    """Run a cluster while the block runs; no process of it, or of its executors, is left afterwards.

    Args:
        folder: Gets logs and what the workers write.
        hosts: Address of each worker; it has one core.
        memory: Memory of a worker, for example `700m`.

    Yields:
        The master's URL.
    """
    started: list[_Member] = []
    try:
        master = _Member(folder, "master", _MASTER_HOST)
        started.append(master)
        url = master.says(_URL)
        resources = ("--cores", "1", "--memory", memory)
        started += [_Member(folder, "worker", host, *resources, url) for host in hosts]
        for worker in started[1:]:
            worker.says(re.compile(f"({_REGISTERED})"))
        yield url
    finally:
        for member in reversed(started):
            member.end()


class _Member:
    """A master or a worker.

    It leads a session of its own, in which its executors and their Python daemons are, too.
    """

    def __init__(self, folder: Path, kind: str, host: str, *arguments: str) -> None:
        self._log = folder / f"{kind}-{host}.log"
        command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"]
        command += ["--host", host, "--port", "0", "--webui-port", "0", *arguments]
        env = os.environ | {
            "SPARK_HOME": str(_SPARK),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(folder / f"local-{host}"),
            "SPARK_WORKER_DIR": str(folder / f"work-{host}"),
            "PYSPARK_PYTHON": sys.executable,
        }
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, env=env, start_new_session=True)

    def says(self, wanted: re.Pattern[str]) -> str:
        """Wait until a line is in the log, and return what the pattern's group found."""
        deadline_s = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            found = wanted.search(self._log.read_text())
            if found is not None:
                return found[1]
            time.sleep(0.05)
        pytest.fail(f"a part of the cluster did not start: {self._log.read_text()[-2000:]}", pytrace=False)

    def end(self) -> None:
        """Ask it to end, which ends its executors, and kill what is left of them after a while."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)
        for pid in _members_of(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(_ENDS_WITHIN_S)


def _members_of(session: int) -> list[int]:
    """Return the processes of a session."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name of the program is in brackets and may have blanks; the session is the fourth field after it.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                found.append(int(process.name))
    return found
