"""A process that runs tasks and keeps state between them."""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from pyspark.core import broadcast

from statefulspark.spark.keyed import caching
from statefulspark.spark.workers import front, handover, keeper

_FAILED = 1
_ENCRYPTED = (
    "Spark encrypts its broadcast variables, so another process cannot have them: this worker ends after its task. "
    "Where spark.io.encryption.enabled is on, set spark.executorEnv.STATEFULSPARK_KEEP_WORKERS to false."
)


def serve(channel: socket.socket, run_task: front.RunTask) -> None:
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


def _serve_one(task: socket.socket, asker: socket.socket, channel: socket.socket, run_task: front.RunTask) -> bool:
    """Run a task for a worker of Spark's, and tell whether to go on."""
    uses = caching.WORKER_CACHE.uses
    with asker.makefile("rw") as stream:
        told = stream.readline()
        if not told:
            channel.send(keeper.DONE)  # Killed before it began.
            return True
        _take_broadcasts(json.loads(told))
        with _ending_with(asker):
            code = run_task(task, True)  # noqa: FBT003 - PySpark's signature
        known = _known_broadcasts()
        if known is None:
            print(_ENCRYPTED, file=sys.stderr)
            return False
        if not code:
            # Before the answer: the next task may come as soon as that is there.
            channel.send(keeper.KEPT_STATE if caching.WORKER_CACHE.uses > uses else keeper.DONE)
        stream.write(json.dumps([code, known]) + "\n")
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


def _take_broadcasts(known: dict[str, str]) -> None:
    """Have the broadcast variables that Spark believes its worker to have: it sends each worker only what is new to it.

    Args:
        known: File of each variable, by id.
    """
    registry = broadcast._broadcastRegistry
    for stale in [number for number, one in registry.items() if known.get(str(number)) != _file_of(one)]:
        del registry[stale]
    for number, file in known.items():
        registry.setdefault(int(number), broadcast.Broadcast(path=file))


def _known_broadcasts() -> dict[str, str] | None:
    """Return the file of each broadcast variable; None if one has none, because Spark encrypts them."""
    files = {str(number): _file_of(one) for number, one in broadcast._broadcastRegistry.items()}
    return None if None in files.values() else cast("dict[str, str]", files)


def _file_of(variable: broadcast.Broadcast[object]) -> str | None:
    return cast("str | None", getattr(variable, "_path", None))
