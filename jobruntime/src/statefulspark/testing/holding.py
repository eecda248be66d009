"""An object store that freezes a driver in the middle of one request, like a long pause of its process or its network.

```
store = HoldingStore(MemoryStore(), "create", "checkpoints/00000002")
zombie = store.freeze(lambda: complete_checkpoint(store))      # returns when the request was sent
successor(store.wrapped)
error = zombie.wake()                                          # lets it run to its end
store.repeat()                                                 # and the network delivers the request once more
```
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from statefulspark.storage.port import ObjectStore
from statefulspark.testing.stores import FaultyStore

_T = TypeVar("_T")
_TIMEOUT_S = 30.0


class HoldingStore(FaultyStore):
    """Holds the first matching request of a frozen driver until `wake` is called.

    Args:
        wrapped: The store that does the work; a successor uses it directly.
        operation: Name of the operation, as in `stores.StoreOperation`.
        key_part: Text that its key contains.
    """

    def __init__(self, wrapped: ObjectStore, operation: str, key_part: str) -> None:
        super().__init__(wrapped)
        self._held = _HeldRequest(operation, key_part)

    def freeze(self, work: Callable[[], object]) -> Frozen:
        """Run a function on another thread until it reaches the request."""
        return Frozen(work, self._held)

    def repeat(self) -> None:
        """Deliver the held request again; its answer is lost."""
        self._held.repeat()

    def child(self, prefix: str) -> HoldingStore:
        """See the port."""
        below = super().child(prefix)
        store = HoldingStore(below.wrapped, "", "")
        store._prefix, store._journal, store._held = below._prefix, below._journal, self._held
        return store

    def _perform(self, name: str, key: str, act: Callable[[], _T]) -> _T:
        self._held.pass_through(name, self._full(key), act)
        return super()._perform(name, key, act)


class Frozen:
    """A driver that has stopped in the middle of a request."""

    def __init__(self, work: Callable[[], object], held: _HeldRequest) -> None:
        self._work = work
        self._held = held
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        held.is_armed = True
        self._thread.start()
        if not held.reached.wait(_TIMEOUT_S):
            raise AssertionError(f"no request {held.operation} {held.key_part} was made: {self._error}")

    def wake(self) -> Exception | None:
        """Let it run to its end; return the exception that it raised."""
        self._held.released.set()
        self._thread.join(_TIMEOUT_S)
        return self._error

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - handed to the test
            self._error = error


class _HeldRequest:
    """The request that is held."""

    def __init__(self, operation: str, key_part: str) -> None:
        self.operation = operation
        self.key_part = key_part
        self.reached = threading.Event()
        self.released = threading.Event()
        self.is_armed = False
        self._act: Callable[[], object] | None = None

    def pass_through(self, name: str, key: str, act: Callable[[], object]) -> None:
        """Wait if this is the request to hold."""
        is_match = name == self.operation and self.key_part in key
        if not self.is_armed or self.reached.is_set() or not is_match:
            return
        self._act = act
        self.reached.set()
        if not self.released.wait(_TIMEOUT_S):
            raise AssertionError("a request was held and never released")

    def repeat(self) -> None:
        """Make the request again."""
        if self._act is None:
            raise AssertionError(f"no request {self.operation} {self.key_part} was made")
        self._act()
