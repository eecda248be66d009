"""A read cache over the object store, so that a plan of a start reads each document and lists each folder once.

A plan reads the same objects for several reasons: the head of a generation and the checkpoint below it share files, and so
do successive checkpoints. The cache makes a start cheap, and makes all its decisions use the same facts.

A check that must be true at the moment of a write is made against the store itself: that no newer epoch exists, or that an
object has not changed. So the cache cannot write, and it is discarded with its plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from statefulspark import errors
from statefulspark.storage import port
from statefulspark.storage.port import MOST_BYTES, PAGE, ObjectInfo, ObjectStore

_MAX_BODY_BYTES = 2**20
_STATE_FILE = re.compile(r"(^|/)state/\d+/\d+/(?!.*\.zip$)")
"""Files that hold state: there are many, they may be large, and each is read at most once. Archives hold only metadata."""


class ReadCache:
    """A read-only store that caches listings and small documents. Look-ups by name always go to the store."""

    def __init__(self, store: ObjectStore) -> None:
        """Create an empty cache over a store."""
        self._store = store
        self._bodies: dict[str, bytes] = {}
        self._listings: dict[str, tuple[ObjectInfo, ...]] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    @property
    def uri(self) -> str:
        """URI of the store."""
        return self._store.uri

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """See the port."""
        if key not in self._bodies:
            self._remember({key: (body := self._store.read(key, most_bytes=most_bytes))})
            return body
        return self._bodies[key]

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        """See the port."""
        unread = [key for key in keys if key not in self._bodies]
        fresh = self._store.read_many(unread, most_bytes=most_bytes) if unread else {}
        self._remember(fresh)
        return {key: fresh[key] if key in fresh else self._bodies[key] for key in keys}

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """See the port; a part is not remembered."""
        return self._store.read_range(key, offset, length)

    def info(self, key: str) -> ObjectInfo | None:
        """See the port."""
        return self._store.info(key)

    def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
        """See the port."""
        return self._store.info_many(keys)

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port."""
        listed = self._listed_below(prefix)
        if listed is None:
            listed = self._listings[prefix] = self._store.list(prefix)
        return listed

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        """See the port; parts are not remembered."""
        return self._store.pages(prefix, size=size)

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """See the port."""
        listed = self._listed_below(prefix)
        if listed is not None:
            return port.direct_names([info.key[len(prefix) + 1 if prefix else 0 :] for info in listed])
        if prefix not in self._names:
            self._names[prefix] = self._store.list_names(prefix)
        return self._names[prefix]

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """Raise InternalError; see the class."""
        self._refuse("copy_many")

    def can_copy_from(self, source: ObjectStore) -> bool:
        """Return False: the cache cannot write."""
        return False

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Raise InternalError; see the class."""
        self._refuse("copy_from")

    def write(self, key: str, body: bytes) -> None:
        """Raise InternalError; see the class."""
        self._refuse("write")

    def create(self, key: str, body: bytes) -> None:
        """Raise InternalError; see the class."""
        self._refuse("create")

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """Raise InternalError; see the class."""
        self._refuse("replace")

    def delete_many(self, keys: Sequence[str]) -> None:
        """Raise InternalError; see the class."""
        self._refuse("delete_many")

    def delete_folder(self, prefix: str) -> NoReturn:
        """Raise InternalError; see the class."""
        self._refuse("delete_folder")

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """Raise InternalError; see the class."""
        self._refuse("delete_unchanged")

    def child(self, prefix: str) -> ReadCache:
        """Return a cache of its own over a folder."""
        return ReadCache(self._store.child(prefix))

    def _listed_below(self, prefix: str) -> tuple[ObjectInfo, ...] | None:
        """Return the objects below a folder from a cached listing; None if no listing covers it."""
        for folder, infos in self._listings.items():
            if folder == prefix:
                return infos
            if not folder or prefix.startswith(f"{folder}/"):
                return tuple(info for info in infos if info.key.startswith(f"{prefix}/"))
        return None

    def _remember(self, bodies: Mapping[str, bytes]) -> None:
        for key, body in bodies.items():
            if len(body) <= _MAX_BODY_BYTES and not _STATE_FILE.search(key):
                self._bodies[key] = body

    def _refuse(self, operation: str) -> NoReturn:
        raise errors.InternalError(
            "LookCannotWrite", f"{operation} was called on a read cache over {self.uri}, which cannot write."
        )
