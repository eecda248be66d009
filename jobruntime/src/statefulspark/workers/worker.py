"""A process that runs tasks with keyed state and keeps the state between them."""

from __future__ import annotations

import gc
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from statefulspark.workers import handover, pool, proxy

_FAILED = 1


def serve(channel: socket.socket, run_task: proxy.RunTask) -> None:
    """Run the received tasks, until one fails or the channel is closed.

    Args:
        channel: The channel that tasks are received from.
        run_task: PySpark's function for one task.
    """
    while (received := handover.receive(channel)) is not None:
        _, (task, requester) = received
        with task, requester:
            if not _serve_one(task, requester, channel, run_task):
                return
        gc.collect()


def _serve_one(task: socket.socket, requester: socket.socket, channel: socket.socket, run_task: proxy.RunTask) -> bool:
    """Run a task for one of Spark's workers, and tell whether to continue."""
    with requester.makefile("rw") as stream:
        variables = stream.readline()
        if not variables:
            channel.send(pool.DONE)  # Spark killed the proxy before the task started.
            return True
        handover.replace_broadcasts(json.loads(variables))
        with _ending_with(requester):
            code = run_task(task, True)  # noqa: FBT003 - PySpark's signature
        if not code:
            # Before the answer: the next task may be assigned as soon as the answer is sent.
            channel.send(pool.DONE)
        stream.write(json.dumps([code, handover.registered_broadcasts()]) + "\n")
        return not code


@contextmanager
def _ending_with(requester: socket.socket) -> Iterator[None]:
    """End this process if Spark kills the worker proxy of the task while the block runs."""
    is_done = threading.Event()

    def watch() -> None:
        requester.recv(1)
        if not is_done.is_set():
            os._exit(_FAILED)

    watcher = threading.Thread(target=watch, name="worker-of-spark", daemon=True)
    watcher.start()
    yield
    is_done.set()
    requester.shutdown(socket.SHUT_RD)
    watcher.join()
