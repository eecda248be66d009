"""Which key groups stay in a worker's memory."""

from __future__ import annotations

from statefulspark.state import cache, grouptables


def _batch(groups: cache.OperatorCache, used: range) -> int:
    """Work on key groups one after the other, as a batch does; return how many were in memory."""
    hits = 0
    for group in used:
        hits += groups.take(group) is not None
        groups.put(group, grouptables.GroupTables(), 10)
    return hits


def test_groups_that_are_used_in_turn_do_not_drive_each_other_out() -> None:
    shared = cache.LruCache(limit_bytes=50)
    groups = shared.for_operator("one")
    assert [_batch(groups, range(10)) for _ in range(3)] == [0, 5, 5]
    assert shared.held_bytes == 50


def test_groups_that_are_no_longer_used_make_room() -> None:
    groups = cache.LruCache(limit_bytes=50).for_operator("one")
    assert [_batch(groups, range(5)), *(_batch(groups, range(5, 10)) for _ in range(3))] == [0, 0, 0, 5]


def test_a_group_that_is_larger_than_the_memory_is_not_kept_and_drives_nothing_out() -> None:
    shared = cache.LruCache(limit_bytes=50)
    groups = shared.for_operator("one")
    _batch(groups, range(4))
    groups.take(9)
    groups.put(9, grouptables.GroupTables(), 51)
    assert (groups.take(9), shared.held_bytes) == (None, 40)


def test_a_group_is_admitted_where_there_is_memory() -> None:
    groups = cache.LruCache(limit_bytes=50).for_operator("one")
    _batch(groups, range(3))
    groups.take(9)
    assert (groups.admits(9, 20), groups.admits(9, 21)) == (True, False)


def test_a_lower_limit_counts_at_once() -> None:
    shared = cache.LruCache(limit_bytes=50)
    _batch(shared.for_operator("one"), range(5))
    shared.limit(25)
    assert shared.held_bytes == 20
