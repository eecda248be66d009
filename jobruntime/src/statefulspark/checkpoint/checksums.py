"""Checksums of the files in a checkpoint root: those in files beside them, and those of small files in a manifest.

Spark writes `<name>.crc` (JSON, CRC-32C over the whole file) beside snapshots and changelogs of state, and our S3 file
system writes the same beside the tables (SST files) that Spark uploads. Hadoop's local file system writes `.<name>.crc`
(CRC-32 per chunk) beside every file, on file:// only.

A store may return an unchanged etag for a file whose bytes have changed on disk, so an etag does not prove the content.
For the small files that a start reads (Spark's logs and metadata, the batch records, and segments of sources), a manifest
holds a checksum of the content.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import google_crc32c
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statefulspark.checkpoint import batch_records, catalog
from statefulspark.contract import base, layout
from statefulspark.contract.manifest import FileEntry
from statefulspark.storage.port import ObjectInfo, ObjectStore

_HADOOP_HEADER = struct.Struct(">4si")
_HADOOP_MAGIC = b"crc\x00"
_Name = TypeVar("_Name", str, int)

LIMIT_BYTES = 16 * 2**20
"""A larger file, such as the compacted log of a source with very many files, has only its etag."""

_SMALL = re.compile(
    rf"^(metadata|offsets/\d+|commits/\d+|(sources|{layout.SEGMENTS})/.+|state/.+/_(metadata|stateSchema)/.+)$"
)


class _SparkChecksum(BaseModel):
    model_config = ConfigDict(extra="ignore")

    algorithm: str
    value: int
    main_file_size: int = Field(alias="mainFileSize")


def spark_sidecar(key: str) -> str:
    """Return the name of Spark's checksum file of a file."""
    return f"{key}.crc"


def hadoop_sidecar(key: str) -> str:
    """Return the name of Hadoop's local checksum file of a file."""
    folder, name = posixpath.split(key)
    return posixpath.join(folder, f".{name}.crc")


def sidecars(key: str) -> tuple[str, ...]:
    """Return the names of all checksum files that a file can have."""
    spark = spark_sidecar(key)
    return spark, hadoop_sidecar(key), hadoop_sidecar(spark)


def is_sidecar(key: str) -> bool:
    """Tell whether a file is a checksum of another."""
    return key.endswith(".crc")


def guarded(sidecar: str) -> str:
    """Return the file that a checksum file belongs to; on file:// that may be another checksum file."""
    folder, name = posixpath.split(sidecar)
    return posixpath.join(folder, name.removeprefix(".").removesuffix(".crc"))


def family(key: str) -> str:
    """Return the file that is no checksum, of a file and its checksum files."""
    while is_sidecar(key):
        key = guarded(key)
    return key


def matches(body: bytes, sidecar: str, content: bytes) -> bool:
    """Tell whether a file matches a checksum file, of which name and content are given."""
    is_hadoops = posixpath.basename(sidecar).startswith(".")
    return matches_hadoop(body, content) if is_hadoops else matches_spark(body, content)


def is_readable(path: str, body: bytes) -> bool:
    """Tell whether a file is no checksum of Spark's, or one that can be read."""
    is_sparks = is_sidecar(path) and not posixpath.basename(path).startswith(".")
    return not is_sparks or size_in_spark(body) is not None


def matches_spark(body: bytes, sidecar: bytes) -> bool:
    """Tell whether a file matches Spark's checksum file; an unreadable checksum matches nothing."""
    try:
        expected = _SparkChecksum.model_validate_json(sidecar)
    except ValidationError:
        return False
    if expected.algorithm != "CRC32C":
        return len(body) == expected.main_file_size
    return len(body) == expected.main_file_size and google_crc32c.value(body) == expected.value & 0xFFFFFFFF


def size_in_spark(sidecar: bytes) -> int | None:
    """Return the size of the file that Spark's checksum belongs to; None if the checksum is unreadable."""
    try:
        return _SparkChecksum.model_validate_json(sidecar).main_file_size
    except ValidationError:
        return None


def matches_hadoop(body: bytes, sidecar: bytes) -> bool:
    """Tell whether a file matches Hadoop's local checksum file; an unreadable checksum matches nothing."""
    if len(sidecar) < _HADOOP_HEADER.size:
        return False
    magic, chunk_bytes = _HADOOP_HEADER.unpack_from(sidecar)
    if magic != _HADOOP_MAGIC or chunk_bytes <= 0:
        return False
    expected = sidecar[_HADOOP_HEADER.size :]
    sums = [zlib.crc32(body[start : start + chunk_bytes]) for start in range(0, len(body), chunk_bytes)]
    return struct.pack(f">{len(sums)}I", *sums) == expected


def md5_hex(body: bytes) -> str:
    """Return the MD5 of a body, which S3 uses as the etag of what was written with one PUT."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def is_small(path: str, size_bytes: int) -> bool:
    """Tell whether a manifest holds a checksum of a file's content; `path` is relative to the query's root."""
    if size_bytes > LIMIT_BYTES or is_sidecar(path):
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
