"""Savepoints of a job outside its `savepoints/` folder: the location of each, and whether it can be read now.

The job records their numbers as `savepoints/<number>.json`, which name the location. A savepoint may have been moved or
disposed of later; an error while reading one is returned and not raised, since the job itself needs none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import catalog, transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest
from statefulspark.contract.notes import SavepointPointer
from statefulspark.recovery import candidates
from statefulspark.storage.port import MOST_OF_A_DOCUMENT, ObjectStore

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ExternalSavepoint:
    """A savepoint at another location.

    Attributes:
        id: Its number.
        location: URI of its folder; URI of the document that names it, if that cannot be read.
        manifest: Its manifest, or the error while reading it.
        store: Its store; None if the location cannot be opened.
        folder: Its folder below the store.
    """

    id: int
    location: str
    manifest: Manifest | errors.StatefulSparkError
    store: ObjectStore | None = None
    folder: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether its location has no savepoint: it was moved, disposed of, or never completed."""
        return isinstance(self.manifest, errors.SpecRejectedError) and self.store is not None


def list_all(store: ObjectStore, open_store: transfer.StoreOpener | None) -> tuple[ExternalSavepoint, ...]:
    """List a job's savepoints at other locations, newest first. Cost: a listing; two GETs for each.

    Args:
        store: The job's root.
        open_store: Opens other locations.

    Raises:
        TransientError, StateUnknownError: The job's own storage cannot be reached.
    """
    pointers = (name.removesuffix(_SUFFIX) for name in store.list_names(layout.SAVEPOINTS) if name.endswith(_SUFFIX))
    numbers = {number for name in pointers if (number := layout.parse_number(name))}
    keys = {number: layout.savepoint_pointer(number) for number in sorted(numbers, reverse=True)}
    bodies = catalog.read_present(store, tuple(keys.values()), most_bytes=MOST_OF_A_DOCUMENT)
    savepoints = []
    for number, key in keys.items():
        if key not in bodies:
            continue
        location, where, folder = f"{store.uri}/{key}", None, ""
        manifest: Manifest | errors.StatefulSparkError
        try:
            location = SavepointPointer.parse(bodies[key], location).location
            where, folder = candidates.locate(store, location, open_store)
            manifest = catalog.read_manifest(where, folder)
        except errors.ObjectNotFoundError:
            manifest = errors.SpecRejectedError(
                "SnapshotNotFound",
                f"There is no savepoint at {location} now: it was moved, disposed of, or never completed.",
            )
        except errors.StatefulSparkError as error:
            manifest = error
        savepoints.append(ExternalSavepoint(number, location, manifest, where, folder))
    return tuple(savepoints)


def location_of(store: ObjectStore, number: int) -> str | None:
    """Return the location of a savepoint that is not in the job's folder; None if there is none of that number.

    Raises:
        SnapshotCorruptError: The document that names it is unreadable.
    """
    key = layout.savepoint_pointer(number)
    body = catalog.read_present(store, (key,), most_bytes=MOST_OF_A_DOCUMENT).get(key)
    return None if body is None else SavepointPointer.parse(body, f"{store.uri}/{key}").location
