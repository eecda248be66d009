"""How the process uses memory: garbage in cycles is looked for less often, and freed memory is given back to the system."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from collections.abc import AsyncIterator, Callable

COLLECTED_AFTER = 20_000
"""New objects after which garbage in cycles is looked for; Python's own number is 700."""
PAUSE_S = 15.0
"""Between two times: looking through 200 MB takes some milliseconds of a thread of its own."""


def tune_garbage_collection() -> None:
    """Have the garbage collector leave out what was imported, which stays, and look at the rest less often.

    As Python sets it, it took a fifth of the processor while a thousand jobs started. What it is there for are cycles, and
    nearly everything here is freed without it.
    """
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, 10, 10)


@contextlib.asynccontextmanager
async def given_back(pause_s: float = PAUSE_S) -> AsyncIterator[None]:
    """Give freed memory back now and then, for as long as the block lasts; with another C library than glibc, never.

    After a rush, C's allocator keeps what lies between blocks that live.

    Args:
        pause_s: Seconds between two times.
    """
    giving = asyncio.create_task(_give_back(pause_s, trim_of_glibc()), name="freed memory")
    try:
        yield
    finally:
        giving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await giving


def trim_of_glibc() -> Callable[[int], int] | None:
    """Return glibc's `malloc_trim`; None where there is none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


async def _give_back(pause_s: float, trim: Callable[[int], int] | None) -> None:
    while trim is not None:
        await asyncio.sleep(pause_s)
        await asyncio.to_thread(trim, 0)
