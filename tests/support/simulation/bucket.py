"""The bucket of a run: the store in memory, which looks at a key once and describes an object once.

A run makes ten thousand look-ups; what the store in memory checks and computes at each is a fifth of it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import etags
from faultrig import engine
from statefulspark.storage.port import ObjectInfo
from statefulspark.testing.stores import MemoryStore


class Bucket(MemoryStore):
    """A store in memory for one thread at a time; keys are trusted, since every process's own store has checked them."""

    _described: dict[str, tuple[tuple[bytes, datetime], ObjectInfo]] | None = None
    _tells_checksums = True

    def encrypt(self, *, tells_checksums: bool) -> None:
        """Have etags that are no MD5s from now on, of all objects, and no checksums if the server does not keep them."""
        self._etag_of, self._tells_checksums, self._described = etags.Encrypted(), tells_checksums, None

    def info(self, key: str) -> ObjectInfo | None:
        """See the port."""
        stored = self._objects.bodies.get(key)
        if stored is None:
            return None
        if self._described is None:
            self._described = {}
        known = self._described.get(key)
        if known is None or known[0] is not stored:
            described = super().info(key)
            assert described is not None
            if not self._tells_checksums:
                described = replace(described, crc32=None)
            if isinstance(stored[0], engine.Signed):
                described = replace(described, claim=stored[0].claim)
            known = self._described[key] = stored, described
        return known[1]

    def write(self, key: str, body: bytes) -> None:
        """See the port; a body that is signed stays so, also where it is copied to."""
        self._objects.bodies[key] = (body, self._clock())

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port."""
        folder = self._folder(prefix)
        found = (self.info(key) for key in sorted(self._objects.bodies) if key.startswith(folder))
        return tuple(info for info in found if info is not None)

    def _full(self, key: str) -> str:
        return key
