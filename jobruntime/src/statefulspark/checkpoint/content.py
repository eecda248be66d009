"""Whether a file still has the content that was written: what vouches for it. Pure.

A checksum file beside a file vouches for it, on every store. An etag does so only if it is the MD5 of the content. Etags of
SSE-KMS and SSE-C look like one and are none; those of an upload in parts are of the parts. So an etag that is the MD5 of the
content proves it, and one that is not proves damage only if the etags of the other files of the snapshot are MD5s. If
nothing vouches for a file, its content is unknown, which is no damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from statefulspark.checkpoint import checksums
from statefulspark.contract import base
from statefulspark.contract.manifest import FileEntry
from statefulspark.storage.port import ObjectInfo

_MD5 = re.compile(r"^etag:([0-9a-f]{32})$")


class Knowledge(Enum):
    """What is known of a file's content."""

    SAME = "same"
    """It is the content that was written."""
    DIFFERENT = "different"
    """It is another content."""
    UNKNOWN = "unknown"
    """Nothing tells what was written."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a snapshot and the store tell of the files of a query.

    Attributes:
        files: The files of the snapshot, by path.
        etags: The etags that the store reports now, by path.
        etags_are_md5: Whether the etags of the snapshot are MD5s; see `etags_are_md5`.
    """

    files: Mapping[str, FileEntry]
    etags: Mapping[str, str]
    etags_are_md5: bool

    def is_unchanged(self, file: FileEntry) -> bool:
        """Tell whether a file has the etag that it had, if that is known."""
        return file.checksum in (None, f"etag:{self.etags[file.path]}")

    def compare(self, path: str, bodies: Mapping[str, bytes]) -> Knowledge:
        """Compare the content of a file with what vouches for it.

        Args:
            path: One of `files`, and of `bodies`.
            bodies: Contents by path: the file, and what there is of its checksum files and of the file that it guards.
        """
        if self._has_recorded_md5(path, bodies):
            return Knowledge.SAME
        possible = [(path, checksums.spark_sidecar(path)), (path, checksums.hadoop_sidecar(path))]
        if checksums.is_sidecar(path):
            possible.append((checksums.guarded(path), path))
        pairs = [(main, sidecar) for main, sidecar in possible if main in bodies and sidecar in bodies]
        if any(checksums.matches(bodies[main], sidecar, bodies[sidecar]) for main, sidecar in pairs):
            return Knowledge.SAME
        # They do not match, so one of a file and its checksum file is not what was written: the one that is trusted less.
        blamed = {
            sidecar if sidecar in self.files and self._trust(main, bodies) > self._trust(sidecar, bodies) else main
            for main, sidecar in pairs
        }
        has_md5 = self.etags_are_md5 and recorded_md5(self.files[path]) is not None
        return Knowledge.DIFFERENT if path in blamed or has_md5 else Knowledge.UNKNOWN

    def _trust(self, path: str, bodies: Mapping[str, bytes]) -> int:
        file = self.files.get(path)
        if file is None or not checksums.is_readable(path, bodies[path]):
            return 0
        return 3 if self._has_recorded_md5(path, bodies) else 2 if self.is_unchanged(file) else 1

    def _has_recorded_md5(self, path: str, bodies: Mapping[str, bytes]) -> bool:
        file = self.files.get(path)
        recorded = recorded_md5(file) if file is not None else None
        return recorded is not None and recorded == checksums.md5_hex(bodies[path])


def as_told(info: ObjectInfo | None, body: bytes) -> Knowledge:
    """Compare the content of an object with what its writer told of it; a copy by another tool may have lost that."""
    if info is None or info.crc32 is None:
        return Knowledge.UNKNOWN
    return Knowledge.SAME if info.crc32 == base.crc32_hex(body) else Knowledge.DIFFERENT


def etags_are_md5(files: Iterable[FileEntry], bodies: Mapping[str, bytes]) -> bool:
    """Tell whether the etags of a snapshot are MD5s: those of all its files that have a proven content are.

    Args:
        files: Files of the snapshot.
        bodies: Contents of those with a checksum of the content, by path.
    """
    proven = [file for file in files if file.crc32 is not None and file.crc32 == base.crc32_hex(bodies[file.path])]
    return bool(proven) and all(recorded_md5(file) == checksums.md5_hex(bodies[file.path]) for file in proven)


def recorded_md5(file: FileEntry) -> str | None:
    """Return the etag of a file if it may be the MD5 of the content."""
    match = _MD5.match(file.checksum or "")
    return match[1] if match is not None else None
