"""A chunk that is written to a pack, and its range there, with the checksum that a head stores. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import google_crc32c


@dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk to be written.

    Attributes:
        group: Its key group.
        version: Its version.
        body: As it is stored, compressed where it is.
    """

    group: int
    version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class PackRange:
    """A chunk in a pack.

    Attributes:
        pack: Name of the pack, relative to the operator's folder (`names.PackName.reference`).
        offset: Its first byte.
        length: Its stored length in bytes, compressed where it is.
        crc32c: CRC-32C of these bytes.
    """

    pack: str
    offset: int
    length: int
    crc32c: int

    def problem(self, body: bytes) -> str | None:
        """Return why bytes are not the chunk's; None if they are."""
        if len(body) != self.length:
            return f"it has {len(body)} bytes instead of {self.length}"
        return None if crc32c(body) == self.crc32c else "its bytes do not fit their checksum"


def crc32c(body: bytes) -> int:
    """Return the CRC-32C of bytes."""
    return int(google_crc32c.value(body))
