"""Which older packs a new one takes over, so that storage holds at most about twice what heads name. Pure.

The space between the tail and now is a log. A pack that leaves it has no chunk that is named; so the oldest ones go first,
and what is still named of them is copied, unchanged, into the pack that is being written.
"""

from __future__ import annotations

from collections.abc import Mapping

from statefulspark.packs import names

MOST = 2.0
"""So many times what is named may be stored."""


def choose_rewrites(stored: Mapping[str, int], named: Mapping[str, int], new_bytes: int) -> tuple[str, ...]:
    """Choose the packs whose named chunks are copied into a new one.

    Args:
        stored: Size of each pack of the window, by name.
        named: Bytes of the chunks that heads still name in each pack, after the batch; packs without any may be left out.
        new_bytes: Bytes of the batch's own chunks.

    Returns:
        Names, oldest first; never packs that no head names.
    """
    live = sum(named.values()) + new_bytes
    chosen: list[str] = []
    waiting = sorted((name for name, size in named.items() if size), key=_batch)
    left = _window(stored, waiting) + new_bytes
    while waiting and left > MOST * live:
        copied = waiting.pop(0)
        chosen.append(copied)
        new_bytes += named[copied]
        left = _window(stored, waiting) + new_bytes
    return tuple(chosen)


def _window(stored: Mapping[str, int], named: list[str]) -> int:
    """Return the bytes of the packs from the oldest that is named on."""
    if not named:
        return 0
    oldest = _batch(named[0])
    return sum(size for name, size in stored.items() if _batch(name) >= oldest)


def _batch(reference: str) -> int:
    return names.parse(reference).batch
