"""Rules of object keys, the same for every adapter.

A key that leaves its root would reach another job's state, so it is refused before any request.
"""

from __future__ import annotations

from statefulspark import errors

_MAX_KEY_BYTES = 1024  # S3: "Object key names ... up to 1,024 bytes long"


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
    folder = prefix[:-1] if prefix.endswith("/") else prefix
    return require_key(folder) if folder else ""


def join(root: str, key: str) -> str:
    """Join a folder and a name below it; either may be empty."""
    return f"{root}/{key}" if root and key else root or key


def direct_names(keys_below: list[str]) -> tuple[str, ...]:
    """Return the names directly below a folder, sorted, from keys relative to it; folders end with "/"."""
    return tuple(sorted({name + separator for name, separator, _ in (key.partition("/") for key in keys_below)}))
