"""The object store port: what the product needs from shared storage, and not one operation more.

Keys are relative to the store's root, separated by '/', without a leading one. Every method may be called from any
thread. An answer is either a proven fact or an error: what could not be found out is never reported as absence.
Adapters: `fsspec_store` (S3), `local_store` (development), `testing.stores` (memory, faults).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from statefulspark import errors


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store tells about one object.

    Attributes:
        key: Relative to the store that was asked.
        size_bytes: Length of the body.
        etag: Changes when the body changes; opaque, without quotes.
        modified_at: Time of the last write by the store's clock, UTC.
    """

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime


class ObjectStore(Protocol):
    """Objects below one root.

    Every method raises, besides what it names itself:
        TransientError: `StorageUnreachable`: no answer within about 15 seconds, retries included, or a server fault.
        StateUnknownError: `AccessDenied`, `NoSuchBucket`, `CredentialsMissing` or `StorageFailed`.
        SpecRejectedError: `StorageKeyInvalid`: the key is empty, absolute, or climbs out of the root.
    """

    @property
    def uri(self) -> str:
        """The root, for example `s3://bucket/prefix`, without a trailing slash."""
        ...

    def read(self, key: str) -> bytes:
        """Return an object's body.

        Raises:
            ObjectNotFoundError: The object is proven absent.
        """
        ...

    def read_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return several bodies by key, read concurrently.

        Raises:
            ObjectNotFoundError: One of them is proven absent; the error names it.
        """
        ...

    def write(self, key: str, body: bytes) -> None:
        """Write an object in one step; readers see the old body or the new one, whole."""
        ...

    def create(self, key: str, body: bytes) -> None:
        """Write an object that must not exist yet; of several writers exactly one succeeds.

        After an attempt whose answer was lost, the store is asked who wrote the object, so that our own write counts as
        success. A TransientError from this method leaves open whether the object was written.

        Raises:
            ObjectExistsError: Somebody else's object has that name; it was not touched.
        """
        ...

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """Write an object in one step if it is still the one that was looked at; of several writers exactly one succeeds.

        A lost answer is settled as by `create`.

        Args:
            key: The object.
            body: Its new body.
            etag: As `info` told it before.

        Raises:
            ObjectChangedError: The object has another body by now, or is gone; it was not touched.
        """
        ...

    def info(self, key: str) -> ObjectInfo | None:
        """Return what the store knows of an object now, or None if it is proven absent; never from a cache."""
        ...

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """Return every object below a folder, recursively, all pages, sorted by key.

        Args:
            prefix: The folder without a trailing slash; "" means the whole store. `a` contains `a/b` and not `ab`.
        """
        ...

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """Return the names directly below a folder, sorted; a folder's name ends with "/"."""
        ...

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """Copy objects inside this store without moving their bytes through this process, several at a time.

        Existing targets are overwritten. A failure leaves some targets written; repeating the call is safe.

        Args:
            pairs: Source key and target key of each copy.
            on_progress: Called with the number of copies done so far, growing by one, from any one thread at a time. What
                it raises ends the call: no copy is begun after that.

        Raises:
            ObjectNotFoundError: A source is proven absent; the error names it.
        """
        ...

    def can_copy_from(self, source: ObjectStore) -> bool:
        """Tell whether `copy_from` reaches another store: it is on the same server, under the same credentials."""
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
        """Delete objects; those already absent are fine."""
        ...

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """Delete an object if it is still the one that was looked at.

        On a server that ignores conditions on deletes, only the look right before the delete guards.

        Args:
            key: The object.
            etag: As `info` told it before.

        Returns:
            True if the object is gone, by this call or before; False if it has another body by now and was left alone.
        """
        ...

    def child(self, prefix: str) -> ObjectStore:
        """Return the store rooted at a folder of this one; `prefix` may be "" for this store itself."""
        ...


def stores_apart(source: ObjectStore, target: ObjectStore) -> errors.InternalError:
    """Return the error for a copy between stores that share no server."""
    return errors.InternalError("StoresApart", f"Nothing can copy from {source.uri} to {target.uri} by itself.")
