"""Scratch folders on storage: what may be removed of those that somebody has left behind.

A start removes its own and those of older epochs. A rehearsal removes its own; one that was killed cannot, and is known by
its silence, since no rehearsal takes as long as that. No state refers to either: a folder that is removed too early costs a
rehearsal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from statefulspark.contract import layout
from statefulspark.storage.port import ObjectInfo, ObjectStore

SILENCE = timedelta(minutes=10)
"""Time without a write after which nobody works in the folder of a rehearsal."""


def clear_of_starts(store: ObjectStore, names: Iterable[str], *, below: int) -> None:
    """Delete what the starts of older epochs have left. Cost: a LIST and a DELETE for each.

    Args:
        store: The job's root.
        names: Names in the scratch folder.
        below: Epoch of the start that asks.
    """
    for name in names:
        epoch = layout.parse_number(name.rstrip("/"))
        if epoch is not None and epoch < below:
            store.delete_folder(f"{layout.SCRATCH}/{name.rstrip('/')}")


def clear_of_rehearsals(store: ObjectStore, names: Iterable[str], *, now: datetime) -> None:
    """Delete what rehearsals that were killed have left. Cost: a LIST for each, and as much again if it is deleted.

    Args:
        store: The job's root.
        names: Names in the scratch folder.
        now: UTC.
    """
    for name in filter(layout.is_rehearsal, names):
        folder = f"{layout.SCRATCH}/{name.rstrip('/')}"
        if is_silent(store.list(folder), now):
            store.delete_folder(folder)


def is_silent(files: Sequence[ObjectInfo], now: datetime) -> bool:
    """Tell whether nobody has written into a folder for so long that nobody works in it."""
    return all(now - info.modified_at > SILENCE for info in files)
