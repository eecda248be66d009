"""Listings that may lag: a file that a listing does not show is looked up by name before it counts as absent.

S3 and most compatible servers list every acknowledged object; replicated servers may list it later. So only a look-up by
name proves that a file does not exist, and every decision that depends on an absent file makes that look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from statefulspark import errors
from statefulspark.storage.port import ObjectInfo, ObjectStore

_MAX_ABSENT = 32
"""After so many names that do not exist, the other names are not looked up."""


class FilesAbsentError(errors.SnapshotCorruptError):
    """A listing does not show files that a batch needs.

    Attributes:
        alternatives: Keys relative to the query's root; one of them is sufficient.

    Operator action: start from an older snapshot.
    """

    def __init__(self, reason: str, message: str, alternatives: tuple[str, ...]) -> None:
        super().__init__(reason, message)
        self.alternatives = alternatives


def below(store: ObjectStore, folder: str, needed: Iterable[str] = ()) -> dict[str, ObjectInfo]:
    """List the objects below a folder; needed objects that are not listed are looked up by name.

    Cost: a LIST per 1,000 objects; a HEAD for each needed name that is not listed, up to a limit of absent names.

    Args:
        store: Any store.
        folder: The folder below it.
        needed: Names relative to the folder.

    Returns:
        The objects, by name relative to the folder.
    """
    objects = {info.key[len(folder) + 1 :]: info for info in store.list(folder)}
    hidden = [name for name in needed if name not in objects]
    return objects | look_up(store, folder, hidden) if hidden else objects


def look_up(store: ObjectStore, folder: str, names: Iterable[str]) -> dict[str, ObjectInfo]:
    """Look objects up by name, until too many of them are absent. Cost: a HEAD each."""
    unique_names = list(dict.fromkeys(names))
    objects: dict[str, ObjectInfo] = {}
    for start in range(0, len(unique_names), _MAX_ABSENT):
        part = unique_names[start : start + _MAX_ABSENT]
        infos = store.info_many([f"{folder}/{name}" for name in part])
        objects |= {name: info for name in part if (info := infos[f"{folder}/{name}"]) is not None}
        if start + len(part) - len(objects) >= _MAX_ABSENT:
            break
    return objects


def highest(store: ObjectStore, listed: int, key_of: Callable[[int], str]) -> int:
    """Return the highest number in use, where numbers are taken one after the other and a listing may lag.

    Cost: one HEAD, and one more for each number that the listing does not show.

    Args:
        store: Any store.
        listed: The highest number listed, 0 for none.
        key_of: Key of the object that takes a number.
    """
    number = listed
    while store.info(key_of(number + 1)) is not None:
        number += 1
    return number
