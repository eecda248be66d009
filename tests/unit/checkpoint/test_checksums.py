"""Spark's checksums: the CRC-32C of a body is the one that Spark and every release of ours computed."""

from __future__ import annotations

import json
import random

import google_crc32c
import pytest
from statefulspark.checkpoint import checksums

_VECTORS = [
    ("nothing", b"", 0),
    ("the check value of the Castagnoli polynomial", b"123456789", 0xE3069283),
    ("RFC 3720, CRC examples: zeros", bytes(32), 0x8A9136AA),
    ("RFC 3720, CRC examples: ones", b"\xff" * 32, 0x62A8AB43),
    ("RFC 3720, CRC examples: rising", bytes(range(32)), 0x46DD794E),
    ("RFC 3720, CRC examples: falling", bytes(reversed(range(32))), 0x113FDB5C),
]
_KEPT = [(64 * 1024, 0x4DECF48E), (64 * 1024 + 1, 0xA3D7D863), (100_003, 0x837DEC1A), (1 << 20, 0xFF268976)]
"""Of random bytes, the seed being the length, as the implementation in Python that was here before computed them."""


def a_sidecar(value: int, size_bytes: int, algorithm: str = "CRC32C") -> bytes:
    return json.dumps({"algorithm": algorithm, "value": value, "mainFileSize": size_bytes}).encode()


@pytest.mark.parametrize(("body", "value"), [row[1:] for row in _VECTORS], ids=[row[0] for row in _VECTORS])
def test_crc32c_vectors(body: bytes, value: int) -> None:
    assert checksums.matches_spark(body, a_sidecar(value, len(body)))
    assert not checksums.matches_spark(body, a_sidecar(value ^ 1, len(body)))


@pytest.mark.parametrize(("size_bytes", "value"), _KEPT)
def test_a_large_body_has_the_checksum_that_it_always_had(size_bytes: int, value: int) -> None:
    body = random.Random(size_bytes).randbytes(size_bytes)

    assert checksums.matches_spark(body, a_sidecar(value, size_bytes))
    assert not checksums.matches_spark(body[:-1] + bytes([body[-1] ^ 1]), a_sidecar(value, size_bytes))


@pytest.mark.parametrize(
    ("sidecar", "matches"),
    [
        (a_sidecar(0xE3069283, 9), True),
        (a_sidecar(0xE3069283 - (1 << 32), 9), True),
        (a_sidecar(0xE3069283, 8), False),
        (a_sidecar(1, 9, "XXH3"), True),
        (a_sidecar(1, 8, "XXH3"), False),
        (b"{", False),
    ],
    ids=["as Spark writes it", "signed", "of another size", "another algorithm", "another and its size", "unreadable"],
)
def test_a_body_is_compared_with_what_lies_beside_it(sidecar: bytes, matches: bool) -> None:
    assert checksums.matches_spark(b"123456789", sidecar) is matches


def test_the_checksum_is_computed_by_the_processor() -> None:
    """The library falls back to Python where it cannot load its own code; a recovery would wait for that."""
    assert google_crc32c.implementation == "c"
