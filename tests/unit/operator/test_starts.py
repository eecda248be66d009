"""When the start of a driver waits for its turn, and whose turn comes first."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.engine.starts import Starts
from statefulspark_operator.lifecycle.pace import Pace

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PACE = Pace(per_minute=60)
"""A start a second, and ten at once."""


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def job(number: int, namespace: str = "demo") -> JobKey:
    return JobKey(namespace, f"job-{number}")


def begun(starts: Starts, keys: Iterable[JobKey], now: datetime = NOW, *, is_lost: bool = True) -> list[JobKey]:
    return [key for key in keys if starts.ask(key, now, is_lost=is_lost) is None]


def spent(number: int, at: datetime = NOW) -> Pace:
    pace = PACE
    for _ in range(number):
        pace = pace.spend(at)
    return pace


@pytest.mark.parametrize(
    ("pace", "ahead", "wait_s"),
    [
        pytest.param(PACE, 0, 0, id="a quiet fleet does not wait"),
        pytest.param(PACE, 9, 0, id="nor do as many as the bucket holds"),
        pytest.param(PACE, 10, 1, id="the next one waits for a token"),
        pytest.param(spent(10), 0, 1, id="an empty bucket has the next token after a second"),
        pytest.param(spent(10), 299, 300, id="and the three hundredth after five minutes"),
        pytest.param(spent(10, NOW - seconds(4)), 3, 0, id="four seconds later it has four"),
        pytest.param(spent(10, NOW - seconds(60)), 9, 0, id="after a while it is full, and not fuller"),
        pytest.param(spent(10, NOW - seconds(60)), 10, 1, id="so the eleventh waits"),
        pytest.param(spent(1_000), 0, 1, id="starts at another pace leave an empty bucket, and no debt"),
        pytest.param(Pace(per_minute=2), 1, 30, id="a small pace has a start at once, too"),
    ],
)
def test_when_a_start_is_due(pace: Pace, ahead: int, wait_s: int) -> None:
    assert pace.due_at(NOW, ahead=ahead) - NOW == seconds(wait_s)


def test_as_many_start_at_once_as_the_bucket_holds_and_each_other_is_told_when_to_look_again() -> None:
    starts = Starts(PACE)

    assert begun(starts, map(job, range(10))) == [job(number) for number in range(10)]
    assert [starts.ask(job(number), NOW, is_lost=True) for number in (10, 11, 12)] == [
        NOW + seconds(1),
        NOW + seconds(2),
        NOW + seconds(3),
    ]
    assert starts.waiting == 3


def test_a_job_is_called_when_its_turn_comes_and_starts_then() -> None:
    starts = Starts(PACE)
    begun(starts, map(job, range(12)))
    later = NOW + seconds(1)

    assert starts.call(NOW) == ()
    assert starts.call(later) == (job(10),)
    assert (starts.due_at(job(10), later), starts.due_at(job(11), later)) == (None, NOW + seconds(2))
    assert begun(starts, [job(10), job(10)], later) == [job(10)]


def test_jobs_whose_driver_was_lost_come_before_new_ones() -> None:
    starts = Starts(PACE)
    begun(starts, map(job, range(10)))
    begun(starts, map(job, range(10, 15)), is_lost=False)

    assert starts.ask(job(99), NOW, is_lost=True) == NOW + seconds(1)
    assert starts.call(NOW + seconds(2)) == (job(99), job(10))


def test_namespaces_take_turns() -> None:
    starts = Starts(PACE)
    begun(starts, map(job, range(10)))
    many, few = [job(number, "many") for number in range(5)], [job(number, "few") for number in range(2)]
    begun(starts, [*many, *few])

    assert starts.call(NOW + seconds(5)) == (many[0], few[0], many[1], few[1], many[2])


def test_a_job_that_others_have_overtaken_looks_again_later() -> None:
    starts = Starts(PACE)
    begun(starts, map(job, range(10)))
    begun(starts, [job(10)], is_lost=False)
    begun(starts, map(job, range(20, 30)))
    later = NOW + seconds(1)
    starts.call(later)

    assert starts.due_at(job(10), later) == later + seconds(10)


def test_a_job_that_does_not_want_to_start_any_more_makes_room() -> None:
    starts = Starts(PACE)
    begun(starts, map(job, range(12)))
    starts.leave(job(10))

    assert starts.due_at(job(10), NOW) is None
    assert starts.call(NOW + seconds(1)) == (job(11),)
    assert starts.waiting == 0


def test_a_turn_that_is_not_used_soon_is_over() -> None:
    starts = Starts(PACE)
    begun(starts, map(job, range(11)))
    starts.call(NOW + seconds(1))
    much_later = NOW + seconds(60)
    begun(starts, map(job, range(20, 30)), much_later)

    assert starts.ask(job(10), much_later, is_lost=True) == much_later + seconds(1)


def test_starts_that_a_fast_clock_has_recorded_delay_no_start_for_longer_than_an_empty_bucket() -> None:
    starts = Starts(PACE)

    starts.recall([NOW + timedelta(days=1)])

    assert starts.ask(job(1), NOW, is_lost=True) == NOW + seconds(1)
    assert starts.call(NOW + seconds(1)) == (job(1),)


def test_a_clock_that_is_set_back_holds_up_nobody() -> None:
    starts = Starts(PACE)
    begun(starts, map(job, range(12)))
    earlier = NOW - timedelta(hours=1)

    assert starts.ask(job(12), earlier, is_lost=True) == earlier + seconds(3)
    assert starts.call(earlier + seconds(1)) == (job(10),)


def test_the_next_operator_recalls_what_was_spent() -> None:
    starts = Starts(PACE)
    starts.recall(NOW - seconds(age_s) for age_s in (1, 1, 1, 1, 86_400))

    assert len(begun(starts, map(job, range(20)))) == 7


def test_a_thousand_jobs_start_at_the_pace_and_each_looks_a_few_times() -> None:
    starts, began, looks = Starts(Pace(per_minute=300)), dict[JobKey, datetime](), Counter[JobKey]()
    agenda = [(NOW, number, job(number)) for number in range(1_000)]
    numbers = itertools.count(1_000)
    while agenda:
        now, _, key = heapq.heappop(agenda)
        looks[key] += 1
        for called in starts.call(now):
            heapq.heappush(agenda, (now, next(numbers), called))
        due_at = starts.due_at(key, now)
        if due_at is None and key not in began:
            due_at = starts.ask(key, now, is_lost=True)
            if due_at is None:
                began[key] = now
        if due_at is not None:
            heapq.heappush(agenda, (due_at, next(numbers), key))

    assert Counter(began.values())[NOW] == max(Counter(began.values()).values()) == 50
    assert (len(began), max(began.values()) - NOW) == (1_000, seconds(190))
    assert max(looks.values()) <= 3


def test_without_a_pace_nothing_waits() -> None:
    starts = Starts()
    starts.recall([NOW])

    assert len(begun(starts, map(job, range(1_000)))) == 1_000
    assert starts.call(NOW) == ()
