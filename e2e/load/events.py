"""What is sent: events that follow from a seed and a number alone, so that a run can be made again.

Events are numbered through (`number`, from 0) and within their key (`sequence`, from 1). Some are sent twice, the
copy a few numbers later and to the same partition; every third is confirmed by a line in a file. Event time (`at`)
grows with the number and has nothing to do with the clock.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

BEGIN_MS = 1_700_000_000_000
STEP_MS = 20
KINDS = ("buy", "sell", "move")
CLOSING_KEY = "the-end"
"""Key of the event that lets event time pass everything before it."""
_CLOSING_DISTANCE_MS = 3_600_000
_COPIES_ONE_IN = 25
_COPY_DISTANCE = 7
_CONFIRMED_ONE_IN = 3
_CONFIRMED_WITHIN_MS = 3_000


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        number: Through all events, from 0.
        key: What its state belongs to.
        sequence: Within its key, from 1.
        at_ms: Event time.
        amount: From -100 to 100.
        kind: One of `KINDS`.
    """

    number: int
    key: str
    sequence: int
    at_ms: int
    amount: int
    kind: str

    def to_json(self) -> bytes:
        """Return it as it is sent."""
        return json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Event:
        """Return an event as it was read."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A line of a file, for the event of its number."""

    number: int
    at_ms: int

    def to_json(self) -> bytes:
        """Return it as it is written."""
        return json.dumps({"number": self.number, "confirmed_ms": self.at_ms}).encode()


@dataclass(frozen=True, slots=True)
class Step:
    """What is sent at one number: the event, copies of earlier ones, and its confirmation if it has one."""

    event: Event
    copies: tuple[Event, ...]
    confirmation: Confirmation | None


def steps(seed: int, *, keys: int) -> Iterator[Step]:
    """Yield what is sent, without end.

    Args:
        seed: The same seed gives the same steps.
        keys: Number of keys.
    """
    chance = random.Random(seed)
    sequences: Counter[str] = Counter()
    waiting: dict[int, Event] = {}
    number = 0
    while True:
        key = f"key-{chance.randrange(keys):03d}"
        sequences[key] += 1
        amount, kind = chance.randint(-100, 100), chance.choice(KINDS)
        event = Event(number, key, sequences[key], BEGIN_MS + number * STEP_MS, amount, kind)
        if chance.randrange(_COPIES_ONE_IN) == 0:
            waiting[number + _COPY_DISTANCE] = event
        late_ms = chance.randrange(_CONFIRMED_WITHIN_MS)
        confirmation = Confirmation(number, event.at_ms + late_ms) if number % _CONFIRMED_ONE_IN == 0 else None
        due = waiting.pop(number, None)
        yield Step(event, (due,) if due else (), confirmation)
        number += 1


def closing(number: int) -> Step:
    """Return the last step, far behind all others in event time.

    Args:
        number: That of the event, one more than the last.
    """
    at_ms = BEGIN_MS + number * STEP_MS + _CLOSING_DISTANCE_MS
    return Step(Event(number, CLOSING_KEY, 1, at_ms, 0, KINDS[0]), (), Confirmation(number, at_ms))
