"""Processes that are measured side by side: one runs, the others are stopped, and after each step it is the next one's turn.

A machine that gets slower or faster meanwhile does so for all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import machine

_DONE = "this turn is done"
_MOST_OF_LOG = 5000
_JVM_ENDS_S = 20.0
_NOTHING = 0
"""The signal that only tells whether a process is there."""


class Player:
    """A process that takes turns: it has called `mine`, and so has nothing to do but in its turns.

    Args:
        name: For errors.
        process: Itself, the first of its process group.
        log: Where its standard error goes.
    """

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self._name, self._process, self._log = name, process, log

    def turn(self) -> None:
        """Let it take one turn."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.rest()

    def rest(self) -> None:
        """Wait until its turn is done, then stop it.

        Raises:
            SystemExit: It has ended instead.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == _DONE:
                self._signal(signal.SIGSTOP)
                return
        self._fail()

    def end(self) -> None:
        """Tell it that there are no more turns, and wait until it has ended; its JVM gets a little longer.

        Raises:
            SystemExit: It has failed.
        """
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.close()
        if self._process.wait() != 0:
            self._fail()
        deadline = time.monotonic() + _JVM_ENDS_S
        while self._signal(_NOTHING) and time.monotonic() < deadline:
            time.sleep(0.1)

    def kill(self) -> None:
        """End what is left of it, whatever it does."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> bool:
        """Send a signal to it and its JVM, for which its Python workers wait; tell whether anybody was there."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _fail(self) -> None:
        raise SystemExit(f"{self._name} failed:\n{self._log.read_text()[-_MOST_OF_LOG:]}")


@contextmanager
def player(name: str, command: Sequence[str], log: Path) -> Iterator[Player]:
    """Start a process, wait until it is ready for its first turn and stop it; at the end of the block it is gone."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=machine.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    started = Player(name, process, log)
    try:
        started.rest()
        yield started
    finally:
        started.kill()


def mine() -> Iterator[None]:
    """Yield for each turn of this process; what is done before the next is that turn."""
    print(_DONE, flush=True)
    for _ in sys.stdin:
        yield
        print(_DONE, flush=True)
