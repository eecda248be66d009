"""Checksums of the small files that tell a start where it is: Spark's logs and metadata, and our records.

A store may go on telling the etag of a file whose content has changed below it, so etags do not vouch for what a start
reads and believes. State files have Spark's own checksum beside them; for these a manifest holds one of the content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from statefulspark.checkpoint import batch_records, catalog, checksums
from statefulspark.contract import base
from statefulspark.contract.manifest import FileEntry
from statefulspark.storage.port import ObjectInfo, ObjectStore

_Name = TypeVar("_Name", str, int)

LIMIT_BYTES = 2**20
"""A longer file, such as the compacted log of a source of very many files, is known by its etag alone."""

_SMALL = re.compile(r"^(metadata|offsets/\d+|commits/\d+|sources/.+|state/\d+/_(metadata|stateSchema)/.+)$")
_MD5 = re.compile(r"^[0-9a-f]{32}$")


def is_small(path: str, size_bytes: int) -> bool:
    """Tell whether a manifest holds a checksum of a file's content; `path` is relative to the query's root."""
    if size_bytes > LIMIT_BYTES or checksums.is_sidecar(path):
        return False
    return _SMALL.match(path) is not None or batch_records.of_key(path) is not None


@dataclass(frozen=True, slots=True)
class _Seen:
    etag: str
    crc32: str
    is_md5: bool


class SmallFiles:
    """The small files of one query, each read once. From one thread at a time."""

    def __init__(self, store: ObjectStore, query_path: str) -> None:
        """Know nothing of the files below a query's root."""
        self._store = store
        self._path = query_path
        self._seen: dict[str, _Seen] = {}

    def read(self, listed: Mapping[str, ObjectInfo], names: Mapping[str, _Name]) -> dict[_Name, bytes]:
        """Read files of the query, small or not, and remember the small ones.

        Args:
            listed: What is known of the files below the query's root.
            names: What each file is called in the answer, by its path.

        Raises:
            ObjectNotFoundError: One of them is proven absent.
        """
        if not names:
            return {}
        bodies = self._store.read_many([f"{self._path}/{path}" for path in names])
        for path in names:
            self._note(path, listed[path], bodies[f"{self._path}/{path}"])
        return {name: bodies[f"{self._path}/{path}"] for path, name in names.items()}

    def load(self, listed: Mapping[str, ObjectInfo], paths: Iterable[str]) -> tuple[str, ...]:
        """Read the small ones among files that are not known yet. Cost: a GET each, several at a time.

        Returns:
            Those that are listed and do not exist.

        Raises:
            SnapshotCorruptError: `DocumentUnreadable`: a record is not what was written.
        """
        wanted = [path for path in paths if is_small(path, listed[path].size_bytes) and not self._knows(listed, path)]
        bodies = catalog.read_present(self._store, [f"{self._path}/{path}" for path in wanted]) if wanted else {}
        for path in wanted:
            key = f"{self._path}/{path}"
            if key in bodies:
                batch_records.require_readable(path, bodies[key], f"{self._store.uri}/{key}")
                self._note(path, listed[path], bodies[key])
        return tuple(path for path in wanted if f"{self._path}/{path}" not in bodies)

    def entry(self, path: str, info: ObjectInfo) -> FileEntry:
        """Describe a file, with the checksum of its content if it was read."""
        seen = self._seen.get(path)
        return file_entry(path, info, crc32=seen.crc32 if seen is not None else None)

    def keep(self, paths: Iterable[str]) -> None:
        """Forget all others."""
        kept = set(paths)
        self._seen = {path: seen for path, seen in self._seen.items() if path in kept}

    @property
    def rotten(self) -> tuple[str, ...]:
        """Files whose content is not what the store says, on one that tells the MD5 of contents.

        An etag need not be an MD5, even where it looks like one; that it is one shows in the other files.
        """
        told = {path: seen for path, seen in self._seen.items() if _MD5.match(seen.etag)}
        different = tuple(sorted(path for path, seen in told.items() if not seen.is_md5))
        return different if len(different) < len(told) else ()

    def _note(self, path: str, info: ObjectInfo, body: bytes) -> None:
        if is_small(path, info.size_bytes):
            self._seen[path] = _Seen(info.etag, base.crc32_hex(body), checksums.md5_hex(body) == info.etag)

    def _knows(self, listed: Mapping[str, ObjectInfo], path: str) -> bool:
        seen = self._seen.get(path)
        return seen is not None and seen.etag == listed[path].etag


def file_entry(path: str, info: ObjectInfo, *, crc32: str | None = None) -> FileEntry:
    """Describe a file as the store sees it now; the etag is its checksum, and that of its content if it is known."""
    checksum = f"etag:{info.etag}" if info.etag else None
    return FileEntry(path=path, size_bytes=info.size_bytes, checksum=checksum, crc32=crc32)
