"""How many drivers may start in a time: a token bucket. Pure.

After the outage of a cluster, or of a store, all jobs want to start in the same moment. Each start fetches an image, reads
the job's state and uses a processor for seconds, so that nodes, registry and store would get all of that at once, and each
start would take the longer. A start on a quiet fleet takes a token that is there, and waits for nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

HELD = timedelta(seconds=10)
"""A full bucket has the tokens of this time: so many starts need not wait for one another."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pace:
    """The bucket.

    Attributes:
        per_minute: Number of starts in a minute, at least 1.
        full_at: Time at which the bucket is full again, without further starts.
    """

    per_minute: int
    full_at: datetime = _LONG_AGO

    def due_at(self, now: datetime, *, ahead: int) -> datetime:
        """Return when a start may be made at the earliest.

        Args:
            now: UTC.
            ahead: Number of starts that are made before it.
        """
        interval, held = self._bucket
        return max(now, max(now, self.full_at) - (held - 1 - ahead) * interval)

    def spend(self, at: datetime) -> Pace:
        """Return the bucket after a start; starts come in the order of their times.

        Args:
            at: When it was made, UTC. If there was no token then, because the pace was another one, the bucket is empty.
        """
        interval, held = self._bucket
        return dataclasses.replace(self, full_at=min(max(at, self.full_at) + interval, at + held * interval))

    def bounded(self, now: datetime) -> Pace:
        """Return the bucket without starts that lie ahead: a clock was set back, or that of an earlier operator was fast.

        Args:
            now: UTC.
        """
        interval, held = self._bucket
        return dataclasses.replace(self, full_at=min(self.full_at, now + held * interval))

    @property
    def _bucket(self) -> tuple[timedelta, int]:
        """The time in which a token is added, and how many tokens there are at most."""
        interval = timedelta(minutes=1) / self.per_minute
        return interval, max(1, round(HELD / interval))
