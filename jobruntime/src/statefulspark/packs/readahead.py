"""Reads a little more than was asked for where reads follow one another: fewer and larger requests to storage.

Key groups are loaded in the order in which a pack has their chunks, so after a restart a batch reads each pack from its
beginning to its end. A single read gets what it asked for and no more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

LIMIT_BYTES = 64 << 20
"""Memory of a worker for what was read ahead."""
_FIRST_BYTES = 512 << 10
_MOST_BYTES = 4 << 20
_GAP_BYTES = 256 << 10
"""A read that begins so close behind the one before follows it."""


@dataclass(slots=True)
class _Stretch:
    """What was read of an object last.

    Attributes:
        offset: Its first byte.
        body: The bytes.
        read_until: End of the last chunk that was asked for.
        ahead_bytes: How much was read ahead last; 0 before a read has followed another.
    """

    offset: int
    body: bytes
    read_until: int
    ahead_bytes: int = 0

    def part(self, offset: int, length: int) -> bytes | None:
        """Return a part of the object; None if it is not whole in here."""
        begin = offset - self.offset
        end = begin + length
        return self.body[begin:end] if begin >= 0 and end <= len(self.body) else None


class RangeReader:
    """Reads ranges of objects that never change.

    Args:
        limit_bytes: Memory for what was read ahead, over all objects.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._stretches: OrderedDict[str, _Stretch] = OrderedDict()

    def read(self, name: str, offset: int, length: int, fetch: Callable[[int, int], bytes]) -> bytes:
        """Return a range of an object; fewer bytes if the object ends before.

        Args:
            name: Of the object, unique in this process.
            offset: The first byte.
            length: How many bytes.
            fetch: Reads a range from storage, by offset and length.
        """
        last = self._stretches.pop(name, None)
        kept = None if last is None else last.part(offset, length)
        if last is None or kept is None:
            ahead_bytes = _ahead(last, offset)
            body = fetch(offset, max(length, ahead_bytes))
            last, kept = _Stretch(offset, body, 0, ahead_bytes), body[:length]
        last.read_until = offset + length
        self._keep(name, last)
        return kept

    def _keep(self, name: str, stretch: _Stretch) -> None:
        if stretch.offset + len(stretch.body) <= stretch.read_until:
            stretch.body = b""  # All of it was asked for; what follows is known by `read_until`.
        self._stretches[name] = stretch
        while sum(len(kept.body) for kept in self._stretches.values()) > self._limit_bytes:
            self._stretches.popitem(last=False)


def _ahead(last: _Stretch | None, offset: int) -> int:
    if last is None or not last.read_until <= offset <= last.read_until + _GAP_BYTES:
        return 0
    return min(max(2 * last.ahead_bytes, _FIRST_BYTES), _MOST_BYTES)
