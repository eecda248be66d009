"""Drivers and standbys of the job as processes of this machine, started and asked as a person does it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from demo.failure import DemoFailedError
from statefulspark import errors
from statefulspark.cli import api_client
from statefulspark.contract import api

TOKEN = "demo"  # noqa: S105 - it guards the demo's own drivers, on loopback
LOOK_INTERVAL_S = 0.25
_LOG_LINES = 15
_END_S = 30.0
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the demo keeps what it makes.

    Attributes:
        held: Days that have not come yet.
        input: The flights, a CSV file for each day.
        state: The job's storage.
        output: What its sinks write.
        logs: One file for each driver.
    """

    held: Path
    input: Path
    state: Path
    output: Path
    logs: Path

    @classmethod
    def below(cls, folder: Path) -> Folders:
        """Name the folders below one."""
        return cls(folder / "held", folder / "input", folder / "state", folder / "output", folder / "logs")


@dataclass
class Driver:
    """One process of `statefulspark run`.

    Attributes:
        name: Names its log.
        command: What was started, without the path of the interpreter.
        port: Of its API and its page.
        log: What it prints.
    """

    name: str
    command: Sequence[str]
    port: int
    log: Path
    _process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def page(self) -> str:
        """Address of its page."""
        return f"http://localhost:{self.port}/ui"

    @property
    def exit_code(self) -> int | None:
        """The code that it ended with, None while it runs."""
        return self._process.poll()

    def status(self) -> api.JobStatus | None:
        """Return what its API says, None while nothing listens there."""
        with contextlib.suppress(errors.TransientError):
            return api_client.ApiClient(self._url, TOKEN).status()
        return None

    def is_ready(self) -> bool:
        """Tell whether it is a standby that can take over.

        Raises:
            DemoFailedError: It has ended.
        """
        if self.exit_code is not None:
            raise DemoFailedError(f"{self.name} ended with exit code {self.exit_code}.\n{self.tail()}")
        status = self.status()
        return status is not None and status.standby is not None and status.standby.state is api.StandbyState.READY

    def activate(self, epoch: int) -> None:
        """Make a standby the driver: `POST /v1/activate`, as the operator does."""
        body = json.dumps({"requestId": f"epoch-{epoch}", "epoch": epoch}).encode()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_END_S)) as connection:
            connection.request("POST", "/v1/activate", body, {"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            if answer.status != HTTPStatus.ACCEPTED:
                raise DemoFailedError(f"{self.name} does not take over: {answer.read().decode()}")

    def stop_with_savepoint(self) -> str:
        """Stop the job as `statefulspark stop --savepoint` does, and return the savepoint's location."""
        command = [*_PROGRAM, "stop", "--savepoint", "--quiet", "-o", "json", "--url", self._url, "--token", TOKEN]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DemoFailedError(f"The job did not stop with a savepoint: {done.stderr.strip()}")
        self.wait_end()
        location: str = json.loads(done.stdout)["snapshot"]["location"]
        return location

    def kill(self) -> None:
        """End it without grace, as `kill -9` does; its JVM ends with it."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_END_S)

    def wait_end(self) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired as error:
            raise DemoFailedError(f"{self.name} has not ended after {_END_S:.0f} s; its log is {self.log}.") from error

    def wait_for(self, look: Callable[[], _Answer | None], what: str, limit_s: float) -> _Answer:
        """Look until there is an answer.

        Raises:
            DemoFailedError: It has ended, or it takes too long; the message has the end of its log.
        """
        deadline = time.monotonic() + limit_s
        while (answer := look()) is None:
            if self.exit_code is not None:
                raise DemoFailedError(f"{self.name} ended with exit code {self.exit_code}.\n{self.tail()}")
            if time.monotonic() > deadline:
                raise DemoFailedError(f"Waited {limit_s:.0f} s for {what}; the log is {self.log}.\n{self.tail()}")
            time.sleep(LOOK_INTERVAL_S)
        return answer

    def tail(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:])

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


_PROGRAM = (sys.executable, "-m", "statefulspark.cli.main")


@dataclass
class Drivers:
    """Starts drivers, and leaves none behind.

    Attributes:
        folders: Where the job reads and writes.
        files_per_batch: Days in a batch.
    """

    folders: Folders
    files_per_batch: int
    _started: list[Driver] = field(default_factory=list)

    def start(self, name: str, file: Path, *flags: str) -> Driver:
        """Start a driver of a job file, or with `--standby` a standby, and return at once."""
        port = _free_port()
        arguments = [
            *("run", str(file), "--storage", self.folders.state.as_uri(), "--allow-local-files"),
            *("--checkpoint-interval", "2s", "--api-port", str(port), "--log-format", "text"),
            *("--conf", "spark.sql.shuffle.partitions=2"),
            *("--parameter", f"input={self.folders.input.as_uri()}"),
            *("--parameter", f"output={self.folders.output.as_uri()}"),
            *("--parameter", f"files_per_batch={self.files_per_batch}"),
            *flags,
        ]
        self.folders.logs.mkdir(parents=True, exist_ok=True)
        log = self.folders.logs / f"{len(self._started) + 1}-{name.replace(' ', '-')}.log"
        environment = {**os.environ, "STATEFULSPARK_TOKEN": TOKEN, "SPARK_LOCAL_IP": "127.0.0.1"}
        with log.open("wb") as output:
            process = subprocess.Popen([*_PROGRAM, *arguments], stdout=output, stderr=output, env=environment)
        driver = Driver(name, ("statefulspark", *arguments), port, log, process)
        self._started.append(driver)
        return driver

    def end_all(self) -> None:
        """Kill whatever still runs."""
        for driver in self._started:
            if driver.exit_code is None:
                driver.kill()


def shown(driver: Driver, *flags: str) -> str:
    """Write the command of a driver as a person would type it, without what is the same for all of them."""
    return "$ " + shlex.join(["statefulspark", "run", Path(driver.command[2]).name, *flags])


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
