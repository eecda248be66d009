"""The object store port and its adapters.

`open_store` is the only function that opens a store by its URI. State must be on shared storage, so s3:// is the normal
case, and file:// must be allowed explicitly.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from statefulspark import errors
from statefulspark.storage import keys, local_store
from statefulspark.storage.options import StorageOptions
from statefulspark.storage.port import ObjectInfo, ObjectStore

_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}|arn:\S+")
"""Bucket names that botocore accepts."""

__all__ = ["ObjectInfo", "ObjectStore", "StorageOptions", "open_store"]


def open_store(uri: str, options: StorageOptions | None = None) -> ObjectStore:
    """Open the store at a URI; no request is sent yet.

    Args:
        uri: `s3://bucket/prefix` (`s3a://` means the same), or `file:///folder` if the options allow it.
        options: Connection options; from the `AWS_*` variables when omitted.

    Raises:
        SpecRejectedError: `StorageUriInvalid` or `LocalStorageRefused`.
    """
    chosen = options or StorageOptions.from_env()
    scheme, separator, path = uri.partition("://")
    if separator and scheme in ("s3", "s3a"):
        bucket, _, prefix = path.partition("/")
        if _BUCKET.fullmatch(bucket) is not None:
            # Importing the S3 client takes a second; commands without storage access should not wait for it.
            from statefulspark.storage import fsspec_store

            return fsspec_store.open_s3(bucket, keys.require_folder(prefix), chosen)
    if scheme == "file" or uri.startswith("file:"):
        return _open_local(uri, chosen)
    raise errors.SpecRejectedError(
        "StorageUriInvalid",
        f"{uri!r} is no storage location for state or output: write s3://bucket/prefix, or file:///folder for development "
        "on one machine, where local files are allowed.",
    )


def _open_local(uri: str, options: StorageOptions) -> ObjectStore:
    if not options.allow_local_files:
        raise errors.SpecRejectedError(
            "LocalStorageRefused",
            f"The storage uri {uri!r} is on this node's disk, and state written to one node's disk cannot be "
            "restored on another node; use s3://bucket/prefix, or allow local files for development on one machine.",
        )
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise errors.SpecRejectedError(
            "StorageUriInvalid", f"The storage uri {uri!r} must name an absolute folder, for example file:///tmp/state."
        )
    return local_store.LocalStore(unquote(parts.path).rstrip("/") or "/")
