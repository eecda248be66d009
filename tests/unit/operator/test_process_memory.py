"""Memory that was freed goes back to the system, also from between blocks that live."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from pathlib import Path

import pytest
from statefulspark_operator.engine import processmemory

BLOCK_BYTES = 2000
"""More than Python's own allocator takes, and less than what glibc maps by itself."""
BLOCKS = 40_000


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(processmemory.trim_of_glibc() is None, reason="another C library than glibc")
def test_memory_between_blocks_that_live_goes_back() -> None:
    blocks = [bytes(BLOCK_BYTES) for _ in range(BLOCKS)]
    alive = blocks[::20]
    full_bytes = _resident_bytes()
    del blocks

    async def wait() -> None:
        async with processmemory.given_back(pause_s=0.01):
            for _ in range(500):
                await asyncio.sleep(0.01)
                if full_bytes - _resident_bytes() > BLOCKS * BLOCK_BYTES // 4:
                    return

    asyncio.run(wait())

    assert full_bytes - _resident_bytes() > BLOCKS * BLOCK_BYTES // 4
    assert len(alive) == BLOCKS // 20


def test_another_c_library_gives_nothing_back_and_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: sys)

    async def pass_through() -> str:
        async with processmemory.given_back(pause_s=0.0):
            await asyncio.sleep(0.01)
            return "done"

    assert asyncio.run(pass_through()) == "done"
