"""Work in a thread of its own, for which the end of the process does not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Made = TypeVar("_Made")


def beside(work: Callable[[], _Made], *, name: str) -> Future[_Made]:
    """Do some work in another thread, and return at once.

    Args:
        work: The work; the future has what it returns or raises.
        name: Of the thread.
    """
    future = Future[_Made]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - who asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
