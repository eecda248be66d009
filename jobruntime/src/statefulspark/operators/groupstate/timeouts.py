"""The timeout of a key, kept as a timer.

A key has one timeout at most. It expires when the clock is past its time, not when the clock reaches it, so the timer is
set one millisecond later. Expired timeouts are determined once per batch, after its rows.
"""

from __future__ import annotations

import enum

from pyspark.sql.streaming.state import GroupStateTimeout

from statefulspark import errors
from statefulspark.operators.transform import modes
from statefulspark.state import functions, timers


class Timeout(enum.Enum):
    """The kind of timeouts, as Spark names it."""

    NONE = GroupStateTimeout.NoTimeout
    """No timeouts."""
    PROCESSING_TIME = GroupStateTimeout.ProcessingTimeTimeout
    """The clock of the machine that plans the batches."""
    EVENT_TIME = GroupStateTimeout.EventTimeTimeout
    """The watermark of the input."""

    @property
    def mode(self) -> modes.TimeMode:
        """The time mode of a processor that has timers of this kind."""
        return _MODES[self]


_MODES = {
    Timeout.NONE: modes.TimeMode.NONE,
    Timeout.PROCESSING_TIME: modes.TimeMode.PROCESSING_TIME,
    Timeout.EVENT_TIME: modes.TimeMode.EVENT_TIME,
}


def parse(name: str) -> Timeout:
    """Return the timeout kind of a member of Spark's `GroupStateTimeout`.

    Raises:
        SpecRejectedError: There is no such member.
    """
    for timeout in Timeout:
        if timeout.value == name:
            return timeout
    allowed = ", ".join(timeout.value for timeout in Timeout)
    raise errors.SpecRejectedError("TimeoutInvalid", f"Unknown timeout {name!r}; use one of {allowed}.")


class Timeouts:
    """The timeouts of the keys of the bound key group.

    Args:
        context: Has the current key and its timers.
        now_ms: Current time of the timeouts.
    """

    def __init__(self, context: functions.BatchContext, now_ms: int) -> None:
        self._context, self._now_ms = context, now_ms

    @property
    def _domain(self) -> timers.DomainTimers:
        return self._context.timer_domains[0]

    def set(self, at_ms: int) -> None:
        """Set the timeout of the current key and replace an existing one; the last number of a long is the one before it."""
        self.clear()
        self._domain.register(min(at_ms + 1, timers.MAX_WATERMARK_MS))

    def clear(self) -> None:
        """Remove the timeout of the current key."""
        for moment in self._domain.moments():
            self._domain.delete(moment)

    def take_expired(self) -> list[tuple[int, object]]:
        """Remove expired timeouts and return them with their keys, earliest first."""
        expired: list[tuple[int, object]] = []
        while (first := self._domain.take_due(self._now_ms)) is not None:
            expired.append((first[0] - 1, first[1]))
        return expired
