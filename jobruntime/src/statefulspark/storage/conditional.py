"""Writing a document as it was looked at: made where there was none, replaced where there was one."""

from __future__ import annotations

from statefulspark import errors
from statefulspark.storage.port import ObjectStore


def put(store: ObjectStore, key: str, body: bytes, *, etag: str | None) -> bool:
    """Write an object unless somebody else has written it since it was looked at. Cost: one PUT.

    Args:
        store: Any store.
        key: The object.
        body: Its new body.
        etag: As `info` told it; None if there was no object.

    Returns:
        False if something else is there by now, or nothing any more; it was left alone.
    """
    try:
        if etag is None:
            store.create(key, body)
        else:
            store.replace(key, body, etag=etag)
    except (errors.ObjectExistsError, errors.ObjectChangedError):
        return False
    return True
