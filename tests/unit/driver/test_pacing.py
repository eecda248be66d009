"""Work that is asked for often is spread, and what was asked for is never forgotten."""

from __future__ import annotations

from statefulspark.driver.snapshots import background


def test_nothing_is_done_that_nobody_asked_for() -> None:
    assert not background.Pace().begin_if_due(now_s=0.0)


def test_the_first_request_is_served_at_once_and_once() -> None:
    pace = background.Pace()
    pace.request()

    assert [pace.begin_if_due(now_s=0.0), pace.begin_if_due(now_s=0.0)] == [True, False]
    assert not pace.is_requested


def test_a_request_waits_until_the_work_took_no_more_than_its_share() -> None:
    pace = background.Pace(share=0.1)
    pace.request()
    pace.begin_if_due(now_s=10.0)
    pace.end(now_s=12.0)
    pace.request()

    assert [pace.begin_if_due(now_s=29.9), pace.begin_if_due(now_s=30.0)] == [False, True]


def test_what_is_asked_for_meanwhile_is_not_lost_and_not_begun_beside_it() -> None:
    pace = background.Pace(share=0.5)
    pace.request()
    pace.begin_if_due(now_s=0.0)
    pace.request()

    assert not pace.begin_if_due(now_s=100.0), "it is still going on"
    pace.end(now_s=100.0)
    assert pace.is_requested
    assert [pace.begin_if_due(now_s=199.0), pace.begin_if_due(now_s=200.0)] == [False, True]


def test_a_day_of_checkpoints_each_second_spends_its_share_on_pruning() -> None:
    pace, spent_s, now_s = background.Pace(share=0.05), 0.0, 0.0
    while now_s < 86_400:
        pace.request()
        if pace.begin_if_due(now_s):
            spent_s += 0.4
            pace.end(now_s + 0.4)
        now_s += 1.0

    assert 0.04 < spent_s / now_s <= 0.05


def test_work_that_takes_long_rests_no_longer_than_a_minute_or_than_it_has_taken() -> None:
    begins = []
    for took_s in (2.0, 10.0, 90.0):
        pace = background.Pace(share=0.05, longest_rest_s=60.0)
        pace.request()
        pace.begin_if_due(now_s=0.0)
        pace.end(now_s=took_s)
        pace.request()
        begins.append(next(second for second in range(1000) if pace.begin_if_due(now_s=float(second))))

    assert begins == [40, 70, 180]
