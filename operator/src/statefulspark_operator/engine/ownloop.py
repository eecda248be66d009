"""An event loop in a thread of its own, for what must not wait until the passes of all jobs have had their turn.

With a thousand jobs a round of the main loop takes seconds, and a request takes several rounds: a Lease that was renewed
there was lost while a thousand jobs were created on a busy machine. Nothing but the Lease belongs here: what is shared with
the main loop is read without a lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class OwnLoop:
    """The loop, seen from another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use a loop that runs in another thread; `running` starts one."""
        self._loop = loop

    def start(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start work in the loop; it goes on whatever the caller's loop does."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do work in the loop, and wait for it; it is cancelled with the caller."""
        return await asyncio.wrap_future(self.start(work))


@contextlib.asynccontextmanager
async def running(name: str) -> AsyncIterator[OwnLoop]:
    """Run a loop in a thread of a name while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        yield OwnLoop(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
