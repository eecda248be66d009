"""The delay before a retry: exponential, limited, with a jitter that is the same for the same attempt.

The jitter comes from a hash and not from a random source, so that a decision is a pure function of its situation, and jobs
that failed at the same time still do not restart at the same time.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta

JITTER = 0.2
"""Maximum share of the delay that is added or subtracted."""
_MAX_DOUBLINGS = 20
"""Limit that keeps a year, the longest duration of the API, within the range of a timedelta."""


def delay(attempt: int, *, initial: timedelta, longest: timedelta, seed: str) -> timedelta:
    """Return the wait before an attempt.

    Args:
        attempt: 1 for the first retry.
        initial: Wait before the first retry.
        longest: The wait never exceeds this by more than the jitter.
        seed: Input of the jitter's hash, for example the job's uid.

    Returns:
        The wait, never negative.
    """
    doubled = min(initial, longest) * (1 << min(max(attempt, 1) - 1, _MAX_DOUBLINGS))
    digest = hashlib.sha256(f"{seed}/{attempt}".encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    return min(doubled, longest) * (1 - JITTER + 2 * JITTER * share)
