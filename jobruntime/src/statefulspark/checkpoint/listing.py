"""Listings that may lag: what one does not show is looked up by name before it counts as absent.

S3 and most servers like it list what they have acknowledged; replicated ones may list it later. So a listing is a hint
and a look-up by name is the proof: a decision that rests on a file's absence asks for the file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent import futures

from statefulspark import errors
from statefulspark.storage.port import ObjectInfo, ObjectStore

_CONCURRENCY = 8
_PROOFS = 32
"""After so many names that are proven absent, the listing is believed about the rest."""


class FilesAbsentError(errors.SnapshotCorruptError):
    """A listing does not show files that a batch needs.

    Attributes:
        alternatives: Keys relative to the query's root; one of them would do.

    Operator action: as for every damaged snapshot: start from an older one.
    """

    def __init__(self, reason: str, message: str, alternatives: tuple[str, ...]) -> None:
        super().__init__(reason, message)
        self.alternatives = alternatives


def below(store: ObjectStore, folder: str, needed: Iterable[str] = ()) -> dict[str, ObjectInfo]:
    """List a folder; what is needed and not listed is looked up by name.

    Cost: a LIST per 1,000 objects; a HEAD for each needed name that is not listed, up to a limit of absent ones.

    Args:
        store: Any store.
        folder: Below it.
        needed: Names relative to the folder.

    Returns:
        What is known of the objects by name relative to the folder.
    """
    found = {info.key[len(folder) + 1 :]: info for info in store.list(folder)}
    hidden = [name for name in needed if name not in found]
    return found | look_up(store, folder, hidden) if hidden else found


def look_up(store: ObjectStore, folder: str, names: Iterable[str]) -> dict[str, ObjectInfo]:
    """Look objects up by name, until too many of them are absent. Cost: a HEAD each."""
    wanted = list(dict.fromkeys(names))
    found: dict[str, ObjectInfo] = {}
    with futures.ThreadPoolExecutor(_CONCURRENCY) as pool:
        for start in range(0, len(wanted), _PROOFS):
            part = wanted[start : start + _PROOFS]
            infos = pool.map(lambda name: store.info(f"{folder}/{name}"), part)
            found |= {name: info for name, info in zip(part, infos, strict=True) if info is not None}
            if start + len(part) - len(found) >= _PROOFS:
                break
    return found


def highest(store: ObjectStore, listed: int, key_of: Callable[[int], str]) -> int:
    """Return the highest of numbers that are taken one after the other, from what a listing shows.

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
