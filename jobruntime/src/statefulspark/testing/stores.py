"""Object stores for tests: one in memory, and one that fails as planned.

`MemoryStore` implements the port exactly. `FaultyStore` wraps any store and breaks chosen operations, so that a test can
inject a failure, a lost answer, a stale listing or the death of the process at every point, one after the other:

```
store = FaultyStore(MemoryStore(), plan=Plan(crash_after=k))
with pytest.raises(CrashPoint):
    code_under_test(store)
recover(store.wrapped)          # the state that a successor finds
```
"""

from __future__ import annotations

import functools
import hashlib
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from statefulspark import clock as utc_clock
from statefulspark import errors
from statefulspark.storage import allowance, port
from statefulspark.storage.port import (
    MOST_BYTES,
    PAGE,
    DeletedObjects,
    ObjectInfo,
    ObjectStore,
    delete_listed,
    split_pages,
    stores_apart,
)

_T = TypeVar("_T")


@dataclass(slots=True)
class _Objects:
    """The bodies of one memory store and all its children."""

    bodies: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryStore:
    """Objects in a dictionary; safe from any thread.

    Args:
        uri: The URI of the store.
        clock: Returns the time of a write, UTC.
        etag_of: Returns the etag of an object from its key below the outermost store, its body, and the time of its write;
            the MD5 of the body when omitted, as on S3 without SSE-KMS.
    """

    def __init__(
        self,
        uri: str = "memory://test",
        clock: Callable[[], datetime] | None = None,
        etag_of: Callable[[str, bytes, datetime], str] | None = None,
    ) -> None:
        self._uri = uri
        self._clock = clock or utc_clock.utc_now
        self._etag_of = etag_of or _md5
        self._prefix = ""
        self._objects = _Objects()

    @property
    def uri(self) -> str:
        """The root without a trailing slash."""
        return port.join_key(self._uri, self._prefix)

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """See the port."""
        with self._objects.lock:
            stored = self._objects.bodies.get(self._full(key))
        if stored is None:
            raise errors.ObjectNotFoundError(f"{self.uri}/{key}")
        if len(stored[0]) > (most_bytes := allowance.body_limit(most_bytes)):
            raise allowance.too_large(f"{self.uri}/{key}", most_bytes)
        return stored[0]

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        """See the port."""
        return {key: self.read(key, most_bytes=most_bytes) for key in keys}

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """See the port."""
        return self.read(key)[offset : offset + length]

    def write(self, key: str, body: bytes) -> None:
        """See the port."""
        with self._objects.lock:
            self._objects.bodies[self._full(key)] = (bytes(body), self._clock())

    def create(self, key: str, body: bytes) -> None:
        """See the port."""
        with self._objects.lock:
            if self._full(key) in self._objects.bodies:
                raise errors.ObjectExistsError(f"{self.uri}/{key}")
            self.write(key, body)

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """See the port."""
        with self._objects.lock:
            present = self.info(key)
            if present is None or present.etag != etag:
                raise errors.ObjectChangedError(f"{self.uri}/{key}")
            self.write(key, body)

    def info(self, key: str) -> ObjectInfo | None:
        """See the port."""
        with self._objects.lock:
            stored = self._objects.bodies.get(self._full(key))
        if stored is None:
            return None
        return replace(self._describe(key, *stored), crc32=f"{zlib.crc32(stored[0]):08x}")

    def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
        """See the port."""
        return {key: self.info(key) for key in keys}

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port."""
        start = len(self._prefix) + 1 if self._prefix else 0
        folder = self._folder(prefix)
        with self._objects.lock:
            entries = [(key[start:], stored) for key, stored in self._objects.bodies.items() if key.startswith(folder)]
        return tuple(self._describe(key, *stored) for key, stored in sorted(entries))

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        """See the port."""
        return split_pages(self.list(prefix), size)

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """See the port."""
        folder = self._folder(prefix)
        with self._objects.lock:
            below = [key[len(folder) :] for key in self._objects.bodies if key.startswith(folder)]
        return port.direct_names(below)

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """See the port."""
        self.copy_from(self, pairs, on_progress=on_progress)

    def can_copy_from(self, source: ObjectStore) -> bool:
        """See the port."""
        return isinstance(source, MemoryStore) and source._objects is self._objects

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """See the port."""
        if not self.can_copy_from(source):
            raise stores_apart(source, self)
        for done, (old, new) in enumerate(pairs, start=1):
            self.write(new, source.read(old))
            if on_progress:
                on_progress(done)

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port."""
        with self._objects.lock:
            for key in keys:
                self._objects.bodies.pop(self._full(key), None)

    def delete_folder(self, prefix: str) -> DeletedObjects:
        """See the port."""
        return delete_listed(self, prefix)

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """See the port."""
        with self._objects.lock:
            present = self.info(key)
            if present is None or present.etag != etag:
                return present is None
            self.delete_many([key])
            return True

    def child(self, prefix: str) -> MemoryStore:
        """See the port."""
        store = MemoryStore(self._uri, self._clock, self._etag_of)
        store._prefix = port.join_key(self._prefix, port.require_folder(prefix))
        store._objects = self._objects
        return store

    def copy(self, clock: Callable[[], datetime] | None = None) -> MemoryStore:
        """Return an independent copy of the store with the same objects and times, which uses a clock for later writes."""
        store = self.child("")
        store._clock = clock or self._clock
        with self._objects.lock:
            store._objects = _Objects(dict(self._objects.bodies))
        return store

    def _describe(self, key: str, body: bytes, modified_at: datetime) -> ObjectInfo:
        etag = self._etag_of(self._full(key), body, modified_at)
        return ObjectInfo(key=key, size_bytes=len(body), etag=etag, modified_at=modified_at)

    def _full(self, key: str) -> str:
        return port.join_key(self._prefix, port.require_key(key))

    def _folder(self, prefix: str) -> str:
        folder = port.join_key(self._prefix, port.require_folder(prefix))
        return f"{folder}/" if folder else ""


