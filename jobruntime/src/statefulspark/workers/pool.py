"""The worker pool: starts the processes that run tasks with state, and assigns tasks to them.

It has as many processes as tasks have run at the same time; Spark itself would have as many. They stay when Spark ends its
own workers after a minute without work. They end when they have had no task for much longer, or when the daemon has ended.
"""

from __future__ import annotations

import collections
import os
import select
import socket
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from statefulspark.workers import handover, placement

IDLE_S: Final = 1800.0
_POLL_INTERVAL_S = 60.0
DONE: Final = b"d"
"""The message of a process after a task."""
Serve = Callable[[socket.socket], None]


@dataclass(frozen=True, slots=True)
class Task:
    """A task that waits for a process: its partition, its connections, and the time when it was received."""

    partition: str
    connections: list[socket.socket]
    received_s: float

    def decline(self) -> None:
        """Tell Spark's worker to run the task itself."""
        _, requester = self.connections
        with suppress(ConnectionError):
            requester.sendall(handover.DECLINED)
        self.close()

    def close(self) -> None:
        """Close this process's copies of the connections."""
        for connection in self.connections:
            connection.close()


class WorkerPool:
    """Receives tasks and assigns each to a process; a process is identified by the channel to it.

    Args:
        requests: The channel that tasks are received from.
        serve: The function that a process runs.
    """

    def __init__(self, requests: socket.socket, serve: Serve) -> None:
        self._requests = requests
        self._serve = serve
        self._processes: placement.ProcessTable[socket.socket] = placement.ProcessTable()
        self._waiting: collections.deque[Task] = collections.deque()

    def run(self) -> None:
        """Serve until no process can send a task any more."""
        while self._listen():
            for _ in range(len(self._waiting)):
                self._assign(self._waiting.popleft())
            for idle in self._processes.idle_since(time.monotonic() - IDLE_S):
                self._drop(idle)

    def _listen(self) -> bool:
        """Receive the messages of processes, and a task if there is one; tell whether any process can still send a task."""
        sockets = {connection.fileno(): connection for connection in (self._requests, *self._processes.processes)}
        poller = select.poll()
        for descriptor in sockets:
            poller.register(descriptor, select.POLLIN)
        timeout_s = placement.LOCALITY_WAIT_S if self._waiting else _POLL_INTERVAL_S
        ready = [sockets[descriptor] for descriptor, _ in poller.poll(timeout_s * 1000)]
        for process in ready:
            if process is self._requests:
                continue
            try:
                message = process.recv(len(DONE))
            except ConnectionError:
                message = b""
            if message:
                self._processes.ends(process, time.monotonic())
            else:
                self._drop(process)
        if self._requests not in ready:
            return True
        received = handover.receive(self._requests)
        if received is not None:
            self._waiting.append(Task(*received, received_s=time.monotonic()))
        return received is not None

    def _assign(self, task: Task) -> None:
        chosen = self._processes.choose(task.partition, time.monotonic() - task.received_s)
        if chosen is placement.Unassigned.WAIT:
            self._waiting.append(task)
        elif chosen is placement.Unassigned.NEW_PROCESS:
            try:
                process = self._start_process(task)
            except OSError:
                traceback.print_exc()
                task.decline()
            else:
                self._assign_to(task, process)
        else:
            self._assign_to(task, chosen)

    def _start_process(self, task_to_run: Task) -> socket.socket:
        own_end, process_end = handover.channel()
        task_connections = [connection for task in (task_to_run, *self._waiting) for connection in task.connections]
        fork(
            lambda: self._serve(process_end),
            without=[own_end, self._requests, *self._processes.processes, *task_connections],
        )
        process_end.close()
        self._processes.add(own_end, time.monotonic())
        return own_end

    def _assign_to(self, task: Task, process: socket.socket) -> None:
        try:
            handover.send(process, task.partition, task.connections)
        except OSError:
            # The process has died, and its state is lost; the task was not started.
            self._drop(process)
            self._waiting.append(task)
            return
        self._processes.starts(process, task.partition)
        task.close()

    def _drop(self, process: socket.socket) -> None:
        self._processes.forget(process)
        process.close()


def fork(run: Callable[[], None], *, without: Iterable[socket.socket]) -> None:
    """Run a function in a new process, which ends with the function.

    Args:
        run: The function.
        without: Sockets that the process must close: other processes notice an end only when all copies are closed.
    """
    if os.fork() != 0:
        return
    code = 1
    try:
        for connection in without:
            connection.close()
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)
