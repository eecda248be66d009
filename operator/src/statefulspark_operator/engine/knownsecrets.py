"""Secrets as they were read last, so that no pass reads what it read before.

A Secret that does not work any more may have been replaced: it is doubted, and then read again, though not at every try.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

LASTS = timedelta(minutes=10)
"""How long values are used that nothing speaks against."""
DOUBTED_AFTER = timedelta(seconds=30)
"""Values that were read more recently than this are not read again, whatever speaks against them."""

SecretKey = tuple[str, str]
"""Namespace and name; for the token of a job its uid and the name."""


@dataclass(slots=True)
class KnownSecrets:
    """The values, and when they were read."""

    _read: dict[SecretKey, tuple[datetime, Mapping[str, str]]] = field(default_factory=dict)

    def find(self, key: SecretKey, now: datetime) -> Mapping[str, str] | None:
        """Return the values of a Secret; None if it has to be read."""
        kept = self._read.get(key)
        return kept[1] if kept is not None and now - kept[0] < LASTS else None

    def keep(self, key: SecretKey, values: Mapping[str, str], now: datetime) -> None:
        """Keep the values of a Secret that was read."""
        self._read[key] = (now, values)

    def doubt(self, key: SecretKey, now: datetime) -> None:
        """Have a Secret that does not work read again, unless it was read a moment ago."""
        kept = self._read.get(key)
        if kept is not None and now - kept[0] >= DOUBTED_AFTER:
            del self._read[key]

    def forget(self, key: SecretKey) -> None:
        """Drop a Secret."""
        self._read.pop(key, None)

    def __len__(self) -> int:
        """Return the number of Secrets whose values are kept."""
        return len(self._read)
