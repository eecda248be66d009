"""Records whether a root has ever held state, to distinguish a new root from one whose state was deleted.

An epoch alone is not a proof: a first start may die right after its claim. So a driver writes `epochs/began.json` once it
has a generation, before any query runs. Without that note no state was ever written; with the note and without a
generation, the state was deleted. Only the record of a deletion on purpose (`retention.purging`) says that it may be gone.
"""

from __future__ import annotations

import contextlib
from datetime import datetime

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import Purge
from statefulspark.contract.notes import BeginningNote
from statefulspark.storage.port import MOST_OF_A_DOCUMENT, ObjectStore

_AFTER_THE_BEGINNING = (layout.DAMAGE, layout.SINKS, layout.PRUNE)
"""Folders that a driver writes to once its queries run."""


def note(store: ObjectStore, *, generation: int, epoch: int, now: datetime) -> None:
    """Record that this root holds a generation. Idempotent. Cost: one PUT.

    Called before any query starts, so that no state is written without it.
    """
    record = BeginningNote(generation=generation, epoch=epoch, noted_at=now)
    with contextlib.suppress(errors.ObjectExistsError):
        store.create(layout.BEGAN, record.to_json(indent=1).encode())


def traces(store: ObjectStore, purge: Purge | None) -> tuple[str, ...]:
    """Return the objects that show that this root has held state; called only if no generation is usable.

    Cost: a HEAD and a LIST; a GET if the state was deleted on purpose and there is a note.

    Args:
        store: The job's root.
        purge: The deletion of all state on purpose; what is older is no trace.
    """
    if store.info(layout.BEGAN) is not None:
        if purge is None:
            return (layout.BEGAN,)
        body = store.read(layout.BEGAN, most_bytes=MOST_OF_A_DOCUMENT)
        if BeginningNote.parse(body, f"{store.uri}/{layout.BEGAN}").epoch > purge.epoch:
            return (layout.BEGAN,)
    names = store.list_names("") if purge is None else ()
    return tuple(f"{folder}/" for folder in _AFTER_THE_BEGINNING if f"{folder}/" in names)
