"""Gives memory that was freed back to the system: after a rush, C's allocator keeps what lies between blocks that live."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncIterator, Callable

PAUSE_S = 15.0
"""Between two times: looking through 200 MB takes some milliseconds of a thread of its own."""


@contextlib.asynccontextmanager
async def given_back(pause_s: float = PAUSE_S) -> AsyncIterator[None]:
    """Give freed memory back now and then, for as long as the block lasts; with another C library than glibc, never.

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
