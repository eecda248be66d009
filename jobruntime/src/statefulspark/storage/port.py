"""The object store port: exactly the operations that the product needs from shared storage.

Keys are relative to the store's root, separated by '/', without a leading one. Every method may be called from any
thread. A method returns a proven fact or raises an error: an unknown state is never reported as absence.
The functions beside the port work on any store. The rules of keys are the same for every adapter: a key that leaves its root
would reach another job's state, so it is refused before any request.
Adapters: `fsspec_store` (S3), `local_store` (development), `testing.stores` (memory, faults).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from statefulspark import errors

MOST_BYTES = 2**31
"""The most that is read of one object at once. No file that the product or Spark writes and that is read whole is larger."""
MOST_OF_A_DOCUMENT = 2**20
"""The most that is read of a document about a job: who owns it, which epoch it has, where a savepoint is."""
MOST_OF_A_MANIFEST = 64 * 2**20
PAGE = 1000
"""The most objects of one page of a listing: S3 answers with no more at once."""
_MAX_KEY_BYTES = 1024  # S3: "Object key names ... up to 1,024 bytes long"


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """A store's facts about one object.

    Attributes:
        key: Relative to the store's root.
        size_bytes: Length of the body.
        etag: Changes when the body changes; opaque, without quotes.
        modified_at: Time of the last write by the store's clock, UTC.
        claim: The claim of the driver whose Spark has written it; None in listings, and if nobody told it.
        crc32: CRC-32 of the body that its writer sent, eight hexadecimal digits; None in listings, and if nobody told it.
    """

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime
    crc32: str | None = None
    claim: str | None = None


@dataclass(frozen=True, slots=True)
class DeletedObjects:
    """What a deletion has removed.

    Attributes:
        objects: How many objects.
        size_bytes: Length of their bodies together.
    """

    objects: int = 0
    size_bytes: int = 0

    @classmethod
    def count(cls, infos: Sequence[ObjectInfo]) -> DeletedObjects:
        """Return what the deletion of some objects has removed."""
        return cls(len(infos), sum(info.size_bytes for info in infos))

    def __add__(self, other: DeletedObjects) -> DeletedObjects:
        """Return what two deletions have removed."""
        return DeletedObjects(self.objects + other.objects, self.size_bytes + other.size_bytes)


class ObjectStore(Protocol):
    """Objects below one root.

    Every method raises, in addition to its own errors:
        TransientError: `StorageUnreachable`: no answer within about 15 seconds, retries included, or a server fault.
        StateUnknownError: `AccessDenied`, `NoSuchBucket`, `CredentialsMissing` or `StorageFailed`.
        SpecRejectedError: `StorageKeyInvalid`: the key is empty, absolute, or leaves the root.
    """

    @property
    def uri(self) -> str:
        """The root, for example `s3://bucket/prefix`, without a trailing slash."""
        ...

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """Return an object's body.

        Args:
            key: The object.
            most_bytes: What it may have; no more of it is held in memory, whatever the store says of its size.

        Raises:
            ObjectNotFoundError: The object is proven absent.
            StateUnknownError: `StorageFailed`: it has more bytes; the error names the object and the limit.
        """
        ...

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        """Return several bodies by key, read concurrently.

        Args:
            keys: The objects.
            most_bytes: What each of them may have, as for `read`.

        Raises:
            ObjectNotFoundError: An object is proven absent; the error names it.
            StateUnknownError: `StorageFailed`: one has more bytes; the error names it.
        """
        ...

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Return a part of an object's body: fewer bytes if the object ends before, none if it ends before the first.

        Args:
            key: The object.
            offset: The first byte, from 0.
            length: How many bytes; at least one.

        Raises:
            ObjectNotFoundError: The object is proven absent.
        """
        ...

    def write(self, key: str, body: bytes) -> None:
        """Write an object atomically; readers see either the whole old body or the whole new one."""
        ...

    def create(self, key: str, body: bytes) -> None:
        """Write an object that must not exist yet; of several writers exactly one succeeds.

        If the answer of an attempt was lost, the store is asked who wrote the object, so that this call's own write counts
        as success. After a TransientError it is unknown whether the object was written.

        Raises:
            ObjectExistsError: Another writer's object has that name; it was not changed.
        """
        ...

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """Write an object atomically if it has not changed since it was read; of several writers exactly one succeeds.

        A lost answer is handled as by `create`.

        Args:
            key: The object.
            body: Its new body.
            etag: The etag that `info` returned before.

        Raises:
            ObjectChangedError: The object now has another body, or was deleted; nothing was written.
        """
        ...

    def info(self, key: str) -> ObjectInfo | None:
        """Return the store's current facts about an object, or None if it is proven absent; never from a cache."""
        ...

    def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
        """Return the facts about several objects by key, looked up concurrently; None for each that is proven absent."""
        ...

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """Return every object below a folder, recursively, all pages, sorted by key.

        Args:
            prefix: The folder without a trailing slash; "" means the whole store. `a` contains `a/b` and not `ab`.

        Raises:
            StateUnknownError: `StorageFailed`: there are more than the store was opened to list; see `StorageOptions`.
        """
        ...

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        """Return what `list` returns in parts, each asked for when it is needed; a caller holds one at a time.

        What is deleted between two parts moves no other. The number of objects is not limited.

        Args:
            prefix: The folder, as for `list`.
            size: The most objects of a part, at most `PAGE`; a part has fewer where there are markers of folders, and none
                is empty.
        """
        ...

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """Return the names directly below a folder, sorted; a folder's name ends with "/"."""
        ...

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """Copy objects on the server, without reading their bytes in this process, several at a time.

        Existing targets are overwritten. A failure leaves some targets written; repeating the call is safe.

        Args:
            pairs: Source key and target key of each copy.
            on_progress: Called after each copy with the number of finished copies, never from two threads at once. If it
                raises, the call ends: no copy is started after that.

        Raises:
            ObjectNotFoundError: A source is proven absent; the error names it.
        """
        ...

    def can_copy_from(self, source: ObjectStore) -> bool:
        """Tell whether `copy_from` can read another store: it is on the same server, with the same credentials."""
        ...

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Copy objects of another store into this one, from another bucket too; otherwise as `copy_many`.

        Args:
            source: Another store for which `can_copy_from` is true.
            pairs: Key in the source and key in this store of each copy.
            on_progress: As in `copy_many`.

        Raises:
            ObjectNotFoundError: A source is proven absent; the error names it.
            InternalError: `StoresApart`: `can_copy_from` is false.
        """
        ...

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete objects; absent objects are no error."""
        ...

    def delete_folder(self, prefix: str) -> DeletedObjects:
        """Delete every object below a folder, and the markers of folders that other tools left there, page by page.

        What is written meanwhile may stay. A failure leaves a part deleted; repeating the call is safe.

        Args:
            prefix: The folder without a trailing slash; "" means the whole store.

        Returns:
            How much that was, without the markers.
        """
        ...

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """Delete an object if it has not changed since it was read.

        On a server that ignores conditions of deletes, only the check directly before the delete protects the object.

        Args:
            key: The object.
            etag: The etag that `info` returned before.

        Returns:
            True if the object is deleted, by this call or before; False if it now has another body and was not deleted.
        """
        ...

    def child(self, prefix: str) -> ObjectStore:
        """Return the store whose root is a folder of this one; `prefix` may be "" for this store itself."""
        ...


