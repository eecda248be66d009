"""Flink under measurement, and the settings it is measured with: one task manager in one JVM, on loopback and local disk.

Every setting that differs from Flink's own is named here. Built by `make flink`; PyFlink comes with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import machine

HOME = machine.ROOT / "build" / "flink"
PYTHON = HOME / "venv" / "bin" / "python"
PARALLELISM = 2
_PYFLINK_LIMIT_S = 1800
Settings = Mapping[str, str]

_COMMON = {
    "jobmanager.rpc.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "rest.address": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
    # Room for the buffers between source and count; the default of a cluster in one JVM is 64 MB.
    "taskmanager.memory.network.min": "128mb",
    "taskmanager.memory.network.max": "128mb",
}
HEAP: Settings = {**_COMMON, "state.backend.type": "hashmap"}
ROCKSDB: Settings = {
    **_COMMON,
    "state.backend.type": "rocksdb",
    # Managed memory is RocksDB's: write buffers and block cache of both subtasks. The state fits twice.
    "taskmanager.memory.managed.size": "3gb",
    "state.backend.rocksdb.use-bloom-filter": "true",
    "state.backend.rocksdb.thread.num": "4",
    "execution.checkpointing.incremental": "true",
}
PYFLINK: Settings = {
    **ROCKSDB,
    # In the JVM's own process, where a state is a call of Java's; Flink's default is a process of its own.
    "python.execution-mode": "thread",
}
PYFLINK_PROCESS: Settings = {
    **ROCKSDB,
    # A state that is not cached is a request to the JVM, so longer bundles and larger caches gain nothing with random keys:
    # these are Flink's defaults.
    "python.execution-mode": "process",
    "python.fn-execution.bundle.size": "1000",
    "python.fn-execution.bundle.time": "1000",
    "python.state.cache-size": "1000",
    "python.fn-execution.memory.managed": "false",
}
_OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.util", "java.util.concurrent")
)


def require() -> None:
    """Refuse to go on without Flink.

    Raises:
        SystemExit: It says how to get it.
    """
    if not (HOME / "bench.jar").exists():
        raise SystemExit("Flink is not here; run `make flink` first.")


def class_path() -> str:
    """Return the class path: Flink as it is, and the jobs."""
    jars = sorted((HOME / "venv" / "lib").glob("python3.*/site-packages/pyflink/lib/*.jar"))
    return os.pathsep.join(str(jar) for jar in [HOME / "bench.jar", *jars])


@dataclass(slots=True)
class Flink:
    """A running cluster.

    Attributes:
        process: Its JVM.
        started_s: Seconds from the start of the process until it took jobs.
    """

    process: subprocess.Popen[str]
    log: Path
    started_s: float = 0.0
    _began_s: float = field(default_factory=time.monotonic)

    def ask(self, *command: object) -> machine.Json:
        """Give a command of `Main` and return its answer.

        Raises:
            SystemExit: It has failed; the end of its log is shown.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(str(word) for word in command) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> machine.Json:
        """Wait for the next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"Flink ended:\n{self.log.read_text()[-3000:]}")
        found: machine.Json = json.loads(line)
        return found

    def wait_ready(self) -> None:
        """Wait until it takes jobs."""
        self.answer()
        self.started_s = time.monotonic() - self._began_s


@contextmanager
def running(settings: Settings, folder: Path, *, heap: str = "2g") -> Iterator[Flink]:
    """Run a cluster below a folder; its process is gone afterwards.

    Args:
        settings: Of Flink.
        folder: For its state, its log and what it needs besides.
        heap: Size of the JVM's heap.
    """
    require()
    (local := folder / "local").mkdir(parents=True, exist_ok=True)
    wanted = {**settings, "io.tmp.dirs": str(local), "execution.checkpointing.dir": f"file://{folder}/checkpoints"}
    command = ["java", f"-Xms{heap}", f"-Xmx{heap}", *_OPENED, f"-Djava.io.tmpdir={local}", "-cp", class_path()]
    command += ["statefulspark.bench.Main", str(PARALLELISM), *(f"{name}={value}" for name, value in wanted.items())]
    with (folder / "flink.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    flink = Flink(process, folder / "flink.log")
    try:
        flink.wait_ready()
        yield flink
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End a cluster's process: it goes by itself at the end of its commands."""
    try:
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def pyflink_count(
    *, keys: int, warm_rows: int, rows: int, value_bytes: int, compressible: bool, settings: Settings, folder: Path
) -> machine.Json:
    """Run the count in PyFlink and return what was measured.

    Raises:
        SystemExit: It has failed; the end of its output is shown.
    """
    require()
    (local := folder / "local").mkdir(parents=True, exist_ok=True)
    wish = {
        "keys": keys,
        "warmRows": warm_rows,
        "rows": rows,
        "valueBytes": value_bytes,
        "compressible": compressible,
        "parallelism": PARALLELISM,
        "settings": {**settings, "io.tmp.dirs": str(local), "python.executable": str(PYTHON)},
    }
    env = {**os.environ, "HADOOP_CLASSPATH": str(HOME / "bench.jar"), "JVM_ARGS": f"-Xmx2g -Djava.io.tmpdir={local}"}
    # Python inside the JVM finds PyFlink by this alone.
    env["PYTHONPATH"] = str(next((HOME / "venv" / "lib").glob("python3.*/site-packages")))
    script = Path(__file__).parent / "pyflink_count.py"
    command = [str(PYTHON), str(script), json.dumps(wish)]
    try:
        ended = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=_PYFLINK_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"PyFlink has not ended after {_PYFLINK_LIMIT_S} s.") from error
    if ended.returncode != 0:
        raise SystemExit(f"PyFlink failed:\n{(ended.stdout + ended.stderr)[-3000:]}")
    found: machine.Json = json.loads(ended.stdout.splitlines()[-1])
    return found
