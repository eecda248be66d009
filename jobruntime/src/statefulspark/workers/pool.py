"""The keeper: hands tasks to the processes that run them, and makes these.

There are as many as tasks have run at the same time, as Spark itself would have had. They stay when Spark ends its
workers, which it does after a minute without work, and go when they have had no task for much longer, or when the daemon
has gone.
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
from typing import Final, NoReturn

from statefulspark.workers import handover, placement

IDLE_S: Final = 1800.0
_LOOK_S = 60.0
DONE: Final = b"d"
"""What a process says after a task."""
Serve = Callable[[socket.socket], None]


@dataclass(frozen=True, slots=True)
class Task:
    """A task that waits for a process: what it works on, its connections, and since when it waits."""

    place: str
    connections: list[socket.socket]
    came_s: float

    def decline(self) -> None:
        """Have the worker that was asked run it itself."""
        _, asker = self.connections
        with suppress(ConnectionError):
            asker.sendall(handover.DECLINED)
        self.close()

    def close(self) -> None:
        """Let go of its connections, which others hold."""
        for connection in self.connections:
            connection.close()


class Keeper:
    """Takes tasks and hands each to a process, which is known here by the channel to it.

    Args:
        requests: Where tasks come from.
        serve: What a process runs.
    """

    def __init__(self, requests: socket.socket, serve: Serve) -> None:
        self._requests = requests
        self._serve = serve
        self._homes: placement.Homes[socket.socket] = placement.Homes()
        self._waiting: collections.deque[Task] = collections.deque()

    def run(self) -> None:
        """Serve until nobody is left who could ask."""
        while self._listen():
            for _ in range(len(self._waiting)):
                self._assign(self._waiting.popleft())
            for idle in self._homes.idle_since(time.monotonic() - IDLE_S):
                self._drop(idle)

    def _listen(self) -> bool:
        """Hear what processes say, and take a task if there is one; tell whether anybody is left who could ask."""
        ready = _readable([self._requests, *self._homes.processes], placement.PATIENCE_S if self._waiting else _LOOK_S)
        for process in ready:
            if process is not self._requests:
                self._hear(process)
        if self._requests not in ready:
            return True
        asked = handover.receive(self._requests)
        if asked is not None:
            self._waiting.append(Task(*asked, came_s=time.monotonic()))
        return asked is not None

    def _hear(self, process: socket.socket) -> None:
        try:
            word = process.recv(len(DONE))
        except ConnectionError:
            word = b""
        if word:
            self._homes.ends(process, time.monotonic())
        else:
            self._drop(process)

    def _assign(self, task: Task) -> None:
        chosen = self._homes.choose(task.place, time.monotonic() - task.came_s)
        if chosen is placement.Wanted.PATIENCE:
            self._waiting.append(task)
        elif chosen is placement.Wanted.PROCESS:
            self._give_to_new(task)
        else:
            self._give(task, chosen)

    def _give_to_new(self, task: Task) -> None:
        try:
            made = self._make(task)
        except OSError:
            traceback.print_exc()
            task.decline()
        else:
            self._give(task, made)

    def _make(self, first: Task) -> socket.socket:
        ours, theirs = handover.channel()
        of_tasks = [connection for task in (first, *self._waiting) for connection in task.connections]
        fork(lambda: self._serve(theirs), without=[ours, self._requests, *self._homes.processes, *of_tasks])
        theirs.close()
        self._homes.add(ours, time.monotonic())
        return ours

    def _give(self, task: Task, process: socket.socket) -> None:
        try:
            handover.send(process, task.place, task.connections)
        except OSError:
            # It has died, and its state with it; the task has not begun.
            self._drop(process)
            self._waiting.append(task)
            return
        self._homes.starts(process, task.place)
        task.close()

    def _drop(self, process: socket.socket) -> None:
        self._homes.forget(process)
        process.close()


def _readable(sockets: list[socket.socket], within_s: float) -> list[socket.socket]:
    by_descriptor = {one.fileno(): one for one in sockets}
    poller = select.poll()
    for descriptor in by_descriptor:
        poller.register(descriptor, select.POLLIN)
    return [by_descriptor[descriptor] for descriptor, _ in poller.poll(within_s * 1000)]


def fork(run: Callable[[], None], *, without: Iterable[socket.socket]) -> None:
    """Run something in a new process, which ends with it.

    Args:
        run: What it runs.
        without: Sockets that it must not have: it is by their last holder that others tell who is left.
    """
    if os.fork() == 0:
        _run(run, without)


def _run(run: Callable[[], None], without: Iterable[socket.socket]) -> NoReturn:
    code = 1
    try:
        for one in without:
            one.close()
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)
