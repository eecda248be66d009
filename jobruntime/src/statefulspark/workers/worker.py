"""A process that runs tasks with keyed state and keeps the state between them."""

from __future__ import annotations

import gc
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from statefulspark.workers import broadcasts, handover, pool, proxy

_FAILED = 1


def serve(channel: socket.socket, run_task: proxy.RunTask) -> None:
    """Run the tasks that come, until one fails or nobody is left who could send one.

    Args:
        channel: Tasks come from there.
        run_task: PySpark's function for one task.
    """
    while (handed := handover.receive(channel)) is not None:
        _, (task, asker) = handed
        with task, asker:
            if not _serve_one(task, asker, channel, run_task):
                return
        gc.collect()


def _serve_one(task: socket.socket, asker: socket.socket, channel: socket.socket, run_task: proxy.RunTask) -> bool:
    """Run a task for a worker of Spark's, and tell whether to go on."""
    with asker.makefile("rw") as stream:
        told = stream.readline()
        if not told:
            channel.send(pool.DONE)  # Killed before it began.
            return True
        broadcasts.take(json.loads(told))
        with _ending_with(asker):
            code = run_task(task, True)  # noqa: FBT003 - PySpark's signature
        if not code:
            # Before the answer: the next task may come as soon as that is there.
            channel.send(pool.DONE)
        stream.write(json.dumps([code, broadcasts.known()]) + "\n")
        return not code


@contextmanager
def _ending_with(asker: socket.socket) -> Iterator[None]:
    """End this process if Spark kills the worker that it believes to run the task, while the block runs."""
    is_done = threading.Event()

    def watch() -> None:
        asker.recv(1)
        if not is_done.is_set():
            os._exit(_FAILED)

    watcher = threading.Thread(target=watch, name="worker-of-spark", daemon=True)
    watcher.start()
    yield
    is_done.set()
    asker.shutdown(socket.SHUT_RD)
    watcher.join()
