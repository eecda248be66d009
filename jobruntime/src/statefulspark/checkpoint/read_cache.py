"""Storage as of one look: what a plan has read or listed once is handed on, and not asked for again.

A plan looks at the same things for several reasons: the head of a generation and the checkpoint that it builds on share
their files, and every older checkpoint shares some with the next. With one answer for each, a start is cheap, and all that
it decides rests on the same facts.

What has to hold at the moment of a write is asked of the store itself: that no newer epoch exists, or that an object is
still the one that was looked at. So a look cannot write, and it is not kept any longer than its plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from statefulspark import errors
from statefulspark.storage import keys as key_rules
from statefulspark.storage.port import ObjectInfo, ObjectStore

_KEPT_UP_TO_BYTES = 2**20
_STATE_FILE = re.compile(r"(^|/)state/\d+/\d+/(?!.*\.zip$)")
"""Files that hold state: many, perhaps large, and read once at most. An archive holds names and settings only."""


class Look:
    """A store that remembers listings and small documents, and refuses to write. Look-ups by name are always made."""

    def __init__(self, store: ObjectStore) -> None:
        """Know nothing yet of what is in a store."""
        self._store = store
        self._bodies: dict[str, bytes] = {}
        self._listings: dict[str, tuple[ObjectInfo, ...]] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    @property
    def uri(self) -> str:
        """The root of the store."""
        return self._store.uri

    def read(self, key: str) -> bytes:
        """See the port."""
        if key not in self._bodies:
            self._keep({key: (body := self._store.read(key))})
            return body
        return self._bodies[key]

    def read_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """See the port."""
        unread = [key for key in keys if key not in self._bodies]
        fresh = self._store.read_many(unread) if unread else {}
        self._keep(fresh)
        return {key: fresh[key] if key in fresh else self._bodies[key] for key in keys}

    def info(self, key: str) -> ObjectInfo | None:
        """See the port."""
        return self._store.info(key)

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port."""
        known = self._known_below(prefix)
        if known is None:
            known = self._listings[prefix] = self._store.list(prefix)
        return known

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """See the port."""
        known = self._known_below(prefix)
        if known is not None:
            return key_rules.direct_names([info.key[len(prefix) + 1 if prefix else 0 :] for info in known])
        if prefix not in self._names:
            self._names[prefix] = self._store.list_names(prefix)
        return self._names[prefix]

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """Refuse."""
        self._refuse("copy_many")

    def can_copy_from(self, source: ObjectStore) -> bool:
        """Nothing can be copied into a look."""
        return False

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Refuse."""
        self._refuse("copy_from")

    def write(self, key: str, body: bytes) -> None:
        """Refuse."""
        self._refuse("write")

    def create(self, key: str, body: bytes) -> None:
        """Refuse."""
        self._refuse("create")

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """Refuse."""
        self._refuse("replace")

    def delete_many(self, keys: Sequence[str]) -> None:
        """Refuse."""
        self._refuse("delete_many")

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """Refuse."""
        self._refuse("delete_unchanged")

    def child(self, prefix: str) -> Look:
        """Look at a folder; it remembers by itself."""
        return Look(self._store.child(prefix))

    def _known_below(self, prefix: str) -> tuple[ObjectInfo, ...] | None:
        """Return what a listing that was made shows below a folder, None if none covers it."""
        for folder, infos in self._listings.items():
            if folder == prefix:
                return infos
            if not folder or prefix.startswith(f"{folder}/"):
                return tuple(info for info in infos if info.key.startswith(f"{prefix}/"))
        return None

    def _keep(self, bodies: Mapping[str, bytes]) -> None:
        for key, body in bodies.items():
            if len(body) <= _KEPT_UP_TO_BYTES and not _STATE_FILE.search(key):
                self._bodies[key] = body

    def _refuse(self, operation: str) -> NoReturn:
        raise errors.InternalError(
            "LookCannotWrite", f"{operation} was called on a look at {self.uri}, which only reads."
        )
