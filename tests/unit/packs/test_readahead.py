"""Reads that follow one another become fewer and larger requests; what is returned is always the object's."""

from __future__ import annotations

import random

import pytest
from statefulspark.packs import readahead

KIB, MIB = 1 << 10, 1 << 20


class Objects:
    """Some objects, and the requests for their ranges."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.bodies = {name: random.Random(name).randbytes(size) for name, size in sizes.items()}
        self.requests: list[tuple[str, int, int]] = []

    def read(self, ahead: readahead.RangeReader, name: str, offset: int, length: int) -> bytes:
        def fetch(begin: int, count: int) -> bytes:
            self.requests.append((name, begin, count))
            return self.bodies[name][begin : begin + count]

        return ahead.read(name, offset, length, fetch)


def test_one_read_asks_for_no_more() -> None:
    objects = Objects({"a": MIB})

    assert objects.read(readahead.RangeReader(), "a", 100, 1000) == objects.bodies["a"][100:1100]
    assert objects.requests == [("a", 100, 1000)]


def test_reads_that_follow_one_another_ask_for_more_each_time_and_at_most_four_megabytes() -> None:
    objects, ahead = Objects({"a": 20 * MIB}), readahead.RangeReader()
    for offset in range(0, 20 * MIB, 100 * KIB):
        assert objects.read(ahead, "a", offset, 100 * KIB) == objects.bodies["a"][offset : offset + 100 * KIB]

    lengths = [length for _, _, length in objects.requests]
    assert lengths[:5] == [100 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB]
    assert set(lengths[5:]) == {4 * MIB}
    assert len(lengths) < 12


def test_a_small_gap_is_followed_and_a_jump_is_not() -> None:
    objects, ahead = Objects({"a": 20 * MIB}), readahead.RangeReader()
    objects.read(ahead, "a", 0, KIB)
    objects.read(ahead, "a", 200 * KIB, KIB)
    objects.read(ahead, "a", 10 * MIB, KIB)
    objects.read(ahead, "a", 5 * MIB, KIB)

    assert objects.requests == [
        ("a", 0, KIB),
        ("a", 200 * KIB, 512 * KIB),
        ("a", 10 * MIB, KIB),
        ("a", 5 * MIB, KIB),
    ]


def test_a_chunk_that_is_larger_than_what_is_read_ahead_is_read_whole() -> None:
    objects, ahead = Objects({"a": 20 * MIB}), readahead.RangeReader()
    objects.read(ahead, "a", 0, KIB)

    assert len(objects.read(ahead, "a", KIB, 9 * MIB)) == 9 * MIB


@pytest.mark.parametrize("limit_bytes", [0, 600 * KIB, 64 * MIB])
def test_whatever_is_read_and_however_little_is_kept_the_bytes_are_the_objects(limit_bytes: int) -> None:
    chance, ahead = random.Random(limit_bytes), readahead.RangeReader(limit_bytes)
    objects = Objects(dict.fromkeys("abcd", 3 * MIB))
    for _ in range(2000):
        name, offset = chance.choice("abcd"), chance.randrange(3 * MIB)
        length = chance.choice((1, 500, 70 * KIB, MIB))
        for begin in range(offset, offset + 3 * length, length):
            assert objects.read(ahead, name, begin, length) == objects.bodies[name][begin : begin + length]
            assert sum(len(stretch.body) for stretch in ahead._stretches.values()) <= limit_bytes


def test_what_was_read_ahead_of_the_object_used_longest_ago_goes_first() -> None:
    objects, ahead = Objects(dict.fromkeys("abc", 20 * MIB)), readahead.RangeReader(1200 * KIB)
    for name in "abc":
        objects.read(ahead, name, 0, KIB)
        objects.read(ahead, name, KIB, KIB)
    objects.requests.clear()
    objects.read(ahead, "c", 2 * KIB, KIB)
    objects.read(ahead, "b", 2 * KIB, KIB)
    objects.read(ahead, "a", 2 * KIB, KIB)

    assert [name for name, _, _ in objects.requests] == ["a"]
