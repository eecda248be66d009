"""Writes a document only if it has not changed since it was read: creates an absent one, replaces an existing one."""

from __future__ import annotations

from statefulspark import errors
from statefulspark.storage.port import ObjectStore


def put(store: ObjectStore, key: str, body: bytes, *, etag: str | None) -> bool:
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
