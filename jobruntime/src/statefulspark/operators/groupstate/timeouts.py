"""The timeout of a key, kept as a timer.

A key has one timeout at most. It is over when the clock is past its moment, not when it reaches it, so the timer is set a
millisecond later. Which timeouts are over is settled once per batch, after its rows.
"""

from __future__ import annotations

import enum

from pyspark.sql.streaming.state import GroupStateTimeout

from statefulspark import errors
from statefulspark import state as keyed_state
from statefulspark.operators.transform import modes
from statefulspark.state import timers as state_timers


class Timeout(enum.Enum):
    """What timeouts go by, in Spark's words."""

    NONE = GroupStateTimeout.NoTimeout
    """There are none."""
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


def of(name: str) -> Timeout:
    """Return what a member of Spark's `GroupStateTimeout` stands for.

    Raises:
        SpecRejectedError: It is none of them.
    """
    for timeout in Timeout:
        if timeout.value == name:
            return timeout
    known = ", ".join(timeout.value for timeout in Timeout)
    raise errors.SpecRejectedError("TimeoutInvalid", f"There is no timeout {name!r}; it is one of {known}.")


class Timeouts:
    """The timeouts of the keys of the bound key group.

    Args:
        context: Has the key, and its timers.
        now_ms: The time that they go by.
    """

    def __init__(self, context: keyed_state.KeyedContext, now_ms: int) -> None:
        self._context, self._now_ms = context, now_ms

    @property
    def _domain(self) -> state_timers.Timers:
        return self._context.timer_service.domains[0]

    def set(self, at_ms: int) -> None:
        """Set the timeout of the current key; the one that it had is forgotten."""
        self.clear()
        self._domain.register(at_ms + 1)

    def clear(self) -> None:
        """Forget the timeout of the current key."""
        for moment in self._domain.moments():
            self._domain.delete(moment)

    def take_over(self) -> list[tuple[int, object]]:
        """Take the timeouts that are over, and return them with their keys, earliest first."""
        found: list[tuple[int, object]] = []
        while (first := self._domain.take_due(self._now_ms)) is not None:
            found.append((first[0] - 1, first[1]))
        return found

    def is_overdue(self) -> bool:
        """Tell whether the bound key group has timeouts that are over and wait for the next batch."""
        next_ms = self._domain.next_ms()
        return next_ms is not None and next_ms <= self._now_ms
