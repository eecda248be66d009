"""The object store port and its adapters.

`open_store` is the only function that opens a store by its URI. State must be on shared storage, so s3:// is the normal
case, and file:// must be allowed explicitly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from statefulspark import errors
from statefulspark.storage import local_store, port
from statefulspark.storage.options import StorageOptions
from statefulspark.storage.port import ObjectInfo, ObjectStore

_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}|arn:\S+")
"""Bucket names that botocore accepts."""

__all__ = ["ObjectInfo", "ObjectStore", "StorageOptions", "bucket_and_folder", "open_store", "require_location"]


@dataclass(frozen=True, slots=True)
class _Bucket:
    name: str
    prefix: str


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str


def open_store(uri: str, options: StorageOptions | None = None) -> ObjectStore:
    """Open the store at a URI; no request is sent yet.

    Args:
        uri: `s3://bucket/prefix` (`s3a://` means the same), or `file:///folder` if the options allow it.
        options: Connection options; from the `AWS_*` variables when omitted.

    Raises:
        SpecRejectedError: `StorageUriInvalid` or `LocalStorageRefused`.
    """
    chosen = options or StorageOptions.from_env()
    location = _parse(uri, chosen)
    if isinstance(location, _Folder):
        return local_store.LocalStore(location.path)
    # Importing the S3 client takes a second; commands without storage access should not wait for it.
    from statefulspark.storage import fsspec_store

    return fsspec_store.open_s3(location.name, location.prefix, chosen)


def require_location(uri: str, options: StorageOptions) -> None:
    """Refuse a URI that `open_store` would refuse, without opening it.

    Raises:
        SpecRejectedError: As of `open_store`.
    """
    _parse(uri, options)


def bucket_and_folder(uri: str) -> tuple[str, str]:
    """Return the bucket and the folder that `open_store` opens for a URI; the folder is empty for the whole bucket.

    Raises:
        SpecRejectedError: `StorageUriInvalid`: it is in no bucket.
    """
    bucket = _parse_s3(uri)
    if bucket is None:
        raise _no_location(uri)
    return bucket.name, bucket.prefix


def _parse(uri: str, options: StorageOptions) -> _Bucket | _Folder:
    bucket = _parse_s3(uri)
    if bucket is not None:
        return bucket
    if not uri.startswith("file:"):
        raise _no_location(uri)
    if not options.allow_local_files:
        raise errors.SpecRejectedError(
            "LocalStorageRefused",
            f"The storage uri {uri!r} is on this node's disk, and state written to one node's disk cannot be "
            "restored on another node; use s3://bucket/prefix, or allow local files (--allow-local-files) for development "
            "on one machine.",
        )
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise errors.SpecRejectedError(
            "StorageUriInvalid", f"The storage uri {uri!r} must name an absolute folder, for example file:///tmp/state."
        )
    return _Folder(unquote(parts.path).rstrip("/") or "/")


def _parse_s3(uri: str) -> _Bucket | None:
    scheme, separator, path = uri.partition("://")
    if not separator or scheme not in ("s3", "s3a"):
        return None
    name, _, prefix = path.partition("/")
    return _Bucket(name, port.require_folder(prefix)) if _BUCKET.fullmatch(name) is not None else None


def _no_location(uri: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "StorageUriInvalid",
        f"{uri!r} is not a storage location for state or output; write s3://bucket/prefix, or file:///folder for "
        "development on one machine, where local files are allowed.",
    )
