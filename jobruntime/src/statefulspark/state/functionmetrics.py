"""Counters and gauges of a keyed function, in the task that runs it. Pure.

A task counts for itself. When it has ended well, its values go to the driver, which adds them up. Nothing is stored: a new
driver begins at zero, as with every other metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator
from enum import StrEnum

from statefulspark import errors

MOST_SERIES = 500
"""Upper limit of the series of a job; those beyond it are left out."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,79}")
_SUFFIXES = ("_total", "_bucket", "_count", "_sum", "_created", "_info")
"""Endings that Prometheus gives a meaning to."""


class MetricKind(StrEnum):
    """What a value means."""

    COUNTER = "Counter"
    """Only rises."""
    GAUGE = "Gauge"
    """Rises and falls."""


class MetricCounter:
    """Counts something, from zero on in each driver."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Count one more, or several.

        Args:
            amount: How many; a finite number, not negative.

        Raises:
            InvalidArgumentError: `MetricInvalid`.
        """
        if not 0 <= amount < math.inf:
            raise errors.InvalidArgumentError(
                "MetricInvalid", f"A counter cannot count {amount!r}, because it only rises; use a gauge."
            )
        self.value += float(amount)


class MetricGauge:
    """Has a value that rises and falls, in each partition of the state."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float | None = None

    def set(self, value: float) -> None:
        """Set the value; at the end of the batch, the last one of each partition counts, if it is a finite number."""
        self.value = float(value)


class FunctionMetrics:
    """The counters and gauges of a function: one for each name, whatever the key."""

    __slots__ = ("_counters", "_gauges")

    def __init__(self) -> None:
        self._counters: dict[str, MetricCounter] = {}
        self._gauges: dict[str, MetricGauge] = {}

    def counter(self, name: str) -> MetricCounter:
        """Return the counter of a name, which Prometheus sees as `statefulspark_function_NAME_total`.

        Args:
            name: 1 to 80 characters of a-z, 0-9 and `_`, beginning with a letter; without an ending such as `_total`. The
                function has no gauge of this name.

        Raises:
            InvalidArgumentError: `MetricInvalid`.
        """
        counter = self._counters.get(name)
        if counter is None:
            _require_free(name, self._gauges, "gauge")
            counter = self._counters[_checked(name)] = MetricCounter()
        return counter

    def gauge(self, name: str) -> MetricGauge:
        """Return the gauge of a name, which Prometheus sees as `statefulspark_function_NAME`.

        Args:
            name: As for `counter`. The function has no counter of this name.

        Raises:
            InvalidArgumentError: `MetricInvalid`.
        """
        gauge = self._gauges.get(name)
        if gauge is None:
            _require_free(name, self._counters, "counter")
            gauge = self._gauges[_checked(name)] = MetricGauge()
        return gauge


def values(metrics: FunctionMetrics) -> Iterator[tuple[MetricKind, str, float]]:
    """Yield kind, name and value of each metric that has one; JSON has no word for NaN and the infinite ones."""
    for name, counter in metrics._counters.items():
        yield MetricKind.COUNTER, name, counter.value
    for name, gauge in metrics._gauges.items():
        if gauge.value is not None and math.isfinite(gauge.value):
            yield MetricKind.GAUGE, name, gauge.value


def _require_free(name: str, others: Container[str], kind: str) -> None:
    if name in others:
        raise errors.InvalidArgumentError(
            "MetricInvalid", f"The metric {name!r} of this function is a {kind} already; give this one another name."
        )


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None or name.endswith(_SUFFIXES):
        raise errors.InvalidArgumentError(
            "MetricInvalid",
            f"The name {name!r:.100} of a metric must be 1 to 80 characters of a-z, 0-9 and '_', begin with a letter, and "
            f"not end with {', '.join(_SUFFIXES)}.",
        )
    return name
