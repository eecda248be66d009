"""Checksum files beside the files in a checkpoint root.

Spark writes `<name>.crc` (JSON, CRC-32C over the whole file) beside snapshots and changelogs of state, and our S3 file
system writes the same beside the tables (SST files) that Spark uploads. Hadoop's local file system writes `.<name>.crc`
(CRC-32 per chunk) beside every file, on file:// only.
"""

from __future__ import annotations

import hashlib
import posixpath
import struct
import zlib

import google_crc32c
from pydantic import BaseModel, ConfigDict, Field, ValidationError

_HADOOP_HEADER = struct.Struct(">4si")
_HADOOP_MAGIC = b"crc\x00"


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