def delete_listed(
    store: ObjectStore, prefix: str, is_to_go: Callable[[ObjectInfo], bool] = lambda _info: True
) -> DeletedObjects:
    """Delete what a listing of a folder shows, page by page: `delete_folder` of a store without markers.

    Args:
        store: Any store.
        prefix: The folder.
        is_to_go: Tells of each object whether it is deleted.
    """
    deleted = DeletedObjects()
    for page in store.pages(prefix):
        gone = tuple(filter(is_to_go, page))
        store.delete_many([info.key for info in gone])
        deleted += DeletedObjects.count(gone)
    return deleted


def first(store: ObjectStore, prefix: str, most: int = 1) -> tuple[ObjectInfo, ...]:
    """Return the first objects below a folder: none if it is empty. Cost: one listing, of so many objects."""
    return tuple(itertools.islice(itertools.chain.from_iterable(store.pages(prefix, size=most)), most))


def split_pages(infos: Sequence[ObjectInfo], size: int) -> Iterator[tuple[ObjectInfo, ...]]:
    """Return a whole listing in parts: `pages` of a store that has its objects at hand."""
    return (tuple(infos[at : at + size]) for at in range(0, len(infos), size))


def stores_apart(source: ObjectStore, target: ObjectStore) -> errors.InternalError:
    """Return the error for a copy between stores on different servers."""
    return errors.InternalError(
        "StoresApart", f"Objects cannot be copied on the server from {source.uri} to {target.uri}."
    )


def require_key(key: str) -> str:
    """Return the key of an object unchanged.

    Raises:
        SpecRejectedError: `StorageKeyInvalid`: empty, absolute, a folder, too long, or with an empty or dotted segment.
    """
    segments = key.split("/")
    if any(segment in ("", ".", "..") for segment in segments) or "\0" in key or len(key.encode()) > _MAX_KEY_BYTES:
        raise errors.SpecRejectedError(
            "StorageKeyInvalid",
            f"{key!r} is not an object key; use 'folder/name' without a leading or trailing slash, '.', '..' or empty "
            f"parts, at most {_MAX_KEY_BYTES} bytes long.",
        )
    return key


def require_folder(prefix: str) -> str:
    """Return a folder's name without a trailing slash; "" is the root.

    Raises:
        SpecRejectedError: `StorageKeyInvalid`, as for `require_key`.
    """
    folder = prefix.removesuffix("/")
    return require_key(folder) if folder else ""


def join_key(root: str, key: str) -> str:
    """Join a folder and a name below it; either may be empty."""
    return f"{root}/{key}" if root and key else root or key


def direct_names(keys_below: list[str]) -> tuple[str, ...]:
    """Return the names directly below a folder, sorted, from keys relative to it; folders end with "/"."""
    return tuple(sorted({name + separator for name, separator, _ in (key.partition("/") for key in keys_below)}))


def put_unless_changed(store: ObjectStore, key: str, body: bytes, *, etag: str | None) -> bool:
    """Write an object unless another writer has changed it since it was read. Cost: one PUT.

    Args:
        store: Any store.
        key: The object.
        body: Its new body.
        etag: The etag that `info` returned; None if there was no object.

    Returns:
        False if the object was changed or deleted in the meantime; then nothing was written.
    """
    try:
        if etag is None:
            store.create(key, body)
        else:
            store.replace(key, body, etag=etag)
    except (errors.ObjectExistsError, errors.ObjectChangedError):
        return False
    return True
