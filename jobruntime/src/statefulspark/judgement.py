"""What a failure of a client library means for the job: one judgement for each error that the library knows. Pure.

Each library has a table of its own beside the code that calls it. A table names every class or code that the library lists,
and a test compares both, so that a new release of a library cannot bring an error that nobody has judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Remedy(Enum):
    """What helps."""

    WAIT = "wait"
    """Time alone: the same call succeeds when what the advice names has passed."""
    LOST_RACE = "lost race"
    """Another call: somebody else was first, so read again and decide again."""
    CREDENTIALS = "credentials"
    """A person, or a rotation that is under way: the Secret's file is read again for a grace time."""
    RIGHTS = "rights"
    """A person, who gives the user a right in the other system."""
    PERSON = "person"
    """A person, who changes the job, its target or its rows."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one error means.

    Attributes:
        remedy: What helps.
        advice: The end of a message: what is waited for, or what to change. No capital letter, no full stop.
    """

    remedy: Remedy
    advice: str


def table(*groups: tuple[Judgement, str]) -> Mapping[str, Judgement]:
    """Return the judgement of each name or code.

    Args:
        groups: A judgement, and what it holds for, separated by spaces.

    Raises:
        ValueError: A code is judged twice.
    """
    judged: dict[str, Judgement] = {}
    for judgement, codes in groups:
        for code in codes.split():
            if code in judged:
                raise ValueError(f"{code} is judged twice")
            judged[code] = judgement
    return judged
