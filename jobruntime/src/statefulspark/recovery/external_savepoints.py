"""Savepoints of a job outside its `savepoints/` folder: the location of each, and whether it can be read now.

The job records their numbers as `savepoints/<number>.json`, which name the location. A savepoint may have been moved or
disposed of later; an error while reading one is returned and not raised, since the job itself needs none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    numbers = sorted(set(_numbers(store.list_names(layout.SAVEPOINTS))), reverse=True)
    keys = {number: layout.savepoint_pointer(number) for number in numbers}
    bodies = catalog.read_present(store, tuple(keys.values()), most_bytes=MOST_OF_A_DOCUMENT)
    return tuple(_read(store, number, bodies[key], open_store) for number, key in keys.items() if key in bodies)


def location_of(store: ObjectStore, number: int) -> str | None:
    """Return the location of a savepoint that is not in the job's folder; None if there is none of that number.

    Raises:
        SnapshotCorruptError: The document that names it is unreadable.
    """
    key = layout.savepoint_pointer(number)
    body = catalog.read_present(store, (key,), most_bytes=MOST_OF_A_DOCUMENT).get(key)
    return None if body is None else SavepointPointer.parse(body, f"{store.uri}/{key}").location


def _numbers(names: Iterable[str]) -> Iterable[int]:
    for name in names:
        number = layout.parse_number(name.removesuffix(_SUFFIX)) if name.endswith(_SUFFIX) else None
        if number:
            yield number


def _read(store: ObjectStore, number: int, body: bytes, open_store: transfer.StoreOpener | None) -> ExternalSavepoint:
    key = layout.savepoint_pointer(number)
    try:
        location = SavepointPointer.parse(body, f"{store.uri}/{key}").location
    except errors.SnapshotCorruptError as error:
        return ExternalSavepoint(number, f"{store.uri}/{key}", error)
    try:
        where, folder = candidates.locate(store, location, open_store)
    except errors.StatefulSparkError as error:
        return ExternalSavepoint(number, location, error)
    return ExternalSavepoint(number, location, _manifest(where, folder, location), where, folder)


def _manifest(store: ObjectStore, folder: str, location: str) -> Manifest | errors.StatefulSparkError:
    try:
        return catalog.read_manifest(store, folder)
    except errors.ObjectNotFoundError:
        return errors.SpecRejectedError(
            "SnapshotNotFound",
            f"There is no savepoint at {location} now: it was moved, disposed of, or never completed.",
        )
    except errors.StatefulSparkError as error:
        return error
