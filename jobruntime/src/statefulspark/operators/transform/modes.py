"""Spark's time modes and their time domains."""

from __future__ import annotations

import enum

from statefulspark import errors
from statefulspark.contract import watermark
from statefulspark.state import timers


class TimeMode(enum.Enum):
    """The clock of timers and times to live, as Spark names it."""

    NONE = "None"
    """No timers and no time to live."""
    PROCESSING_TIME = "ProcessingTime"
    """The clock of the machine that plans the batches."""
    EVENT_TIME = "EventTime"
    """The watermark of the input; there is no time to live."""

    @property
    def domains(self) -> frozenset[timers.TimeDomain]:
        """The time domain of the timers."""
        return _DOMAINS[self]


_DOMAINS: dict[TimeMode, frozenset[timers.TimeDomain]] = {
    TimeMode.NONE: frozenset(),
    TimeMode.PROCESSING_TIME: frozenset({timers.TimeDomain.PROCESSING_TIME}),
    TimeMode.EVENT_TIME: frozenset({timers.TimeDomain.EVENT_TIME}),
}
_OUTPUT_MODES = {"append": "Append", "update": "Update"}


def watermark_of_spark(watermark_ms: int) -> int:
    """Return a watermark as Spark shows it: 0 before there is one, and the end of the year 9999 when event time has ended.

    A processor adds to it: after the last number there is none.
    """
    return min(max(0, watermark_ms), watermark.END_OF_TIME_MS)


def time_mode(name: str) -> TimeMode:
    """Return a time mode by its name, in any case.

    Raises:
        InvalidArgumentError: There is no such mode.
    """
    for mode in TimeMode:
        if mode.value.lower() == str(name).lower():
            return mode
    raise errors.InvalidArgumentError(
        "TimeModeInvalid",
        f"[STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE] Unknown time mode {name!r}. Accepted timeMode values are 'none', "
        "'processingTime', 'eventTime'.",
    )


def output_mode(name: str, operator: str = "transformWithState") -> str:
    """Return an output mode as Spark writes it, by its name in any case.

    Raises:
        InvalidArgumentError: The operator does not support it.
    """
    mode = _OUTPUT_MODES.get(str(name).lower())
    if mode is None:
        raise errors.InvalidArgumentError(
            "OutputModeInvalid",
            f"The output mode {name!r} is not supported by {operator}: use Append or Update.",
        )
    return mode
