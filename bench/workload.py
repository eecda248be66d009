"""The keyed workload that all contenders share: which key each row has, what the state of a key holds, what must come out.

Row number `i` (from 0, over all batches) has the key `mix(i) mod keys`. With `mix` (the finalizer of SplitMix64) keys come
as from a random source, and any language makes the same ones with a few lines of 64-bit arithmetic. Skewed, rows with an
odd `mix` go to one in a thousand of the keys:

    z = i + 0x9E3779B97F4A7C15 * (i + 1)   all modulo 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)
    key = z mod keys;  skewed and z odd: key = (z div 2) mod max(1, keys div 1000)

The contenders count the rows of each key. A state of `value_bytes` bytes is the count as 8 bytes, little-endian, and then
bytes that do not compress (or zeros), which a key gets when it is first seen; without it the state is the number alone.
Each emits `(key, count)` for every key that a batch has touched, and is checked by the sum of the counts, the number of
pairs and a checksum over the pairs (`check_of`).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import parquet

Keys = npt.NDArray[np.int64]
_Mixed = npt.NDArray[np.uint64]
FILES_PER_BATCH = 2
"""A batch is read by two cores, as from a source with two partitions."""
_HOT_SHARE = 1000


@dataclass(frozen=True, slots=True)
class Workload:
    """A keyed workload.

    Attributes:
        rows: Rows per batch.
        keys: Number of keys that rows are drawn from: with as many as rows 63% of them occur in a batch, with twice as
            many 39%.
        batches: Number of batches.
        value_bytes: Size of the state of a key; 0 for the count alone.
        skewed: Whether half of the rows go to a thousandth of the keys.
    """

    rows: int
    keys: int
    batches: int
    value_bytes: int = 0
    skewed: bool = False

    def keys_of(self, batch: int) -> Keys:
        """Return the key of each row of a batch, in order."""
        numbers = np.arange(batch * self.rows, (batch + 1) * self.rows, dtype=np.uint64)
        mixed = mix(numbers)
        keys = mixed % np.uint64(self.keys)
        if self.skewed:
            hot = (mixed >> np.uint64(1)) % np.uint64(max(1, self.keys // _HOT_SHARE))
            keys = np.where(mixed & np.uint64(1), hot, keys)
        return keys.astype(np.int64)

    def checks(self) -> Iterator[Check]:
        """Yield what each batch must emit, with the counts going on from batch to batch."""
        counts = np.zeros(self.keys, np.int64)
        for batch in range(self.batches):
            keys = self.keys_of(batch)
            counts += np.bincount(keys, minlength=self.keys)
            touched = np.unique(keys)
            yield check_of(touched, counts[touched])

    def write(self, folder: Path) -> None:
        """Write the batches as Parquet, `FILES_PER_BATCH` files each, with times that keep them in order."""
        folder.mkdir(parents=True, exist_ok=True)
        for batch in range(self.batches):
            for part, keys in enumerate(np.array_split(self.keys_of(batch), FILES_PER_BATCH)):
                file = folder / f"{batch:05}-{part}.parquet"
                parquet.write_table(pa.table({"key": keys}), file)
                # A source of files takes them in the order of their times, one second being the grain.
                os.utime(file, (1_000_000_000 + batch * 10, 1_000_000_000 + batch * 10))


@dataclass(frozen=True, slots=True)
class Check:
    """What a contender emitted for a batch, in three numbers.

    Attributes:
        pairs: Number of `(key, count)`.
        counted: Sum of the counts.
        checksum: Sum of `((key * 31 + count) mod 1_000_003)` squared; it stays within 64 bits, also in SQL.
    """

    pairs: int
    counted: int
    checksum: int


def add_compressible(parser: argparse.ArgumentParser) -> None:
    """Let it be chosen what is beside the count."""
    parser.add_argument("--compressible", action="store_true", help="the rest of a key's state are zeros")


def mix(numbers: _Mixed) -> _Mixed:
    """Return the mixed form of 64-bit numbers."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15) * (numbers + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: _Mixed = z ^ (z >> np.uint64(31))
    return mixed


def check_of(keys: Keys, counts: Keys) -> Check:
    """Return the check of emitted pairs, in any order."""
    folded = (keys * 31 + counts) % 1_000_003
    return Check(len(keys), int(counts.sum()), int((folded * folded).sum()))
