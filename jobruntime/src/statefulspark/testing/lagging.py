"""An object store whose listings lag: a request by key sees the current objects, a listing shows past ones.

S3 lists all objects that it has acknowledged; some S3-compatible servers do not. Code that relies on a listing must handle
that:

```
store = LaggingStore(MemoryStore(), lag=5)
store.write("a", b"")
store.list("")        # () until five more operations are made
store.info("a")       # there at once
```
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from statefulspark.storage import port
from statefulspark.storage.port import (
    MOST_BYTES,
    PAGE,
    DeletedObjects,
    ObjectInfo,
    ObjectStore,
    delete_listed,
    split_pages,
)


@dataclass(frozen=True, slots=True)
class _Change:
    operation: int
    before: ObjectInfo | None


@dataclass(slots=True)
class _History:
    """Recent changes on a lagging store and its children; keys are relative to the outermost store."""

    operation: int = 0
    changes: dict[str, list[_Change]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


class LaggingStore:
    """A store that lists its content of some operations ago: new objects are hidden, deleted ones are still shown.

    Args:
        wrapped: The store that does the work.
        lag: Number of later operations, on this store or its children, after which a change is listed.
    """

    def __init__(self, wrapped: ObjectStore, lag: int) -> None:
        self.wrapped = wrapped
        self._lag = lag
        self._prefix = ""
        self._history = _History()

    @property
    def uri(self) -> str:
        """The root of the wrapped store."""
        return self.wrapped.uri

    def catch_up(self) -> None:
        """Make listings show all objects again."""
        self._history.changes.clear()

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """See the port."""
        self._count()
        return self.wrapped.read(key, most_bytes=most_bytes)

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        """See the port."""
        self._count()
        return self.wrapped.read_many(keys, most_bytes=most_bytes)

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """See the port."""
        self._count()
        return self.wrapped.read_range(key, offset, length)

    def write(self, key: str, body: bytes) -> None:
        """See the port."""
        self._change(key)
        self.wrapped.write(key, body)

    def create(self, key: str, body: bytes) -> None:
        """See the port."""
        self._change(key)
        self.wrapped.create(key, body)

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """See the port."""
        self._change(key)
        self.wrapped.replace(key, body, etag=etag)

    def info(self, key: str) -> ObjectInfo | None:
        """See the port."""
        self._count()
        return self.wrapped.info(key)

    def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
        """See the port."""
        self._count()
        return self.wrapped.info_many(keys)

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """Return the content of a folder some operations ago."""
        self._count()
        with self._history.lock:
            infos = {info.key: info for info in self.wrapped.list(prefix)}
            since = self._history.operation - self._lag
            start = len(self._prefix) + 1 if self._prefix else 0
            recent = []
            for path, changes in self._history.changes.items():
                unlisted = [change for change in changes if change.operation > since]
                if unlisted and (not self._prefix or path.startswith(f"{self._prefix}/")):
                    recent.append((path[start:], unlisted[0].before))
            for key, before in recent:
                if before is not None and (not prefix or key.startswith(f"{prefix.rstrip('/')}/")):
                    infos[key] = before
                else:
                    infos.pop(key, None)
        return tuple(infos[key] for key in sorted(infos))

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        """See the port."""
        return split_pages(self.list(prefix), size)

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """Return the names that a folder held some operations ago."""
        start = len(prefix.rstrip("/")) + 1 if prefix else 0
        return port.direct_names([info.key[start:] for info in self.list(prefix)])

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """See the port."""
        self.copy_from(self, pairs, on_progress=on_progress)

    def can_copy_from(self, source: ObjectStore) -> bool:
        """See the port."""
        return self.wrapped.can_copy_from(_inner(source))

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """See the port."""
        for _, target in pairs:
            self._change(target)
        self.wrapped.copy_from(_inner(source), pairs, on_progress=on_progress)

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port."""
        for key in keys:
            self._change(key)
        self.wrapped.delete_many(keys)

    def delete_folder(self, prefix: str) -> DeletedObjects:
        """See the port."""
        return delete_listed(self, prefix)

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """See the port."""
        self._change(key)
        return self.wrapped.delete_unchanged(key, etag=etag)

    def child(self, prefix: str) -> LaggingStore:
        """See the port."""
        store = LaggingStore(self.wrapped.child(prefix), self._lag)
        store._prefix = port.join_key(self._prefix, port.require_folder(prefix))
        store._history = self._history
        return store

    def _count(self) -> None:
        with self._history.lock:
            self._history.operation += 1

    def _change(self, key: str) -> None:
        with self._history.lock:
            self._history.operation += 1
            change = _Change(self._history.operation, self.wrapped.info(key))
            self._history.changes.setdefault(port.join_key(self._prefix, key), []).append(change)


def _inner(store: ObjectStore) -> ObjectStore:
    return store.wrapped if isinstance(store, LaggingStore) else store
