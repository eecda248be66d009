"""Records whether a root has ever held state, to distinguish a new root from one whose state was deleted.

An epoch alone is not a proof: a first start may die right after its claim. So a driver writes `epochs/began.json` once it
has a generation, before any query runs. Without that note no state was ever written; with the note and without a
generation, the state was deleted. Epochs of releases that wrote no such note count as a sign of earlier state.
"""

from __future__ import annotations

import contextlib
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import catalog
from statefulspark.contract import layout
from statefulspark.contract.manifest import EpochRecord
from statefulspark.contract.notes import BeginningNote
from statefulspark.storage.port import ObjectStore

_AFTER_THE_BEGINNING = (layout.DAMAGE, layout.SINKS, layout.PRUNE)
"""Folders that a driver writes to once its queries run."""


def note(store: ObjectStore, *, generation: int, epoch: int, now: datetime) -> None:
    """Record that this root holds a generation. Idempotent. Cost: one PUT.

    Called before any query starts, so that no state is written without it.
    """
    record = BeginningNote(generation=generation, epoch=epoch, noted_at=now)
    with contextlib.suppress(errors.ObjectExistsError):
        store.create(layout.BEGAN, record.to_json(indent=1).encode())


def traces(store: ObjectStore) -> tuple[str, ...]:
    """Return the objects that show that this root has held state; called only if no generation is usable.

    Cost: two LISTs, a HEAD, and a GET per epoch.
    """
    keys = [layout.BEGAN] if store.info(layout.BEGAN) is not None else []
    names = store.list_names("")
    keys += [f"{folder}/" for folder in _AFTER_THE_BEGINNING if f"{folder}/" in names]
    return tuple(keys) or _silent_epochs(store)


def _silent_epochs(store: ObjectStore) -> tuple[str, ...]:
    """Return the epochs of releases that wrote no note, and unreadable ones."""
    numbers = [number for name in store.list_names(layout.EPOCHS) if (number := layout.parse_number(name))]
    bodies = catalog.read_present(store, [layout.epoch(number) for number in numbers]) if numbers else {}
    return tuple(key for key, body in sorted(bodies.items()) if not _notes_beginning(body, f"{store.uri}/{key}"))


def _notes_beginning(body: bytes, source: str) -> bool:
    try:
        record = EpochRecord.parse(body, source)
    except errors.SnapshotCorruptError:
        return False
    return record.filled or record.notes_beginning
