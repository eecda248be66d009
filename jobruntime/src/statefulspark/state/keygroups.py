"""Key groups: the unit in which keyed state is stored and moved.

A key belongs to the group `pmod(murmur3(key), max_parallelism)`, with exactly the hash that Spark's SQL function
`hash` computes, so that tests and other tools compute the same key group as the running query. A key of several columns
is hashed column by column, each hash seeding the next. Null does not change the hash.

The number of groups is fixed for the life of the state; the number of partitions may change at every start: group
`g` is in partition `g` modulo that number. This module is pure and does not depend on Spark.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import struct
from collections.abc import Sequence

from statefulspark import errors

MAX_PARALLELISM_LIMIT = 32768
DEFAULT_MAX_PARALLELISM = 128
STRUCT = "struct"
"""Type of the key part that marks a null struct; the fields of the struct follow it."""
_HASHED_AS = {"double": "bigint", "float": "int", STRUCT: "boolean"}
_SEED = 42
_MASK = 0xFFFFFFFF
_INVERSE_5, _INVERSE_CC9E2D51, _INVERSE_1B873593, _INVERSE_85EBCA6B, _INVERSE_C2B2AE35 = (
    pow(factor, -1, 1 << 32) for factor in (5, 0xCC9E2D51, 0x1B873593, 0x85EBCA6B, 0xC2B2AE35)
)
_EPOCH_DATE = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
KeyPart = str | bytes | bool | int | datetime.date | datetime.datetime | decimal.Decimal | None
"""The Python value of one key column."""


def check_max_parallelism(max_parallelism: int) -> None:
    """Reject an invalid number of key groups.

    Raises:
        SpecRejectedError: It is not between 1 and 32768.
    """
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise errors.SpecRejectedError(
            "MaxParallelismInvalid",
            f"Maximum parallelism must be between 1 and {MAX_PARALLELISM_LIMIT}. Found: {max_parallelism}.",
        )


def default_max_parallelism(parallelism: int) -> int:
    """Derive the number of key groups for a parallelism, as Flink does: at least 128 and 1.5 times the parallelism.

    Source: KeyGroupRangeAssignment.computeDefaultMaxParallelism (Flink 1.20).
    """
    lower_bound = parallelism + parallelism // 2
    return min(max(1 << (lower_bound - 1).bit_length(), DEFAULT_MAX_PARALLELISM), MAX_PARALLELISM_LIMIT)


def key_group(key: Sequence[KeyPart], types: Sequence[str], max_parallelism: int) -> int:
    """Return the key group of a key.

    Args:
        key: The key's columns in order; one element for a key of one column.
        types: Spark's simple type name of each column: string, binary, boolean, tinyint, smallint, int, bigint, date,
            timestamp, timestamp_ntz or decimal(p,s); double and float with the number's bits as an integer, which is what
            Spark hashes, or `STRUCT`.
        max_parallelism: Number of key groups.

    Returns:
        A number from 0 to `max_parallelism - 1`.
    """
    return spark_hash(key, types) % max_parallelism


def hashed_as(type_name: str) -> str:
    """Return the type of the values that represent a key column in the hash; no collation has a part in it."""
    return "string" if type_name.startswith("string ") else _HASHED_AS.get(type_name, type_name)


@functools.lru_cache(maxsize=MAX_PARALLELISM_LIMIT)
def mark(group: int) -> int:
    """Return the 32-bit integer whose Spark hash is the number of the key group.

    Spark puts rows into the partition `pmod(hash(column), partitions)`. With marks in that column, key group `g` goes to
    partition `g % partitions`, so that the numbers of groups per partition differ by one at most. The hash of the plain
    numbers would spread 128 groups over 2 partitions as 74 and 54, and leave some of 32 partitions empty.
    """
    h1 = _unshift(group & _MASK, 16) * _INVERSE_C2B2AE35 & _MASK
    h1 = _unshift(h1, 13) * _INVERSE_85EBCA6B & _MASK
    h1 = (_unshift(h1, 16) ^ 4) - 0xE6546B64 & _MASK
    k1 = _rotate(h1 * _INVERSE_5 & _MASK, 19) ^ _SEED
    k1 = _rotate(k1 * _INVERSE_1B873593 & _MASK, 17) * _INVERSE_CC9E2D51 & _MASK
    return _signed(k1)


def marked(mark: int) -> int:
    """Return the key group of a mark."""
    return _signed(_hash_int(mark, _SEED))


def spark_hash(key: Sequence[KeyPart], types: Sequence[str]) -> int:
    """Compute Spark's `hash(column, …)`: murmur3 with seed 42, a signed 32-bit number."""
    seed = _SEED
    for part, type_name in zip(key, types, strict=True):
        seed = _hash_part(part, type_name, seed)
    return _signed(seed)


