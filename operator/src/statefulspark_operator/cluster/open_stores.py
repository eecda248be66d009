"""The stores that are open, by job: one that a job does not use any more is dropped, with its connection.

Credentials that were rotated, and the connections that have them, go when their last job has new ones.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from statefulspark import storage

MOST_LOCATIONS = 16
"""Locations that stay open for a job; that of its state is used in every look, so it is never the oldest."""

StoreOpener = Callable[[str, storage.StorageOptions], storage.ObjectStore]
"""Returns the store at a URI."""
_StoreKey = tuple[str, storage.StorageOptions]


class OpenStores:
    """Opens stores, and shares them between jobs with the same credentials; threads may share it."""

    def __init__(self, open_store: StoreOpener) -> None:
        """Open nothing yet.

        Args:
            open_store: Returns the store at a URI.
        """
        self._open_store = open_store
        # One at a time: each of the threads that begin together would read for itself how S3's requests look, 23 MB of it.
        self._opening = threading.Lock()
        self._stores: dict[_StoreKey, storage.ObjectStore] = {}
        self._used: dict[str, OrderedDict[_StoreKey, None]] = {}

    def open(self, owner: str, uri: str, options: storage.StorageOptions) -> storage.ObjectStore:
        """Return the store at a URI; what the job has used with other options is dropped.

        Args:
            owner: The job.
            uri: The location.
            options: The connection.
        """
        key = (uri, options)
        with self._opening:
            used = self._used.setdefault(owner, OrderedDict())
            used[key] = None
            used.move_to_end(key)
            self._drop(owner, [other for other in used if other[1] != options])
            self._drop(owner, list(used)[:-MOST_LOCATIONS])
            if key not in self._stores:
                self._stores[key] = self._open_store(uri, options)
            return self._stores[key]

    def forget(self, owner: str) -> None:
        """Drop what a job has used."""
        with self._opening:
            self._drop(owner, list(self._used.get(owner, ())))
            self._used.pop(owner, None)

    def __len__(self) -> int:
        """Return the number of open stores."""
        return len(self._stores)

    def _drop(self, owner: str, keys: list[_StoreKey]) -> None:
        for key in keys:
            del self._used[owner][key]
            if not any(key in used for used in self._used.values()):
                self._stores.pop(key, None)
