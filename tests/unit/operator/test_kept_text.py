"""Whoever asks for the operator's metrics, and how often: they are written seldom, and nothing waits for it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

from statefulspark_operator.telemetry.server import KeptText


@dataclass
class SlowText:
    """Counts how often it is written, and takes as long as it is told."""

    takes_s: float = 0.0
    now_s: float = 0.0
    written: int = 0
    may_end: threading.Event = field(default_factory=threading.Event)

    def write(self) -> str:
        self.may_end.wait(10)
        self.written += 1
        self.now_s += self.takes_s
        return f"metrics {self.written}"

    def kept(self) -> KeptText:
        return KeptText(self.write, clock=lambda: self.now_s)


def test_the_loop_goes_on_while_it_is_written_and_all_who_wait_get_the_same() -> None:
    slow = SlowText()

    async def ask() -> list[bytes]:
        kept = slow.kept()
        asked = [asyncio.ensure_future(kept.read()) for _ in range(100)]
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in asked)
        slow.may_end.set()
        return await asyncio.gather(*asked)

    assert set(asyncio.run(ask())) == {b"metrics 1"}


def test_it_is_written_again_after_four_times_as_long_as_it_took() -> None:
    slow = SlowText(takes_s=3.0)
    slow.may_end.set()

    async def ask() -> list[bytes]:
        kept = slow.kept()
        read = [await kept.read()]
        for slow.now_s in (14.9, 15.0):
            read.append(await kept.read())
        return read

    assert asyncio.run(ask()) == [b"metrics 1", b"metrics 1", b"metrics 2"]


def test_what_takes_no_time_is_kept_for_a_second() -> None:
    slow = SlowText()
    slow.may_end.set()

    async def ask() -> list[bytes]:
        kept = slow.kept()
        read = [await kept.read()]
        for slow.now_s in (0.9, 1.0):
            read.append(await kept.read())
        return read

    assert asyncio.run(ask()) == [b"metrics 1", b"metrics 1", b"metrics 2"]