def _hash_part(part: KeyPart, type_name: str, seed: int) -> int:
    if part is None:
        return seed
    if isinstance(part, str):
        return _hash_bytes(part.encode(), seed)
    if isinstance(part, bytes):
        return _hash_bytes(part, seed)
    if isinstance(part, bool):
        return _hash_int(int(part), seed)
    if isinstance(part, datetime.datetime):
        moment = part if part.tzinfo else part.replace(tzinfo=datetime.UTC)
        return _hash_long((moment - _EPOCH) // datetime.timedelta(microseconds=1), seed)
    if isinstance(part, datetime.date):
        return _hash_int((part - _EPOCH_DATE).days, seed)
    if isinstance(part, decimal.Decimal):
        return _hash_decimal(part, type_name, seed)
    return _hash_long(part, seed) if hashed_as(type_name) == "bigint" else _hash_int(part, seed)


def _hash_decimal(part: decimal.Decimal, type_name: str, seed: int) -> int:
    precision, scale = (int(number) for number in type_name[len("decimal(") : -1].split(","))
    unscaled = int(part.scaleb(scale, decimal.Context(prec=60)).to_integral_exact())
    if precision <= 18:
        return _hash_long(unscaled, seed)
    # Java's BigInteger.toByteArray: the shortest two's complement, most significant byte first.
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return _hash_bytes(unscaled.to_bytes(length, "big", signed=True), seed)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def _mix_k1(k1: int) -> int:
    k1 = _rotate((k1 * 0xCC9E2D51) & _MASK, 15)
    return (k1 * 0x1B873593) & _MASK


def _mix_h1(h1: int, k1: int) -> int:
    return (_rotate(h1 ^ k1, 13) * 5 + 0xE6546B64) & _MASK


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK


def _unshift(mixed: int, bits: int) -> int:
    """Undo `word ^ (word >> bits)`, for 11 bits or more."""
    return mixed ^ (mixed >> bits) ^ (mixed >> 2 * bits)


def _finish(h1: int, length: int) -> int:
    h1 ^= length
    h1 ^= h1 >> 16
    h1 = (h1 * 0x85EBCA6B) & _MASK
    h1 ^= h1 >> 13
    h1 = (h1 * 0xC2B2AE35) & _MASK
    return h1 ^ (h1 >> 16)


def _hash_int(value: int, seed: int) -> int:
    return _finish(_mix_h1(seed & _MASK, _mix_k1(value & _MASK)), 4)


def _hash_long(value: int, seed: int) -> int:
    low, high = value & _MASK, (value >> 32) & _MASK
    return _finish(_mix_h1(_mix_h1(seed & _MASK, _mix_k1(low)), _mix_k1(high)), 8)


def _hash_bytes(value: bytes, seed: int) -> int:
    aligned = len(value) - len(value) % 4
    h1 = seed & _MASK
    for (word,) in struct.iter_unpack("<I", value[:aligned]):
        h1 = _mix_h1(h1, _mix_k1(word))
    # Spark hashes each byte of the tail on its own, as a signed number; that differs from the published murmur3.
    for byte in value[aligned:]:
        h1 = _mix_h1(h1, _mix_k1((byte - 256 if byte > 127 else byte) & _MASK))
    return _finish(h1, len(value))
