"""Key groups: how many there are (A.61 to A.67), and refusals. Equality with Spark's hash is proven in tests/spark/keyed."""

from __future__ import annotations

import pytest
from statefulspark import errors
from statefulspark.state import keygroups


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
