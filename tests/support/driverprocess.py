"""A whole driver in a process of its own, JVM and all, that can be paused, resumed and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from s3server import ACCESS_KEY, SECRET_KEY, S3Server

_SOURCES = Path(__file__).resolve().parents[2] / "jobruntime" / "src"


class DriverProcess:
    """One started driver.

    Attributes:
        log: Everything that it said.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that killed it."""
        return self._process.poll()

    def pause(self) -> None:
        """Stop every thread of the driver and its JVM where they are."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the driver and its JVM, as a node that dies."""
        self._signal_all(signal.SIGKILL)
        self._process.wait(30)

    def terminate(self) -> None:
        """Ask the driver to drain, as the kubelet does."""
        self._process.send_signal(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in _family(self._process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


@contextmanager
def running(job_file: Path, s3: S3Server, storage: str, folder: Path, *arguments: str) -> Iterator[DriverProcess]:
    """Run a driver while the block runs.

    Args:
        job_file: The job.
        s3: Server of its storage.
        storage: URI.
        folder: Gets its log.
        arguments: Further arguments of `statefulspark run`.
    """
    log = folder / f"driver-{len(list(folder.glob('driver-*')))}.log"
    program = Path(sys.executable).with_name("statefulspark")
    command = [str(program), "run", str(job_file), "--storage", storage]
    command += ["--endpoint", s3.endpoint, "--api-port", "0", *arguments]
    env = {
        **os.environ,
        "PYTHONPATH": str(_SOURCES),
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env, start_new_session=True)
    driver = DriverProcess(process, log)
    try:
        yield driver
    finally:
        driver.kill()


def _family(pid: int) -> list[int]:
    """Return a process and everything below it."""
    found = [pid]
    for parent in found:
        try:
            children = [path.read_text().split() for path in Path(f"/proc/{parent}/task").glob("*/children")]
        except OSError:
            continue
        found += [int(child) for names in children for child in names if int(child) not in found]
    return found
