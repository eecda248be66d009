"""Reads that follow one another become fewer and larger requests; what is returned is always the object's."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from statefulspark import errors
from statefulspark.packs import reading

KIB, MIB = 1 << 10, 1 << 20


def _at_once(work: Callable[[], bytes]) -> Future[bytes]:
    later = Future[bytes]()
    try:
        later.set_result(work())
    except errors.StatefulSparkError as error:
        later.set_exception(error)
    return later


class Objects:
    """Some objects, and the requests for their ranges."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.bodies = {name: random.Random(name).randbytes(size) for name, size in sizes.items()}
        self.requests: list[tuple[str, int, int]] = []

    def read(self, ahead: reading.RangeReader, name: str, offset: int, length: int) -> bytes:
        def fetch(begin: int, count: int) -> bytes:
            self.requests.append((name, begin, count))
            return self.bodies[name][begin : begin + count]

        return ahead.read(name, offset, length, fetch)


def test_one_read_asks_for_no_more() -> None:
    objects = Objects({"a": MIB})

    assert objects.read(reading.RangeReader(), "a", 100, 1000) == objects.bodies["a"][100:1100]
    assert objects.requests == [("a", 100, 1000)]


def test_reads_that_follow_one_another_ask_for_more_each_time_and_at_most_four_megabytes() -> None:
    objects, ahead = Objects({"a": 20 * MIB}), reading.RangeReader(later=_at_once)
    for offset in range(0, 20 * MIB, 100 * KIB):
        assert objects.read(ahead, "a", offset, 100 * KIB) == objects.bodies["a"][offset : offset + 100 * KIB]

    lengths = [length for _, _, length in objects.requests]
    assert lengths[:5] == [100 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB]
    assert set(lengths[5:]) == {4 * MIB}
    assert len(lengths) < 12


def test_a_long_row_of_reads_waits_for_no_request_once_it_goes_on() -> None:
    objects, waited = Objects({"a": 40_000 * KIB}), list[int]()
    ahead = reading.RangeReader(later=_at_once)
    for offset in range(0, 40_000 * KIB, 100 * KIB):
        before = len(objects.requests)
        assert objects.read(ahead, "a", offset, 100 * KIB) == objects.bodies["a"][offset : offset + 100 * KIB]
        if len(objects.requests) > before and objects.requests[-1][1] <= offset:
            waited.append(offset)

    assert len(waited) == 5, "the read itself asked only while the row was short"
    assert sum(length for _, _, length in objects.requests) < 48 * MIB


def test_what_is_read_ahead_is_read_by_another_thread() -> None:
    threads, body = set[str](), random.Random(1).randbytes(20 * MIB)

    def fetch(begin: int, count: int) -> bytes:
        threads.add(threading.current_thread().name)
        return body[begin : begin + count]

    ahead = reading.RangeReader()
    read = [ahead.read("a", offset, MIB, fetch) for offset in range(0, 20 * MIB, MIB)]

    assert b"".join(read) == body
    assert any(name.startswith("packs-ahead") for name in threads)


def test_a_read_asks_itself_where_reading_ahead_has_failed() -> None:
    objects, fails = Objects({"a": 20 * MIB}), [False]

    def fetch(begin: int, count: int) -> bytes:
        if fails[0]:
            raise errors.TransientError("StorageBusy", "Later.")
        return objects.bodies["a"][begin : begin + count]

    def later(work: Callable[[], bytes]) -> Future[bytes]:
        fails[0] = True
        try:
            return _at_once(work)
        finally:
            fails[0] = False

    ahead = reading.RangeReader(later=later)
    for offset in range(0, 20 * MIB, 100 * KIB):
        assert ahead.read("a", offset, 100 * KIB, fetch) == objects.bodies["a"][offset : offset + 100 * KIB]

    fails[0] = True
    with pytest.raises(errors.TransientError):
        ahead.read("b", 0, KIB, fetch)


def test_a_small_gap_is_followed_and_a_jump_is_not() -> None:
    objects, ahead = Objects({"a": 20 * MIB}), reading.RangeReader()
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
    objects, ahead = Objects({"a": 20 * MIB}), reading.RangeReader()
    objects.read(ahead, "a", 0, KIB)

    assert len(objects.read(ahead, "a", KIB, 9 * MIB)) == 9 * MIB


@pytest.mark.parametrize("limit_bytes", [0, 600 * KIB, 64 * MIB])
def test_whatever_is_read_and_however_little_is_kept_the_bytes_are_the_objects(limit_bytes: int) -> None:
    chance, ahead = random.Random(limit_bytes), reading.RangeReader(limit_bytes)
    objects = Objects(dict.fromkeys("abcd", 13 * MIB))
    for _ in range(1000):
        name, offset = chance.choice("abcd"), chance.randrange(13 * MIB)
        length, count = chance.choice(((1, 3), (500, 30), (70 * KIB, 150), (MIB, 9)))
        for begin in range(offset, offset + count * length, length):
            assert objects.read(ahead, name, begin, length) == objects.bodies[name][begin : begin + length]
            assert sum(len(stretch.body) for stretch in ahead._stretches.values()) <= limit_bytes


def test_what_was_read_ahead_of_the_object_used_longest_ago_goes_first() -> None:
    objects, ahead = Objects(dict.fromkeys("abc", 20 * MIB)), reading.RangeReader(1200 * KIB)
    for name in "abc":
        objects.read(ahead, name, 0, KIB)
        objects.read(ahead, name, KIB, KIB)
    objects.requests.clear()
    objects.read(ahead, "c", 2 * KIB, KIB)
    objects.read(ahead, "b", 2 * KIB, KIB)
    objects.read(ahead, "a", 2 * KIB, KIB)

    assert [name for name, _, _ in objects.requests] == ["a"]
