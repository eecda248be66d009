"""Counts of the requests of this process to S3, by what they asked for and how they were answered.

They are a process's, and not a store's: a server refuses requests of one store because of those of another. Requests of the
JVM are not among them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from enum import Enum


class Outcome(Enum):
    """How an attempt at a request ended."""

    ANSWERED = "Answered"
    """The server did it, or said why not: the object is absent, or a condition does not hold."""
    BUSY = "Busy"
    """The server refused it because it gets too many."""
    FAILED = "Failed"
    """There was no answer, or one that says nothing of the object."""


_lock = threading.Lock()
_counts: Counter[tuple[str, Outcome]] = Counter()


def count(kind: str, outcome: Outcome) -> None:
    """Count an attempt at a request of a kind, such as `List`."""
    with _lock:
        _counts[kind, outcome] += 1


def counts() -> Mapping[tuple[str, Outcome], int]:
    """Return all counts, by kind and outcome."""
    with _lock:
        return dict(_counts)


def refused() -> int:
    """Return how many requests a server has refused because it got too many."""
    return sum(number for (_, outcome), number in counts().items() if outcome is Outcome.BUSY)
