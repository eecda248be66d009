"""Whole drivers in processes of their own, JVM and all, that can be paused, resumed and killed.

`Driver` is the starts of one job, one after the other, into one log. `running` runs one on S3 while a block runs.
"""

from __future__ import annotations

import http.client
import json
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import processes
from s3server import ACCESS_KEY, SECRET_KEY, S3Server
from statefulspark.contract import api, config

COMMAND = (sys.executable, "-m", "statefulspark.cli.main")
"""The command line, as a process of its own."""
ENVIRONMENT = {"SPARK_LOCAL_IP": processes.LOOPBACK, "JAVA_TOOL_OPTIONS": processes.SHORT_LIVED}
"""What everything that starts a driver is given."""
_SOURCES = Path(__file__).resolve().parents[2] / "jobruntime" / "src"
_THREADS_ARE_PRINTED_S = 2.0
TOKEN = "a-token"
"""What each `Driver` asks of who calls its API."""
_IS_UP = '"api listening"'


@contextmanager
def own_session(log: Path, **environment: str) -> Iterator[processes.Process]:
    """Let a test launch a job as a person does: in a session of its own, with all of its family killed at the end."""
    own = {**ENVIRONMENT, **environment}
    started = processes.Process("the job", log, environment=own, leads_session=True)
    yield started
    started.send_to_family(signal.SIGKILL)
    started.stop()


class SparkDriver(processes.Process, ABC):
    """A driver of Spark with its JVM and its workers, started again as often as a test wants.

    Args:
        log: What all its starts print.
        environment: Variables beside those of this process.
        patience_s: Longest time to wait for anything.
    """

    def __init__(self, log: Path, *, environment: Mapping[str, str], patience_s: float) -> None:
        own = {**ENVIRONMENT, "PYSPARK_PYTHON": sys.executable, **environment}
        super().__init__("the driver", log, environment=own, leads_session=True)
        self._patience_s = patience_s

    @abstractmethod
    def start(self, *flags: str) -> None:
        """Start it and return at once."""

    @property
    @abstractmethod
    def is_up(self) -> bool:
        """Whether its start is done."""

    def until(self, fact: Callable[[], bool], what: str) -> None:
        """Wait until something holds while it runs."""
        self.wait_until(fact, what, self._patience_s)

    def explain_waiting(self) -> None:
        """Have the JVM print its threads into the log, too."""
        super().explain_waiting()
        self.send_to_family(signal.SIGQUIT, only="java")
        time.sleep(_THREADS_ARE_PRINTED_S)

    def ends(self) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        return self.wait_end(self._patience_s)

    def pause(self) -> None:
        """Stop every thread of the driver and its JVM where they are."""
        self.send_to_family(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self.send_to_family(signal.SIGCONT)

    def stop(self, number: signal.Signals = signal.SIGKILL, within_s: float = 30.0) -> int | None:
        """End the driver and its JVM, as a node that dies; nothing happens if it does not run."""
        self.send_to_family(number)
        return super().stop(number, within_s)


class Driver(SparkDriver):
    """A job's driver, started again as often as a test wants, by `statefulspark run`.

    Args:
        job_file: The job.
        storage: URI.
        log: What all its starts print.
        flags: Of every start.
        environment: Variables beside those of this process.
        patience_s: Longest time to wait for anything.
        python: The interpreter, which decides which PySpark it is.
    """

    def __init__(
        self,
        job_file: Path,
        storage: str,
        log: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        patience_s: float = 240.0,
        python: str = sys.executable,
    ) -> None:
        own = {"PYTHONPATH": str(_SOURCES), "PYSPARK_PYTHON": python, config.ENV_TOKEN: TOKEN, **(environment or {})}
        super().__init__(log, environment=own, patience_s=patience_s)
        self._command = [python, *COMMAND[1:], "run", str(job_file), "--storage", storage, "--api-port", "0", *flags]

    def start(self, *flags: str) -> None:
        """Start it and return at once."""
        self.launch([*self._command, *flags])

    @property
    def is_up(self) -> bool:
        """Whether its start is done: a signal is then answered by a last checkpoint."""
        return _IS_UP in self.output

    @property
    def port(self) -> int:
        """The port of its API."""
        (line,) = (line for line in self.output.splitlines() if _IS_UP in line)
        return int(json.loads(line)["port"])

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> tuple[int, dict[str, object]]:
        """Call its API, and return the code and the answer."""
        connection = http.client.HTTPConnection(processes.LOOPBACK, self.port, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    @property
    def status(self) -> api.JobStatus:
        """What it says of itself."""
        return api.JobStatus.model_validate(self.ask("GET", "/v1/status")[1])

    def stands(self, state: api.StandbyState) -> api.StandbyStatus:
        """Wait until a standby has a state."""
        self.until(lambda: self.is_up, "it serves")

        def told() -> api.StandbyStatus | None:
            return self.status.standby

        self.until(lambda: (standby := told()) is not None and standby.state is state, f"it is {state.value}")
        standby = told()
        assert standby is not None
        return standby

    def activate(self, epoch: int) -> tuple[int, dict[str, object]]:
        """Have a standby take over."""
        return self.ask("POST", "/v1/activate", {"requestId": f"take-{epoch}", "epoch": epoch})

    def drains(self) -> int:
        """Ask it to drain, as the kubelet does, wait for its end and return its exit code."""
        self.terminate()
        return self.ends()

    def terminate(self) -> None:
        """Ask it to drain, as the kubelet does."""
        self.send(signal.SIGTERM)


@contextmanager
def running(job_file: Path, s3: S3Server, storage: str, folder: Path, *flags: str) -> Iterator[Driver]:
    """Run a driver while the block runs.

    Args:
        job_file: The job.
        s3: Server of its storage.
        storage: URI.
        folder: Gets its log.
        flags: Further flags of `statefulspark run`.
    """
    log = folder / f"driver-{len(list(folder.glob('driver-*')))}.log"
    secrets = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    driver = Driver(job_file, storage, log, "--endpoint", s3.endpoint, *flags, environment=secrets)
    try:
        driver.start()
        yield driver
    finally:
        driver.stop()
