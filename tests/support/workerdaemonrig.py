"""The Python daemon of the runtime with a scripted task in place of PySpark's, and this process in the place of Spark's JVM.

A task starts as Spark's do, and ends with one letter, which says what it does:

    s  it has keyed state, and answers with its process id
    n  it has none, and answers with its process id
    w  as s, and it ends when it is sent one byte more
    f  it has state and fails
    d  it has state and its process dies
    +  it has state and is sent a broadcast variable with the number of its partition
    m  it has none and is sent such a variable
    x  it has state, and Spark encrypts what it sends
    ?  it has state, and answers with the number of broadcast variables that it knows
"""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_INT, _LONG = struct.Struct("!i"), struct.Struct("!q")
_SECRET = "secret"
_TIMEOUT_S = 20.0
_WITH_STATE, _WITHOUT = 211, 207
"""Kinds of functions: `transformWithStateInPandas` and `mapInArrow`."""


class Worker:
    """A worker as Spark has it: a connection, and the process id that the daemon said."""

    def __init__(self, port: int, secret: str = _SECRET) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self.pid = self.read()
        self._connection.sendall(_INT.pack(len(secret)) + secret.encode())
        self.greeting = self._connection.recv(self.read(), socket.MSG_WAITALL).decode()

    def start(self, partition: int, task: str, query: str = "q") -> None:
        """Send a task."""
        self._connection.sendall(_header(partition, task, query) + task.encode())

    def ask(self, partition: int, task: str, query: str = "q") -> int:
        """Send a task and return what it answers, when it has ended; `w` goes on."""
        self.start(partition, task, query)
        answer = self.read()
        if task != "w":
            self._await_end()
        return answer

    def go_on(self) -> None:
        """Let a task end."""
        self._connection.sendall(b".")
        self._await_end()

    def _await_end(self) -> None:
        """Wait until the task has ended: only then does the worker run the next one, which it runs itself."""
        self.start(0, "n")
        assert self.read() == self.pid

    def read(self) -> int:
        """Return the next number.

        Raises:
            EOFError: There is none: the worker has ended.
        """
        try:
            read = self._connection.recv(_INT.size, socket.MSG_WAITALL)
        except ConnectionError as error:
            raise EOFError from error
        if len(read) < _INT.size:
            raise EOFError
        return int(_INT.unpack(read)[0])

    def close(self) -> None:
        """End it as Spark does: by closing the connection."""
        self._connection.close()


def _header(partition: int, task: str, query: str) -> bytes:
    """Return what Spark sends first, in the order of PySpark's `worker.main`."""
    context = json.dumps({"localProperties": {"sql.streaming.queryId": query}}).encode()
    texts = b"".join(_INT.pack(len(text)) + text for text in (b"3.11", context, b"/folder"))
    includes = _INT.pack(1) + _INT.pack(5) + b"a.zip"
    variables = _INT.pack(int(task in "+m"))
    if task in "+m":
        file = f"/of/{partition}".encode()
        variables += _LONG.pack(partition) + _INT.pack(len(file)) + file
    kind = _INT.pack(_WITHOUT if task in "nm" else _WITH_STATE)
    return _INT.pack(partition) + texts + includes + struct.pack("!?", task == "x") + variables + kind


class Daemon:
    """A running daemon."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.process = process
        self._port = int(_INT.unpack(process.stdout.read(_INT.size))[0])
        self._workers: list[Worker] = []

    def worker(self, secret: str = _SECRET) -> Worker:
        """Have it make a worker."""
        made = Worker(self._port, secret)
        self._workers.append(made)
        return made

    def kill(self, worker: Worker) -> None:
        """Kill a worker as Spark does: the daemon is told its process id."""
        assert self.process.stdin is not None
        self.process.stdin.write(_INT.pack(worker.pid))
        self.process.stdin.flush()

    def end(self) -> None:
        """End it as Spark does: by closing its input."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(_TIMEOUT_S)
        self.process.stdout.close()
        for worker in self._workers:
            worker.close()


@contextmanager
def running() -> Iterator[Daemon]:
    """Run a daemon while the block runs."""
    wanted = {"SPARK_REUSE_WORKER": "1", "STATEFULSPARK_KEEP_WORKERS": "true", "PYTHON_WORKER_FACTORY_SECRET": _SECRET}
    command = [sys.executable, str(Path(__file__))]
    process = subprocess.Popen(command, env={**os.environ, **wanted}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    daemon = Daemon(process)
    try:
        yield daemon
    finally:
        daemon.end()


def _run_task(task: socket.socket, authenticated: bool) -> int:
    """What stands for PySpark's function; it runs in the daemon's processes."""
    from pyspark.core import broadcast

    assert authenticated
    with task.makefile("rb") as stream:
        _take_header(stream)
        what = stream.read(1).decode()
        if what == "d":
            os._exit(9)
        if what != "f":
            task.sendall(_INT.pack(len(broadcast._broadcastRegistry) if what == "?" else os.getpid()))
        if what == "w":
            task.recv(1)
    return int(what == "f")


def _take_header(stream: io.BufferedReader) -> None:
    """Read what `_header` wrote, and keep the broadcast variables."""
    from pyspark.core import broadcast

    def number(layout: struct.Struct = _INT) -> int:
        return int(layout.unpack(stream.read(layout.size))[0])

    def text() -> str:
        return stream.read(number()).decode()

    number()
    for _ in range(3):
        text()
    for _ in range(number()):
        text()
    stream.read(1)
    for _ in range(number()):
        broadcast._broadcastRegistry[number(_LONG)] = broadcast.Broadcast(path=text())
    number()


def main() -> None:
    """Be the daemon."""
    from pyspark import daemon as spark_daemon
    from statefulspark.workers import daemon

    spark_daemon.worker = _run_task  # type: ignore[assignment]
    assert daemon.is_pool_enabled()
    daemon.start_pool()
    spark_daemon.manager()


if __name__ == "__main__":
    main()
