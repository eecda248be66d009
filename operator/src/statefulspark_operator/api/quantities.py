"""Amounts in Kubernetes' notation: `2`, `500m`, `4Gi`, `1e9`. Pure.

The grammar is that of `k8s.io/apimachinery/pkg/api/resource.Quantity`; an amount below zero is none here, since no container
can have one.
"""

from __future__ import annotations

import re
from decimal import Decimal

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
PATTERN = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]?|[KMGTPE]i))$"
_AMOUNT = re.compile(PATTERN)
_LONGEST = 64
"""Characters of an amount. Python refuses to write a number of several thousand digits."""


def amount(text: str) -> Decimal:
    """Return an amount in its base unit: bytes of memory, cores of a processor.

    Raises:
        ValueError: It is none.
    """
    parts = _AMOUNT.fullmatch(text) if len(text) <= _LONGEST else None
    if parts is None:
        raise ValueError(f"{text[:_LONGEST]!r} is no amount; write it like 500m, 2 or 4Gi")
    number, exponent, suffix = parts.groups()
    return Decimal(number + exponent) if exponent else Decimal(number) * _SUFFIXES[suffix]


def canonical(text: str) -> str:
    """Return an amount in its shortest form without a suffix, so that `1Gi` and `1024Mi` are equal; other text as it is."""
    try:
        return f"{amount(text).normalize():f}"
    except ValueError:
        return text


def rounded(size_bytes: int) -> str:
    """Return a size as people read it, in three digits at most before the unit: `999`, `12.3Mi`."""
    amount, units = Decimal(size_bytes), iter(("", "Ki", "Mi", "Gi", "Ti", "Pi"))
    unit = next(units)
    while amount >= Decimal("999.5") and (larger := next(units, None)) is not None:
        amount, unit = amount / 1024, larger
    shown = f"{amount:.1f}".removesuffix(".0") if amount < 100 else f"{amount:.0f}"
    return f"{shown}{unit}"
