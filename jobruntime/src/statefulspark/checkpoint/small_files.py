"""Checksums of the small files that a start reads: Spark's logs and metadata, the batch records, and segments of sources.

A store may return an unchanged etag for a file whose bytes have changed on disk, so an etag does not prove the content.
State files have checksum files beside them; for the small files a manifest holds a checksum of the content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from statefulspark.checkpoint import batch_records, catalog, checksums
from statefulspark.contract import base, layout
from statefulspark.contract.manifest import FileEntry
from statefulspark.storage.port import ObjectInfo, ObjectStore

_Name = TypeVar("_Name", str, int)

LIMIT_BYTES = 16 * 2**20
"""A larger file, such as the compacted log of a source with very many files, has only its etag."""

_SMALL = re.compile(
    rf"^(metadata|offsets/\d+|commits/\d+|(sources|{layout.SEGMENTS})/.+|state/.+/_(metadata|stateSchema)/.+)$"
)


def is_small(path: str, size_bytes: int) -> bool:
    """Tell whether a manifest holds a checksum of a file's content; `path` is relative to the query's root."""
    if size_bytes > LIMIT_BYTES or checksums.is_sidecar(path):
        return False
    return _SMALL.match(path) is not None or batch_records.parse_key(path) is not None


@dataclass(frozen=True, slots=True)
class _Fingerprint:
    etag: str
    crc32: str


class SmallFiles:
    """The small files of one query; each is read once. Use from one thread at a time."""

    def __init__(self, store: ObjectStore, query_path: str) -> None:
        """Create a reader of the files below a query's root; reads nothing yet."""
        self._store = store
        self._path = query_path
        self._fingerprints: dict[str, _Fingerprint] = {}

    def read(self, listed: Mapping[str, ObjectInfo], names: Mapping[str, _Name]) -> dict[_Name, bytes]:
        """Read files of the query of any size, and remember the checksums of the small ones.

        Args:
            listed: The files below the query's root.
            names: Key of each file in the returned mapping, by its path.

        Raises:
            ObjectNotFoundError: One of them does not exist.
        """
        if not names:
            return {}
        bodies = self._store.read_many([f"{self._path}/{path}" for path in names])
        for path in names:
            self._remember(path, listed[path], bodies[f"{self._path}/{path}"])
        return {name: bodies[f"{self._path}/{path}"] for path, name in names.items()}

    def load(self, listed: Mapping[str, ObjectInfo], paths: Iterable[str]) -> tuple[str, ...]:
        """Read the small files that were not read yet. Cost: a GET each, several in parallel.

        Returns:
            The listed files that do not exist.

        Raises:
            SnapshotCorruptError: `DocumentUnreadable`: a record is damaged.
        """
        unread = []
        for path in paths:
            fingerprint = self._fingerprints.get(path)
            is_current = fingerprint is not None and fingerprint.etag == listed[path].etag
            if is_small(path, listed[path].size_bytes) and not is_current:
                unread.append(path)
        bodies = catalog.read_present(self._store, [f"{self._path}/{path}" for path in unread]) if unread else {}
        for path in unread:
            key = f"{self._path}/{path}"
            if key in bodies:
                batch_records.require_readable(path, bodies[key], f"{self._store.uri}/{key}")
                self._remember(path, listed[path], bodies[key])
        return tuple(path for path in unread if f"{self._path}/{path}" not in bodies)

    def entry(self, path: str, info: ObjectInfo) -> FileEntry:
        """Describe a file, with the checksum of its content if it was read."""
        fingerprint = self._fingerprints.get(path)
        return file_entry(path, info, crc32=fingerprint.crc32 if fingerprint is not None else None)

    def forget_others(self, paths: Iterable[str]) -> None:
        """Forget the checksums of all other files."""
        retained = set(paths)
        self._fingerprints = {path: fingerprint for path, fingerprint in self._fingerprints.items() if path in retained}

    def _remember(self, path: str, info: ObjectInfo, body: bytes) -> None:
        if is_small(path, info.size_bytes):
            self._fingerprints[path] = _Fingerprint(info.etag, base.crc32_hex(body))


def file_entry(path: str, info: ObjectInfo, *, crc32: str | None = None) -> FileEntry:
    """Describe a file of the store, with its etag and, if known, the checksum of its content."""
    checksum = f"etag:{info.etag}" if info.etag else None
    return FileEntry(path=path, size_bytes=info.size_bytes, checksum=checksum, crc32=crc32)
