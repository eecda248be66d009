"""Timers with the semantics of Spark.

The timers that fire in a batch are determined once, after its rows: those due at that time, earliest first. A callback
does not change this set: a timer that it sets fires in the next batch at the earliest, even if already due, and a timer
that it deletes still fires. A timer exists until its callback has returned: the callback finds it in the list and cannot
set it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from statefulspark.state import functions, timers

_LONGS = range(-(2**63), 2**63)


class ProcessorTimers:
    """The timers of the current key in the time domain of the operator.

    Args:
        context: Has the current key and its timers.
        now_ms: The time of the domain in this batch.
    """

    def __init__(self, context: functions.BatchContext, now_ms: int) -> None:
        self._context, self._now_ms = context, now_ms
        self._firing: dict[object, set[int]] = {}
        self._deleted: dict[object, set[int]] = {}

    @property
    def _domain(self) -> timers.DomainTimers:
        return self._context.timer_domains[0]

    def register(self, at_ms: int) -> None:
        """Set a timer.

        Raises:
            ValueError: The moment is no long, as Spark's client says.
        """
        key, moment = self._context.state_key, int(at_ms)
        if moment not in _LONGS:
            raise ValueError(f"Value out of range: {moment}")
        if moment in self._deleted.get(key, ()):
            # It fires in this batch in any case and is deleted after that.
            self._deleted[key].discard(moment)
            self._firing[key].add(moment)
        elif moment not in self._firing.get(key, ()):
            self._domain.register(moment)

    def delete(self, at_ms: int) -> None:
        """Delete a timer."""
        key, moment = self._context.state_key, int(at_ms)
        if moment in self._firing.get(key, ()):
            self._firing[key].discard(moment)
            self._deleted.setdefault(key, set()).add(moment)
        else:
            self._domain.delete(moment)

    def listed(self) -> list[int]:
        """Return the set timers, earliest first."""
        return sorted({*self._domain.moments(), *self._firing.get(self._context.state_key, ())})

    def fire(self) -> Iterator[int]:
        """Remove and yield all due timers of the bound key group, and set the current key to the key of each.

        Yields:
            The time of the timer.
        """
        due: list[tuple[int, object]] = []
        while (first := self._domain.take_due(self._now_ms)) is not None:
            due.append(first)
            self._firing.setdefault(first[1], set()).add(first[0])
        try:
            for at_ms, key in due:
                self._context.enter(key)
                yield at_ms
                self._firing[key].discard(at_ms)
                self._deleted.get(key, set()).discard(at_ms)
        finally:
            self._firing.clear()
            self._deleted.clear()
            self._context.leave()
