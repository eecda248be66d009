"""Turns what is well formed into what is almost so; the same seed gives the same bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

_NUMBERS = (
    b"-1",
    b"0",
    b"99999999999999999999999999",
    b"1e400",
    b"-0.0",
    b"NaN",
    b"true",
    b"null",
    b'""',
    b"[]",
    b"{}",
)
_BYTES = (0x00, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xDB, 0xDF, 0xFF)
_NESTING = 2000


def mutants(seeds: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield broken inputs.

    Args:
        seeds: Well-formed inputs, at least one.
        count: How many are yielded.
        seed: The same one yields the same inputs.
    """
    chance = random.Random(seed)
    for _ in range(count):
        body = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            chance.choice(_MUTATIONS)(body, seeds, chance)
        yield bytes(body)


def _flip(body: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    if body:
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)


def _set(body: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    if body:
        body[chance.randrange(len(body))] = chance.choice(_BYTES)


def _cut(body: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    del body[chance.randrange(len(body) + 1) :]


def _remove(body: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    begin = chance.randrange(len(body) + 1)
    del body[begin : begin + chance.randrange(1, 20)]


def _repeat(body: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    begin = chance.randrange(len(body) + 1)
    part = bytes(body[begin : begin + chance.randrange(1, 20)])
    body[begin:begin] = part * chance.choice((1, 2, 50))


def _splice(body: bytearray, seeds: Sequence[bytes], chance: random.Random) -> None:
    other = chance.choice(seeds)
    begin = chance.randrange(len(other) + 1)
    body[chance.randrange(len(body) + 1) :] = other[begin:]


def _number(body: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Put another value where JSON has a number."""
    digits = [at for at, byte in enumerate(body) if 0x30 <= byte <= 0x39]
    if digits:
        at = chance.choice(digits)
        body[at : at + 1] = chance.choice(_NUMBERS)


def _nest(body: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    opening = chance.choice((b"[", b'{"a":', b"\x91", b"\x81\xa1a"))
    at = chance.randrange(len(body) + 1)
    body[at:at] = opening * _NESTING


_MUTATIONS = (_flip, _flip, _set, _cut, _remove, _repeat, _splice, _number, _nest)
