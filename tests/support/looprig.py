"""What tests of a job's loop have in common: it runs in a thread of its own, and they wait for what it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

from statefulspark.contract import api
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.status import Ending

WAIT_S = 20.0
_LOOKS_EVERY_S = 0.005


class Pause:
    """A call that waits until the test lets it go: a fake calls it, and the test looks around meanwhile."""

    def __init__(self) -> None:
        self._reached, self._released = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        assert self._released.wait(WAIT_S), "nobody let it go"

    def reached(self) -> None:
        """Wait until somebody waits in it."""
        assert self._reached.wait(WAIT_S), "nobody came"

    def release(self) -> None:
        """Let it go."""
        self._released.set()


class SparkHandle:
    """What the loop asks of Spark's handle of a query when it has failed.

    Attributes:
        failure: What the JVM's exception says; None while there is none.
    """

    failure: str | None = None

    @property
    def _jsq(self) -> object:
        raised = SimpleNamespace(toString=lambda: self.failure)
        option = SimpleNamespace(isEmpty=lambda: self.failure is None, get=lambda: raised)
        return SimpleNamespace(recentProgress=list, exception=lambda: option)


class LoopRig:
    """A loop and its thread; a subclass makes the loop and starts it.

    Attributes:
        loop: The loop.
        endings: What it returned, once it has ended.
    """

    def __init__(self, loop: JobLoop) -> None:
        self.loop = loop
        self.endings: list[Ending] = []
        self._thread = threading.Thread(target=lambda: self.endings.append(self.loop.run()), daemon=True)

    def start(self) -> None:
        """Let the loop run."""
        self._thread.start()

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        deadline_s = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < deadline_s, (self.loop.status(), self.endings)
            time.sleep(_LOOKS_EVERY_S)

    def ended_operation(self, request_id: str) -> api.Operation:
        """Wait until an operation has ended, well or badly, and return it."""

        def ended() -> bool:
            operation = self.loop.operation(request_id)
            return operation is not None and operation.state is not api.OperationState.IN_PROGRESS

        self.until(ended)
        operation = self.loop.operation(request_id)
        assert operation is not None
        return operation

    def ended(self) -> Ending:
        """Wait until the loop has ended, and return how."""
        self._thread.join(WAIT_S)
        (ending,) = self.endings
        return ending

    def drained(self) -> None:
        """Let the loop drain, if it has not ended."""
        if self._thread.is_alive():
            self.loop.drain()
            self._thread.join(WAIT_S)
