"""What stores tell of objects beside their content: etags that are MD5s, look like one or not, and checksums or none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from statefulspark.storage.port import ObjectInfo
from statefulspark.testing import stores

EtagOf = Callable[[str, bytes, datetime], str]


def plain(key: str, body: bytes, modified_at: datetime) -> str:
    """Return the etag of S3 without SSE-KMS for one PUT."""
    return _md5(body)


def of_parts(key: str, body: bytes, modified_at: datetime) -> str:
    """Return the etag of an upload in parts: that of the MD5s of its parts."""
    return f"{_md5(_md5(body).encode())}-1"


class Encrypted:
    """Etags of SSE-KMS and SSE-C: 32 hexadecimal digits that are no MD5 of the content; a copy has another one."""

    def __init__(self, name: str = "key") -> None:
        """Encrypt with a key; with another one, all etags are others."""
        self._name = name

    def __call__(self, key: str, body: bytes, modified_at: datetime) -> str:
        """Return an etag, which changes with each write."""
        return _md5(f"{self._name} {key} {modified_at} {_md5(body)}".encode())


@dataclass
class Changing:
    """Etags that become others while no content changes, as after an encryption in place, or in another bucket.

    Attributes:
        now: The etags of now.
        later: Those after `change`.
    """

    now: EtagOf
    later: EtagOf

    def change(self) -> None:
        """Change every etag."""
        self.now = self.later

    def __call__(self, key: str, body: bytes, modified_at: datetime) -> str:
        """Return an etag of now."""
        return self.now(key, body, modified_at)


LIVES: dict[str, tuple[EtagOf, EtagOf]] = {
    "MD5s": (plain, plain),
    "of uploads in parts": (of_parts, of_parts),
    "of SSE-KMS": (Encrypted(), Encrypted()),
    "of SSE-KMS, and then of another key": (Encrypted(), Encrypted("another key")),
    "MD5s, and then of SSE-KMS": (plain, Encrypted()),
    "of SSE-KMS, and then MD5s": (Encrypted(), plain),
}
"""The etags of a root while it is written, and when it is verified."""


class Untold(stores.FaultyStore):
    """A store whose objects have lost what their writers told of them, as after a copy by some other tool."""

    def info(self, key: str) -> ObjectInfo | None:
        found = super().info(key)
        return replace(found, crc32=None) if found is not None else None

    def child(self, prefix: str) -> Untold:
        return Untold(self.wrapped.child(prefix))


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
