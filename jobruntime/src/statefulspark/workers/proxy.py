"""What Spark takes for a Python worker. It hands tasks with keyed state on, and runs all others itself.

Spark gives a task to whichever worker has been idle longest, so the state that a worker keeps between batches is of
another partition every other time. A front gives such a task, with its connection to Spark, to the keeper, which knows the
process that has the partition's state. The front stays until the task has ended: when Spark kills it, the task ends
with it, and when the task's process dies, so does the front.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from statefulspark.workers import broadcasts, handover, header

RunTask = Callable[[socket.socket, bool], int]
_INT_BYTES = 4
_FAILED = 1


class Front:
    """Takes the place of the function by which PySpark's daemon runs one task.

    Args:
        keeper: Where tasks are handed over.
        run_here: What runs a task in this very process: PySpark's function.
    """

    def __init__(self, keeper: socket.socket, run_here: RunTask) -> None:
        self._keeper = keeper
        self._run_here = run_here

    def __call__(self, task: socket.socket, authenticated: bool) -> int:
        """Wait for a task, have it run, and return its exit code; what is not 0 ends the worker."""
        _reset_signals()
        if not authenticated and not _authenticate(task):
            task.close()
            return _FAILED
        place = header.place_of_state(task)
        code = None if place is None else self._hand_over(task, place)
        return self._run_here(task, True) if code is None else code  # noqa: FBT003 - PySpark's signature

    def _hand_over(self, task: socket.socket, place: str) -> int | None:
        """Have a task run elsewhere and return its exit code; None when nobody can take it."""
        mine, theirs = socket.socketpair()
        answer = ""
        with mine, mine.makefile() as stream:
            with theirs:
                try:
                    handover.send(self._keeper, place, [task, theirs])
                except OSError:
                    return None
            # Whoever declines, or has died, reads no more; the answer is there all the same.
            with suppress(ConnectionError):
                mine.sendall(json.dumps(broadcasts.known()).encode() + b"\n")
            with suppress(ConnectionError):
                answer = stream.readline()
        if not answer:
            # At once, as it would be without us: PySpark's daemon waits for Spark after a task that only failed.
            os._exit(_FAILED)
        ended = json.loads(answer)
        if ended is None:
            return None
        code, files = ended
        broadcasts.take(files)
        return int(code)


def _reset_signals() -> None:
    """Undo what the daemon set for itself."""
    for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _authenticate(task: socket.socket) -> bool:
    """Check the secret that Spark sends first, as PySpark does; nothing behind it may be read."""
    length = int.from_bytes(task.recv(_INT_BYTES, socket.MSG_WAITALL), "big")
    is_right = task.recv(length, socket.MSG_WAITALL).decode() == os.environ["PYTHON_WORKER_FACTORY_SECRET"]
    answer = b"ok" if is_right else b"err"
    task.sendall(len(answer).to_bytes(_INT_BYTES, "big") + answer)
    return is_right