class CrashPoint(BaseException):
    """The process dies here. It is no `Exception`, so that no error handling runs."""


@dataclass(frozen=True, slots=True)
class StoreOperation:
    """One call on a faulty store.

    Attributes:
        number: Position from 1, counted for the store and its children.
        name: Method of the port, for example "write". Each copy and each deletion is counted separately.
        key: The key, or the folder of a listing, relative to the outermost faulty store.
    """

    number: int
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The operations that fail, by number from 1 in the order of calls.

    Attributes:
        fail_at: Fail without an effect, with `StorageUnreachable`.
        fail_after: Take effect, then fail with `StorageUnreachable`: the answer is lost.
        crash_before: Raise `CrashPoint` instead of the operation.
        crash_after: Take effect, then raise `CrashPoint`.
        only: Count and break only operations with these names; empty means all.
        lag_lists: Hide objects written through this store from its listings until `catch_up`.
    """

    fail_at: frozenset[int] = frozenset()
    fail_after: frozenset[int] = frozenset()
    crash_before: int | None = None
    crash_after: int | None = None
    only: frozenset[str] = frozenset()
    lag_lists: bool = False


@dataclass(slots=True)
class _Journal:
    """The operations on a faulty store and its children."""

    operations: list[StoreOperation] = field(default_factory=list)
    unlisted: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


class FaultyStore:
    """A store that fails as its plan says, and records every operation.

    Args:
        wrapped: The store that does the work; it shows what really happened.
        plan: The failures; none when omitted.
    """

    def __init__(self, wrapped: ObjectStore, plan: Plan | None = None) -> None:
        self.wrapped = wrapped
        self._plan = plan or Plan()
        self._prefix = ""
        self._journal = _Journal()

    @property
    def uri(self) -> str:
        """The root of the wrapped store."""
        return self.wrapped.uri

    @property
    def operations(self) -> tuple[StoreOperation, ...]:
        """Every counted operation so far."""
        return tuple(self._journal.operations)

    def catch_up(self) -> None:
        """Make listings show all objects again."""
        self._journal.unlisted.clear()

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """See the port."""
        return self._perform("read", key, lambda: self.wrapped.read(key, most_bytes=most_bytes))

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        """See the port."""
        return {key: self.read(key, most_bytes=most_bytes) for key in keys}

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """See the port."""
        return self._perform("read_range", key, lambda: self.wrapped.read_range(key, offset, length))

    def write(self, key: str, body: bytes) -> None:
        """See the port."""
        self._change("write", key, lambda: self.wrapped.write(key, body))

    def create(self, key: str, body: bytes) -> None:
        """See the port."""
        self._change("create", key, lambda: self.wrapped.create(key, body))

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """See the port."""
        self._change("replace", key, lambda: self.wrapped.replace(key, body, etag=etag))

    def info(self, key: str) -> ObjectInfo | None:
        """See the port."""
        return self._perform("info", key, lambda: self.wrapped.info(key))

    def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
        """See the port."""
        return {key: self.info(key) for key in keys}

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port."""
        infos = self._perform("list", prefix, lambda: self.wrapped.list(prefix))
        return tuple(info for info in infos if self._full(info.key) not in self._journal.unlisted)

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        """See the port; one operation, as a listing, since no test has more than a page."""
        return split_pages(self.list(prefix), size)

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """See the port."""
        infos = self._perform("list_names", prefix, lambda: self.wrapped.list(prefix))
        start = len(prefix.rstrip("/")) + 1 if prefix else 0
        listed = [info.key[start:] for info in infos if self._full(info.key) not in self._journal.unlisted]
        return port.direct_names(listed)

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """See the port."""
        self.copy_from(self, pairs, on_progress=on_progress)

    def can_copy_from(self, source: ObjectStore) -> bool:
        """See the port."""
        return self.wrapped.can_copy_from(source.wrapped if isinstance(source, FaultyStore) else source)

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """See the port."""
        inner = source.wrapped if isinstance(source, FaultyStore) else source
        for done, pair in enumerate(pairs, start=1):
            self._change("copy", pair[1], functools.partial(self.wrapped.copy_from, inner, [pair]))
            if on_progress:
                on_progress(done)

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port."""
        for key in keys:
            self._perform("delete", key, lambda key=key: self.wrapped.delete_many([key]))  # type: ignore[misc]

    def delete_folder(self, prefix: str) -> DeletedObjects:
        """See the port."""
        return delete_listed(self, prefix)

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """See the port."""
        return self._perform("delete", key, lambda: self.wrapped.delete_unchanged(key, etag=etag))

    def child(self, prefix: str) -> FaultyStore:
        """See the port."""
        store = FaultyStore(self.wrapped.child(prefix), self._plan)
        store._prefix = port.join_key(self._prefix, port.require_folder(prefix))
        store._journal = self._journal
        return store

    def _change(self, name: str, key: str, act: Callable[[], None]) -> None:
        if self._plan.lag_lists:
            self._journal.unlisted.add(self._full(key))
        self._perform(name, key, act)

    def _perform(self, name: str, key: str, act: Callable[[], _T]) -> _T:
        if self._plan.only and name not in self._plan.only:
            return act()
        with self._journal.lock:
            operation = StoreOperation(len(self._journal.operations) + 1, name, self._full(key))
            self._journal.operations.append(operation)
        self._interfere(operation, crash=self._plan.crash_before, failures=self._plan.fail_at)
        result = act()
        self._interfere(operation, crash=self._plan.crash_after, failures=self._plan.fail_after)
        return result

    def _interfere(self, operation: StoreOperation, *, crash: int | None, failures: frozenset[int]) -> None:
        if operation.number == crash:
            raise CrashPoint(operation)
        if operation.number in failures:
            raise errors.TransientError(
                "StorageUnreachable", f"Could not {operation.name} {self.uri}/{operation.key}: the test's plan says so."
            )

    def _full(self, key: str) -> str:
        return port.join_key(self._prefix, key)


def _md5(key: str, body: bytes, modified_at: datetime) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
