"""Key groups: Flink's ranges (A.7), and refusals. Equality with Spark's hash is proven in tests/spark/keyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark import errors
from statefulspark.state import keygroups


@pytest.mark.parametrize(
    ("max_parallelism", "parallelism", "ranges"),
    [
        (128, 3, [(0, 42), (43, 85), (86, 127)]),
        (10, 4, [(0, 2), (3, 4), (5, 7), (8, 9)]),
        (128, 1, [(0, 127)]),
    ],
)
def test_a63_each_task_owns_one_contiguous_range(
    max_parallelism: int, parallelism: int, ranges: list[tuple[int, int]]
) -> None:
    assert [keygroups.group_range(max_parallelism, parallelism, task) for task in range(parallelism)] == ranges


@given(st.integers(1, 2048), st.data())
def test_a63_the_owner_of_a_group_is_the_task_whose_range_has_it(max_parallelism: int, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))
    group = data.draw(st.integers(0, max_parallelism - 1))
    task = keygroups.owner(max_parallelism, parallelism, group)
    first, last = keygroups.group_range(max_parallelism, parallelism, task)
    assert first <= group <= last


@pytest.mark.parametrize(
    ("parallelism", "groups"), [(1, 128), (85, 128), (86, 256), (100, 256), (200, 512), (1000, 2048), (21846, 32768)]
)
def test_a64_the_default_leaves_room_to_grow(parallelism: int, groups: int) -> None:
    assert keygroups.default_max_parallelism(parallelism) == groups


@pytest.mark.parametrize("max_parallelism", [0, -1, 32769, 40000])
def test_a64_a_number_of_groups_out_of_range_is_refused(max_parallelism: int) -> None:
    with pytest.raises(errors.SpecRejectedError, match=f"between 1 and 32768. Found: {max_parallelism}"):
        keygroups.check_max_parallelism(max_parallelism)


def test_known_hashes_of_spark_stay_as_they_are() -> None:
    """Values printed by Spark 4.2's `SELECT hash(...)`: state on storage depends on them for ever."""
    assert keygroups.spark_hash(("Spark",), ("string",)) == 228093765
    assert keygroups.spark_hash((1,), ("int",)) == -559580957
    assert keygroups.spark_hash((1,), ("bigint",)) == -1712319331
    assert keygroups.spark_hash((None,), ("string",)) == 42


def test_the_hash_of_the_mark_of_a_key_group_is_its_number() -> None:
    marks = [keygroups.mark(group) for group in range(keygroups.MAX_PARALLELISM_LIMIT)]

    assert [keygroups.spark_hash((mark,), ("int",)) for mark in marks] == list(range(len(marks)))
    assert [keygroups.marked(mark) for mark in marks] == list(range(len(marks)))
    assert -1 not in marks  # stands for a partition


def test_known_marks_stay_as_they_are() -> None:
    """State on storage has them for ever."""
    assert [keygroups.mark(group) for group in (0, 1, 127, 32767)] == [-1693959553, -1910889132, 1294958664, 532378579]
