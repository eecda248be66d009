"""Whose turn it is on the operator's one thread: its time is shared fairly between namespaces, step by step of their passes.

A pass runs in steps, from one wait to the next. Without turns the steps run in the order in which their waits end, so that a
pass of one job has to wait behind a step of every pass that another namespace has started. With them the namespace that has
used the least of the thread goes first. A pass that waits for an answer uses none of it, so a driver or a store that hangs
takes nobody's turn.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


class FairShare:
    """Decides which namespace is next: the one that has used the least, since all of those that wait began to. Pure."""

    def __init__(self) -> None:
        """Begin with nothing used."""
        self._used_s: dict[str, float] = {}
        self._reached_s = 0.0

    def choose(self, waiting: Collection[str]) -> str:
        """Return the namespace whose turn it is; of several that have used as much, the first.

        Whoever has used nothing for a while has saved nothing up: it begins where the others are.

        Args:
            waiting: The namespaces with a step to run; at least one.
        """
        for namespace in waiting:
            self._used_s[namespace] = max(self._used_s.get(namespace, 0.0), self._reached_s)
        chosen = min(waiting, key=self._used_s.__getitem__)
        self._reached_s = self._used_s[chosen]
        return chosen

    def charge(self, namespace: str, used_s: float) -> None:
        """Add what a namespace has used."""
        self._used_s[namespace] = self._used_s.get(namespace, self._reached_s) + used_s

    def forget_others(self, waiting: Collection[str]) -> None:
        """Forget namespaces that do not wait, and have used no more than those that do."""
        self._used_s = {
            namespace: used_s
            for namespace, used_s in self._used_s.items()
            if namespace in waiting or used_s > self._reached_s
        }


class Turns:
    """Runs work of namespaces on the loop, a step at a time."""

    def __init__(self, clock_s: Callable[[], float] = time.thread_time) -> None:
        """Begin without work.

        Args:
            clock_s: What a step has used is measured with it.
        """
        self._clock_s, self._share = clock_s, FairShare()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_due = False

    @types.coroutine
    def run(self, namespace: str, work: Coroutine[Any, Any, Result]) -> Generator[Any, Any, Result]:
        """Run work to its end, each step of it in the turn of its namespace.

        A cancellation reaches the work at its next turn.

        Args:
            namespace: Whose work it is.
            work: The work.
        """
        thrown: BaseException | None = None
        try:
            while True:
                try:
                    if not self._is_next(namespace):
                        yield from self._turn(namespace)
                except asyncio.CancelledError as cancelled:
                    thrown = cancelled
                begun_s = self._clock_s()
                try:
                    awaited = work.send(None) if thrown is None else work.throw(thrown)
                except StopIteration as ended:
                    result: Result = ended.value
                    return result
                finally:
                    self._share.charge(namespace, self._clock_s() - begun_s)
                thrown = None
                try:
                    yield awaited
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - whatever the wait ends with is the work's
                    thrown = error
        finally:
            work.close()

    def _is_next(self, namespace: str) -> bool:
        """Tell whether a step need not wait, since it is the turn of its namespace before all that wait."""
        others_wait = bool(self._waiting) and namespace not in self._waiting
        return others_wait and self._share.choose((namespace, *self._waiting)) == namespace

    def _turn(self, namespace: str) -> Generator[Any, None, None]:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        self._look_again()
        yield from turn

    def _look_again(self) -> None:
        if not self._is_due and self._waiting:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        """Let one step run; it has ended, and is charged, when this is called again."""
        self._is_due = False
        namespace = self._share.choose(self._waiting)
        turns = self._waiting[namespace]
        turn = turns.popleft()
        if not turns:
            del self._waiting[namespace]
            self._share.forget_others(self._waiting)
        if not turn.done():  # Else its work was cancelled, and goes on to its end.
            turn.set_result(None)
        self._look_again()
