"""A function is told of a checkpoint only when that holds every state it took under its number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from statefulspark.operatorstate.completion import Completions


def told(*taken: tuple[int, int], covers: dict[int, int], complete: tuple[int, ...]) -> list[int | None]:
    completions = Completions()
    for number, position in taken:
        completions.taken(number, position)
    for number, position in covers.items():
        completions.covers(number, position)
    return [completions.complete(number) for number in complete]


def test_a47_a_checkpoint_that_holds_everything_is_announced() -> None:
    assert told((1, 0), (1, 1), (2, 2), covers={1: 1, 2: 2}, complete=(1, 2)) == [1, 2]


def test_a48_a_batch_that_was_under_way_is_announced_with_the_next_checkpoint() -> None:
    assert told((1, 0), (1, 1), (2, 2), covers={1: 0, 2: 2}, complete=(1, 2)) == [None, 2]


def test_a48_what_is_true_for_an_older_number_is_announced_under_that() -> None:
    assert told((1, 0), (2, 1), (3, 2), covers={3: 1}, complete=(3,)) == [2]


def test_a_completion_stands_for_all_older_ones_and_none_is_announced_twice() -> None:
    assert told((1, 0), (2, 1), covers={2: 1, 3: 1}, complete=(2, 2, 3)) == [2, None, 3]


def test_numbers_of_an_earlier_driver_are_told_to_nobody() -> None:
    completions = Completions(heard=4)
    completions.taken(5, 0)

    assert [completions.complete(5), completions.complete(4)] == [None, None]


def test_a_function_that_takes_no_state_hears_of_every_checkpoint() -> None:
    assert told(covers={}, complete=(1, 2, 5)) == [1, 2, 5]


def test_a_checkpoint_of_unknown_extent_announces_nothing_that_is_not_known_to_be_held() -> None:
    assert told((4, 0), covers={}, complete=(4, 5)) == [3, None]


@given(st.lists(st.tuples(st.sampled_from(["take", "begin"]), st.integers(0, 2)), max_size=60))
def test_a48_no_state_is_ever_announced_before_it_is_held(steps: list[tuple[str, int]]) -> None:
    completions, next_id, position, covered, announced = Completions(), 1, -1, -1, 0
    taken: list[tuple[int, int]] = []
    for step, lag in steps:
        if step == "take":
            position += 1
            completions.taken(next_id, position)
            taken.append((next_id, position))
            continue
        covered = max(position - lag, covered)
        completions.covers(next_id, covered)
        found = completions.complete(next_id)
        if found is not None:
            assert found > announced
            assert all(at <= covered for number, at in taken if number <= found)
            announced = found
        next_id += 1
