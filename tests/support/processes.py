"""Processes that tests and benchmarks start: the base of every server starter, ended by their process ids.

A process writes into a log. Whoever waits for it waits until a deadline, notices that it has ended, and fails with the end
of that log. `Server` adds what servers have in common: a command, a question that tells whether it answers, and a start that
waits for it. Only a process that is talked to over pipes is started elsewhere.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

LOOPBACK = "127.0.0.1"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of JVMs that do not live long enough for what they would compile; `JAVA_TOOL_OPTIONS` is their variable."""
_LOOKS_EVERY_S = 0.02
_MOST_OF_LOG = 3000
_SERVER = TypeVar("_SERVER", bound="Server")


class Process:
    """A process that may be started again after it has ended; its log goes on then.

    Attributes:
        name: For errors.
        log: What it prints.

    Args:
        name: For errors.
        log: File that it appends its output to.
        environment: Variables beside those of this process.
        user: Who runs it; None for the user of this process.
        leads_session: Whether it gets a session of its own, in which everything that it starts is, too.
    """

    def __init__(
        self,
        name: str,
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        leads_session: bool = False,
    ) -> None:
        self.name, self.log = name, log
        self._environment = {**os.environ, **(environment or {})}
        self._user, self._leads_session = user, leads_session
        self._log_began_at = 0
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, command: Sequence[str]) -> None:
        """Start it and return at once."""
        assert not self.runs, f"{self.name} runs already"
        self._log_began_at = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=self._environment,
                user=self._user,
                start_new_session=self._leads_session,
            )

    @property
    def pid(self) -> int:
        """The process id of the newest start."""
        return self._started.pid

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that killed it."""
        return self._started.poll()

    @property
    def output(self) -> str:
        """What it has printed since its newest start."""
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[self._log_began_at :].decode(errors="replace")

    @property
    def tail(self) -> str:
        """The end of its output, for errors."""
        return self.output[-_MOST_OF_LOG:]

    def wait_until(self, fact: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait until something holds; the test fails, with the end of the log, if it ends or the time is over before.

        Args:
            fact: Tells whether it holds; asked about fifty times a second.
            what: The fact in words, for the error.
            within_s: Longest time to wait.
        """
        deadline_s = time.monotonic() + within_s
        while not fact():
            code = self.exit_code
            if code is not None and not fact():
                self._fail(f"ended with {code} before {what}")
            if time.monotonic() > deadline_s:
                self.explain_waiting()
                self._fail(f"runs, but after {within_s:.0f} s it is still not so that {what}")
            time.sleep(_LOOKS_EVERY_S)

    def explain_waiting(self) -> None:
        """Print into its log what it and everything below it are doing, for whoever reads why it hangs."""
        states = [f"{pid} {_state(pid)}" for pid in _family(self.pid)] if self.runs else []
        with self.log.open("a") as log:
            log.write("".join(f"{line}\n" for line in states))

    def wait_end(self, within_s: float) -> int:
        """Wait until it has ended by itself and return its exit code; the test fails if the time is over before."""
        try:
            return self._started.wait(within_s)
        except subprocess.TimeoutExpired:
            self.send_to_family(signal.SIGKILL)
            self._fail(f"did not end within {within_s:.0f} s")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it alone; one that has ended gets none."""
        self._started.send_signal(number)

    def send_to_family(self, number: signal.Signals, *, only: str = "") -> None:
        """Send a signal to it and to everything below it, or to what has a name; nobody gets one once it has ended."""
        for pid in _family(self.pid) if self.runs else ():
            if not only or _state(pid).startswith(only):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def stop(self, number: signal.Signals = signal.SIGKILL, within_s: float = 15.0) -> int | None:
        """End it, and kill it with everything below it if a signal does not; nothing happens if it does not run.

        Returns:
            Its exit code; None if it was never started.
        """
        if self._process is None:
            return None
        if self.runs:
            self.send(number)
            try:
                self._process.wait(within_s)
            except subprocess.TimeoutExpired:
                self.send_to_family(signal.SIGKILL)
        return self._process.wait(within_s)

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    def _fail(self, sentence: str) -> NoReturn:
        pytest.fail(f"{self.name} {sentence}; the end of {self.log}:\n{self.tail}", pytrace=False)


class Server(Process, ABC):
    """A process that answers somewhere, on ports that were free when it was made.

    Attributes:
        starts_within_s: Longest time until it answers.
        ends_with: The signal that ends it.
    """

    starts_within_s = 30.0
    ends_with = signal.SIGKILL

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return what to start; prepare what it needs before."""

    @abstractmethod
    def answers(self) -> bool:
        """Tell whether it is ready for clients."""

    def start(self) -> None:
        """Start it and wait until it answers; again after `stop`, on the same ports with what it has stored."""
        self.launch(self.command())
        try:
            self.wait_until(self.answers, "it answers", self.starts_within_s)
        except BaseException:
            self.stop()
            raise

    def stop(self, number: signal.Signals | None = None, within_s: float = 15.0) -> int | None:
        """End it at once; the connections of its clients break."""
        return super().stop(number or self.ends_with, within_s)


@contextmanager
def serving(server: _SERVER) -> Iterator[_SERVER]:
    """Run a server while the block runs."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP unwind this process while the block runs, so that what it has started is ended, too.

    By itself Python ends at once with these signals, and leaves its children. The first one raises SystemExit with the exit
    code of a shell, 128 and the signal's number; those that follow change nothing, since the unwinding is under way.
    """
    asked: list[int] = []

    def unwind(number: int, _frame: object) -> None:
        asked.append(number)
        if len(asked) == 1:
            raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def require(path: Path, target: str) -> None:
    """Fail with the command that makes a file which has to be there."""
    if not path.exists():
        pytest.fail(f"{path} is missing; run `make {target}` first.", pytrace=False)


def write_program(path: Path, *command: str | Path) -> None:
    """Write a program that is another command with the arguments that it gets."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(str(word) for word in command)} "$@"\n')
    path.chmod(0o755)


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    return free_ports(1)[0]


def free_ports(count: int) -> tuple[int, ...]:
    """Return several free ports, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return tuple(probe.getsockname()[1] for probe in probes)
    finally:
        for probe in probes:
            probe.close()


def is_open(port: int) -> bool:
    """Tell whether somebody listens on a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _state(pid: int) -> str:
    """Return what a process is called, and where in the kernel it is."""
    texts = []
    for name in ("comm", "wchan", "syscall"):
        try:
            texts.append(Path(f"/proc/{pid}/{name}").read_text().strip()[:60])
        except OSError:
            texts.append("gone")
    return " ".join(texts)


def _family(pid: int) -> list[int]:
    """Return a process and everything below it."""
    found = [pid]
    for parent in found:
        with suppress(OSError):
            children = [path.read_text().split() for path in Path(f"/proc/{parent}/task").glob("*/children")]
            found += [int(child) for names in children for child in names if int(child) not in found]
    return found
