"""A standalone Spark cluster of processes: a master, and workers on hosts of their own, ended by their process ids.

The hosts are different addresses of the loopback interface. Spark runs a speculative copy of a task only on another host
than the first attempt's, so what `local-cluster` starts, with all its executors on one host, never has any.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import processes
import pyspark

_SPARK = Path(pyspark.__file__).parent
_URL = r"Starting Spark master at (spark://[\d.:]+)"
_REGISTERED = "(Successfully registered with master)"


class Cluster:
    """A master, and nodes that may be lost and come back.

    Attributes:
        url: The master's.

    Args:
        folder: Gets logs and what the workers write.
        memory: Memory of a worker, for example `700m`.
        cores: Cores of a worker.
    """

    def __init__(self, folder: Path, *, memory: str, cores: int) -> None:
        self._folder, self._memory, self._cores = folder, memory, cores
        self._master = _Member(folder, "master", processes.LOOPBACK, says=_URL)
        self._nodes: dict[str, _Member] = {}
        self.url = ""

    def start(self, hosts: Sequence[str]) -> None:
        """Start the master and a worker on each host."""
        self._master.start()
        self.url = self._master.said
        for host in hosts:
            self._launch(host)
        for host in hosts:
            self._until_registered(host)

    def bring_back(self, host: str) -> None:
        """Start the worker of a host that was lost, or of one more."""
        self._launch(host)
        self._until_registered(host)

    def lose(self, host: str) -> None:
        """Kill everything on a host at once, its executors and their Python workers too."""
        for pid in _members_of(self._nodes[host].pid):
            _kill(pid)
        self._nodes[host].stop(signal.SIGKILL)

    def pids(self, host: str, word: str) -> list[int]:
        """Return the processes of a host whose command line has a word in it, the oldest first."""
        return sorted(pid for pid in _members_of(self._nodes[host].pid) if word in _command_of(pid))

    def stop(self) -> None:
        """End everything."""
        for member in (*reversed(self._nodes.values()), self._master):
            member.stop()

    def _launch(self, host: str) -> None:
        resources = ("--cores", str(self._cores), "--memory", self._memory, self.url)
        self._nodes[host] = _Member(self._folder, "worker", host, *resources, says=_REGISTERED)
        self._nodes[host].launch(self._nodes[host].command())

    def _until_registered(self, host: str) -> None:
        worker = self._nodes[host]
        worker.wait_until(worker.answers, "it has registered", worker.starts_within_s)


@contextmanager
def cluster(folder: Path, *, hosts: tuple[str, ...], memory: str, cores: int = 1) -> Iterator[Cluster]:
    """Run a cluster while the block runs; no process of it, or of its executors, is left afterwards.

    Args:
        folder: Gets logs and what the workers write.
        hosts: Address of each worker.
        memory: Memory of a worker, for example `700m`.
        cores: Cores of a worker.
    """
    made = Cluster(folder, memory=memory, cores=cores)
    try:
        made.start(hosts)
        yield made
    finally:
        made.stop()


@contextmanager
def running(folder: Path, *, hosts: tuple[str, ...], memory: str) -> Iterator[str]:
    """Run a cluster of one core on each host while the block runs, and yield the master's URL; see `cluster`."""
    with cluster(folder, hosts=hosts, memory=memory) as made:
        yield made.url


class _Member(processes.Server):
    """A master or a worker.

    It leads a session of its own, in which its executors and their Python daemons are, too.
    """

    starts_within_s = 60.0
    ends_with = signal.SIGTERM  # which ends its executors

    def __init__(self, folder: Path, kind: str, host: str, *arguments: str, says: str) -> None:
        super().__init__(
            f"the {kind} on {host}",
            folder / f"{kind}-{host}.log",
            environment=_environment(folder, host),
            leads_session=True,
        )
        self._kind, self._host, self._arguments = kind, host, arguments
        self._says = re.compile(says)

    def command(self) -> Sequence[str]:
        """Return what to start."""
        command = [
            str(_SPARK / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{self._kind}.{self._kind.capitalize()}",
        ]
        return [*command, "--host", self._host, "--port", "0", "--webui-port", "0", *self._arguments]

    def answers(self) -> bool:
        """Tell whether it has said what it says when it is up."""
        return self._says.search(self.output) is not None

    @property
    def said(self) -> str:
        """What the pattern's group has found."""
        found = self._says.search(self.output)
        assert found is not None, self.tail
        return found[1]

    def stop(self, number: signal.Signals | None = None, within_s: float = 15.0) -> int | None:
        """Ask it to end, and kill what is left of its session after a while."""
        code = super().stop(number, within_s)
        for pid in [] if code is None else _members_of(self.pid):
            _kill(pid)
        return code


def _environment(folder: Path, host: str) -> dict[str, str]:
    return {
        "SPARK_HOME": str(_SPARK),
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": processes.SHORT_LIVED,  # of executors, too, which inherit it from their worker
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(folder / f"local-{host}"),
        "SPARK_WORKER_DIR": str(folder / f"work-{host}"),
        "PYSPARK_PYTHON": sys.executable,
    }


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


def _command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
