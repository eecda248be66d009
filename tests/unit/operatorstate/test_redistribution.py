"""Operator state dealt out to another number of subtasks equals Flink's assignment."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark.operatorstate import redistribution
from statefulspark.operatorstate.model import Mode, NamedState, OperatorState, OperatorStateMeta

PARTS = st.lists(st.lists(st.integers(), max_size=9).map(tuple), min_size=1, max_size=6)
PARALLELISM = st.integers(1, 9)


def old(*sizes: int) -> list[tuple[object, ...]]:
    """Lists whose elements tell where they come from: h0[2] is the third of the first."""
    return [tuple(f"h{index}[{place}]" for place in range(size)) for index, size in enumerate(sizes)]


VECTORS = [
    pytest.param([("e1", "e2")], [("e1",), ("e2",)], id="A.34 one subtask with two elements becomes two"),
    pytest.param(
        old(4, 5),
        [("h0[0]", "h0[1]", "h0[2]"), ("h0[3]", "h1[0]", "h1[1]"), ("h1[2]", "h1[3]", "h1[4]")],
        id="A.35 four and five on three subtasks",
    ),
    pytest.param(
        old(3, 4, 3),
        [("h0[0]", "h0[1]", "h0[2]", "h1[0]", "h1[1]"), ("h1[2]", "h1[3]", "h2[0]", "h2[1]", "h2[2]")],
        id="A.35 three, four and three on two subtasks",
    ),
    pytest.param(
        old(3, 7),
        [
            ("h0[0]", "h0[1]", "h0[2]"),
            ("h1[0]", "h1[1]", "h1[2]"),
            ("h1[3]", "h1[4]"),
            ("h1[5]", "h1[6]"),
        ],
        id="A.35 the first subtasks get the ones left over",
    ),
    pytest.param(old(1), [("h0[0]",), ()], id="A.35 one element on two subtasks leaves one empty"),
    pytest.param(old(1, 1), [("h0[0]",), ("h1[0]",), ()], id="A.40 two elements on three subtasks leave one empty"),
    pytest.param([(56800,), (56400,)], [(56800, 56400)], id="A.41 the order is that of the old subtasks"),
    pytest.param([(), ()], [(), (), ()], id="nothing stays nothing"),
]


@pytest.mark.parametrize(("parts", "expected"), VECTORS)
def test_a_list_is_divided_evenly(parts: list[tuple[object, ...]], expected: list[tuple[object, ...]]) -> None:
    assert redistribution.split(parts, len(expected)) == tuple(expected)


@given(PARTS, PARALLELISM)
def test_a35_no_element_is_lost_or_moved_and_sizes_differ_by_one_at_most(
    parts: list[tuple[int, ...]], parallelism: int
) -> None:
    dealt = redistribution.split(parts, parallelism)

    assert len(dealt) == parallelism
    assert list(chain.from_iterable(dealt)) == list(chain.from_iterable(parts))
    if len(parts) != parallelism:
        sizes = [len(part) for part in dealt]
        assert max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)


@given(PARTS)
def test_a36_an_unchanged_parallelism_gives_every_subtask_its_own_list(parts: list[tuple[int, ...]]) -> None:
    assert redistribution.split(parts, len(parts)) == tuple(parts)


@given(PARTS, PARALLELISM)
def test_a37_every_subtask_gets_the_whole_union(parts: list[tuple[int, ...]], parallelism: int) -> None:
    whole = tuple(chain.from_iterable(parts))

    assert redistribution.union(parts, parallelism) == (whole,) * parallelism


@pytest.mark.parametrize(
    ("copies", "parallelism", "expected"),
    [
        pytest.param(["a", "b"], 5, ["a", "b", "a", "b", "a"], id="A.38 new subtasks get the copies in turn"),
        pytest.param(["a", "b", "c"], 2, ["a", "b"], id="A.38 fewer subtasks keep their own"),
        pytest.param(["a", "b"], 2, ["a", "b"], id="A.36 an unchanged parallelism keeps every copy where it was"),
    ],
)
def test_broadcast_copies(copies: list[str], parallelism: int, expected: list[str]) -> None:
    dealt = redistribution.broadcast([((name, 1),) for name in copies], parallelism)

    assert dealt == tuple(((name, 1),) for name in expected)


def test_a36_with_an_unchanged_parallelism_split_lists_stay_while_unions_are_dealt_again() -> None:
    state = OperatorState(
        2,
        {
            "split": NamedState(OperatorStateMeta("split", Mode.SPLIT), ((1, 2, 3), ())),
            "union": NamedState(OperatorStateMeta("union", Mode.UNION), ((1,), (2,))),
        },
    )

    dealt = redistribution.redistribute(state, 2)

    assert dealt.states["split"].parts == ((1, 2, 3), ())
    assert dealt.states["union"].parts == ((1, 2), (1, 2))


def test_a38_without_any_copy_every_subtask_begins_with_an_empty_map() -> None:
    assert redistribution.broadcast([], 3) == ((), (), ())


def test_a33_what_was_dealt_out_is_known_under_its_new_parallelism() -> None:
    state = OperatorState(1, {"counts": NamedState(OperatorStateMeta("counts", Mode.SPLIT), ((1, 2, 3),))})

    assert redistribution.redistribute(state, 2) == OperatorState(
        2, {"counts": NamedState(OperatorStateMeta("counts", Mode.SPLIT), ((1, 2), (3,)))}
    )
