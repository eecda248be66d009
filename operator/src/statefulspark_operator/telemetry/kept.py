"""A text that takes long to write, written once in a thread for concurrent callers.

The metrics of a thousand jobs are megabytes and take seconds to write. Everybody who reaches their port may ask, and the
reconcile passes run in the loop that answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

LEAST_KEPT_S = 1.0
KEPT_FOR_EACH_SECOND_S = 4.0
"""How long a text is kept for each second that it took to write: writing takes a fifth of the time at most."""


@dataclass(slots=True)
class KeptText:
    """A text that is current when it is written, and given to all who ask until it is written again.

    Attributes:
        write: Writes it, in another thread.
        clock: Seconds, which never go back.
    """

    write: Callable[[], str]
    clock: Callable[[], float] = time.monotonic
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _written: bytes = b""
    _kept_until_s: float = float("-inf")

    async def read(self) -> bytes:
        """Return the text in UTF-8; all who ask while it is kept get the same object."""
        async with self._lock:
            began_s = self.clock()
            if began_s >= self._kept_until_s:
                self._written = await asyncio.to_thread(lambda: self.write().encode())
                ended_s = self.clock()
                self._kept_until_s = ended_s + max(LEAST_KEPT_S, KEPT_FOR_EACH_SECOND_S * (ended_s - began_s))
            return self._written
