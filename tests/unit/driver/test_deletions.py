"""How many unused files are deleted at a time: a rate that grows while the store refuses nothing."""

from __future__ import annotations

import itertools

from statefulspark.driver.snapshots.background import FIRST_RATE, LEAST_RATE, MOST_RATE, Deletions

KEYS = tuple(map(str, range(2000)))


def after(*refused: int) -> Deletions:
    """Delete a second's worth again and again, in which the store refuses so many requests."""
    deletions = Deletions()
    deletions.add(KEYS * 100)
    for second, number in enumerate(refused):
        assert deletions.begin_if_due(float(second))
        deletions.end(second + 0.5, refused=number)
    return deletions


def test_nothing_is_deleted_that_nobody_added() -> None:
    assert Deletions().begin_if_due(0.0) == ()


def test_a_seconds_worth_is_deleted_each_second_in_the_order_in_which_it_came() -> None:
    deletions = Deletions()
    deletions.add(KEYS)
    first = deletions.begin_if_due(10.0)
    during = deletions.begin_if_due(12.0)
    deletions.end(10.2, refused=0)
    early, second = deletions.begin_if_due(10.9), deletions.begin_if_due(11.0)

    assert (first, during, early) == (KEYS[: int(FIRST_RATE)], (), ())
    assert second == KEYS[int(FIRST_RATE) : len(first) + len(second)]
    assert deletions.backlog == len(KEYS) - len(first)


def test_the_rate_grows_slowly_and_halves() -> None:
    assert [after(*([0] * seconds)).rate for seconds in (0, 1, 5)] == [500.0, 600.0, 1000.0]
    assert after(0, 0, 0, 0, 0, 3).rate == 500.0


def test_the_rate_has_limits() -> None:
    assert after(*itertools.repeat(1, 20)).rate == LEAST_RATE
    deletions = after()
    deletions.rate = MOST_RATE
    deletions.begin_if_due(0.0)
    deletions.end(1.0, refused=0)
    assert deletions.rate == MOST_RATE


def test_what_failed_is_tried_again_later_and_more_slowly() -> None:
    deletions = Deletions()
    deletions.add(KEYS)
    first = deletions.begin_if_due(0.0)
    deletions.fail(8.0)

    assert deletions.backlog == len(KEYS)
    assert deletions.begin_if_due(17.9) == ()
    assert deletions.begin_if_due(18.0) == first[: len(first) // 2]


def test_what_is_dropped_is_forgotten() -> None:
    deletions = Deletions()
    deletions.add(KEYS)
    deletions.begin_if_due(0.0)

    assert deletions.drop() == KEYS[int(FIRST_RATE) :]
    assert (deletions.backlog, deletions.begin_if_due(5.0)) == (0, ())
