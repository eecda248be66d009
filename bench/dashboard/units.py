"""Values as Grafana writes them in the units that the dashboard uses. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bench.dashboard import panels

_IEC = ("B", "KiB", "MiB", "GiB", "TiB")
_SHORT = ("", " K", " Mil", " Bil")
_STEPS_OF_TIME = (
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    86_400.0,
)
_TOLERANCE = 1e-9
_LONG_TIMES = ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "min"))


def written(value: float, unit: str) -> str:
    """Write a value.

    Raises:
        DashboardError: The unit is none of those that are known here.
    """
    writer = _WRITERS.get(unit)
    if writer is None:
        raise panels.DashboardError(
            f"The unit {unit!r} is not known; say in bench/dashboard/units.py how it is written."
        )
    return writer(value)


def tick_step(unit: str, span: float, ticks: int) -> float:
    """Return a step for a scale that people read easily: a power of two of bytes, whole parts of minutes and hours of time.

    Args:
        unit: Grafana's name of the unit.
        span: From one end of the scale to the other, above 0.
        ticks: About how many ticks there shall be.
    """
    step = span / ticks
    if unit == "bytes":
        return float(2 ** round(math.log2(step)))
    if unit == "s" and step > 1:
        return next((length for length in _STEPS_OF_TIME if length >= step), 86_400.0 * math.ceil(step / 86_400))
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * part for part in (1, 2, 5, 10) if power * part >= step * (1 - _TOLERANCE))


def _seconds(value: float) -> str:
    size = abs(value)
    for length, name in _LONG_TIMES:
        if size >= length:
            return f"{_number(value / length)} {name}"
    return f"{_number(value * 1000)} ms" if 0 < size < 1 else f"{_number(value)} s"


def _bytes(value: float) -> str:
    return _scaled(value, 1024.0, [f" {name}" for name in _IEC])


def _short(value: float) -> str:
    return _scaled(value, 1000.0, _SHORT)


def _rows_per_second(value: float) -> str:
    return f"{_short(value)} rows/s"


def _scaled(value: float, factor: float, names: Sequence[str]) -> str:
    step = 0
    while abs(value) >= factor and step < len(names) - 1:
        value, step = value / factor, step + 1
    return f"{_number(value)}{names[step]}"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


_WRITERS: dict[str, Callable[[float], str]] = {
    "s": _seconds,
    "bytes": _bytes,
    "short": _short,
    "rowsps": _rows_per_second,
}
