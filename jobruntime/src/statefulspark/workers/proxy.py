"""The process that Spark uses as its Python worker. It passes tasks with keyed state on, and runs all others itself.

Spark assigns a task to the worker that has been idle longest, so state that a worker keeps between batches would often
belong to another partition. The proxy passes a task with state, and its connection to Spark, to the worker pool, which
knows the process that has the partition's state. The proxy waits until the task has ended: when Spark kills the proxy, the
task ends, and when the task's process dies, the proxy ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from statefulspark.workers import handover, header

RunTask = Callable[[socket.socket, bool], int]
_INT_BYTES = 4
_FAILED = 1


class WorkerProxy:
    """Replaces the function with which PySpark's daemon runs one task.

    Args:
        pool: The channel to the worker pool.
        run_locally: PySpark's function, which runs a task in this process.
    """

    def __init__(self, pool: socket.socket, run_locally: RunTask) -> None:
        self._pool = pool
        self._run_locally = run_locally

    def __call__(self, task: socket.socket, authenticated: bool) -> int:
        """Wait for a task, have it run, and return its exit code; a code other than 0 ends the worker."""
        for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # the daemon has set handlers for itself
        if not authenticated and not _authenticate(task):
            task.close()
            return _FAILED
        partition = header.partition_of_state(task)
        code = None if partition is None else self._hand_over(task, partition)
        return self._run_locally(task, True) if code is None else code  # noqa: FBT003 - PySpark's signature

    def _hand_over(self, task: socket.socket, partition: str) -> int | None:
        """Have the worker pool run a task and return its exit code; None when the pool cannot run it."""
        own_end, pool_end = socket.socketpair()
        answer = ""
        with own_end, own_end.makefile() as stream:
            with pool_end:
                try:
                    handover.send(self._pool, partition, [task, pool_end])
                except OSError:
                    return None
            # A process that declined or died reads no more, but its answer can still be read.
            with suppress(ConnectionError):
                own_end.sendall(json.dumps(handover.registered_broadcasts()).encode() + b"\n")
            with suppress(ConnectionError):
                answer = stream.readline()
        if not answer:
            # Exit at once, like a worker that dies: after an ordinary failure PySpark's daemon would wait for Spark.
            os._exit(_FAILED)
        result = json.loads(answer)
        if result is None:
            return None
        code, files = result
        handover.replace_broadcasts(files)
        return int(code)


def _authenticate(task: socket.socket) -> bool:
    """Check the secret that Spark sends first, as PySpark does; read no bytes after it."""
    length = int.from_bytes(task.recv(_INT_BYTES, socket.MSG_WAITALL), "big")
    is_correct = task.recv(length, socket.MSG_WAITALL).decode() == os.environ["PYTHON_WORKER_FACTORY_SECRET"]
    answer = b"ok" if is_correct else b"err"
    task.sendall(len(answer).to_bytes(_INT_BYTES, "big") + answer)
    return is_correct
