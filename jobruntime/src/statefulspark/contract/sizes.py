"""Numbers of bytes as people read them: with three digits, in units of 1024."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_short(size_bytes: float) -> str:
    """Write a number of bytes: `512 B`, `1.46 KiB`, `12.3 MiB`, `105 GiB`."""
    value, units = float(size_bytes), iter(_UNITS)
    unit = next(units)
    while value >= 999.5 and unit != _UNITS[-1]:
        value, unit = value / 1024, next(units)
    return f"{value:.0f} B" if unit == "B" else f"{value:#.3g}".rstrip(".") + f" {unit}"
