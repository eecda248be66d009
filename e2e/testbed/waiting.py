"""Waiting for a condition, with a deadline and a sentence about what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 300.0
"""Generous, because a machine that also runs other tests is slow; nothing waits longer than it must."""
LOOK_INTERVAL_S = 0.5

Seen = TypeVar("Seen")


def until(
    look: Callable[[], Seen],
    holds: Callable[[Seen], bool],
    what: str,
    *,
    explain: Callable[[], str] = str,
    timeout_s: float = PATIENCE_S,
) -> Seen:
    """Look until what is seen holds, and return it.

    Args:
        look: Sees.
        holds: Judges.
        what: What is waited for, for the error.
        explain: More about what was seen last, for the error.
        timeout_s: The deadline.

    Raises:
        AssertionError: It did not hold in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"Not within {timeout_s:.0f} s: {what}. Seen last: {seen!r}. {explain()}")
        time.sleep(LOOK_INTERVAL_S)


def while_(look: Callable[[], Seen], *, seconds: float) -> list[Seen]:
    """Look again and again for some time, and return the different values seen, in order."""
    deadline = time.monotonic() + seconds
    seen = [look()]
    while time.monotonic() < deadline:
        time.sleep(LOOK_INTERVAL_S)
        now = look()
        if now != seen[-1]:
            seen.append(now)
    return seen
