"""The examples with keyed functions do what their pages say; no Spark is started."""

from __future__ import annotations

import itertools
import runpy
import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from statefulspark.state import functions
from statefulspark.testing import KeyedHarness

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def the_function(file: str, name: str) -> functions.KeyedProcessFunction:
    """Return a function of an example, which does not run its job because it is not the main program."""
    function = runpy.run_path(str(EXAMPLES / file))[name]()
    assert isinstance(function, functions.KeyedProcessFunction)
    return function


def test_the_counts_of_the_quickstart_go_on_after_a_kill() -> None:
    harness = KeyedHarness(the_function("quickstart/counter.py", "Count"), key="digit")
    harness.feed(*({"digit": digit} for digit in (1, 2, 1)))

    harness.restart()

    assert harness.feed({"digit": 1}, {"digit": 3}) == [(1, 3), (3, 1)]


def test_the_mean_of_every_two_values_is_that_of_flinks_page() -> None:
    harness = KeyedHarness(the_function("keyed/count_window_average.py", "CountWindowAverage"), key="key")

    means = [harness.feed({"key": 1, "value": value}) for value in (3, 5, 7, 4, 2)]

    assert means == [[], [(1, 4)], [], [(1, 5)], []]


def test_a_session_ends_a_minute_after_its_last_event_and_counts_late_ones() -> None:
    harness = KeyedHarness(the_function("keyed/sessions.py", "Sessions"), key="user", timers="event-time")
    harness.feed(an_action(0), an_action(30))
    harness.restart()
    harness.feed(an_action(50))

    before, after = (harness.advance_watermark(NOON + timedelta(seconds=seconds)) for seconds in (109, 110))
    late = harness.feed(an_action(60))

    assert (before, after, late) == ([], [("ada", 3, 0)], [])


def an_action(second: int) -> dict[str, object]:
    return {"user": "ada", "time": NOON + timedelta(seconds=second)}


def test_the_third_country_within_an_hour_is_reported_and_an_hour_later_it_is_not() -> None:
    harness = KeyedHarness(the_function("keyed/card_fraud.py", "TooManyCountries"), key="card", start=NOON)

    two = harness.feed(a_payment("AT", 0), a_payment("DE", 10))
    harness.restart()
    third = harness.feed(a_payment("FR", 20))
    harness.advance_time(timedelta(hours=2))
    much_later = harness.feed(a_payment("CH", 150))

    assert two == []
    assert third == [("c", NOON + timedelta(minutes=20), ["AT", "DE", "FR"])]
    assert much_later == []


def test_a_flight_that_is_repeated_passes_once_and_is_forgotten_after_two_days() -> None:
    harness = KeyedHarness(the_function("flights/first_arrivals.py", "FirstOnly"), key="flight_id")
    flight = {"flight_id": 7, "carrier": "UA", "dest": "IAH"}

    first = harness.feed(flight, flight)
    harness.restart()
    again = harness.feed(flight)
    harness.advance_time(timedelta(days=2))
    forgotten = harness.feed(flight)

    assert (first, again, forgotten) == ([(7, "UA", "IAH")], [], [(7, "UA", "IAH")])


def test_an_order_is_judged_by_those_before_it_also_of_its_own_batch() -> None:
    harness = KeyedHarness(the_function("kafka/large_orders.py", "FarAboveTheMean"), key="customer")

    outputs = [
        harness.feed(a_kafka_order(1, 10.0), a_kafka_order(2, 1000.0)),
        harness.feed(a_kafka_order(3, 20.0), a_kafka_order(4, 1030.0), a_kafka_order(5, 1600.0)),
    ]

    assert outputs == [[], [("ada", '{"id": 5, "customer": "ada", "amount": 1600.0}')]]


def test_delay_statistics_are_those_of_all_rows_whatever_batches_they_came_in() -> None:
    delays = [(airport, int(delay)) for airport, delay in itertools.product((3, 8), (-12, 0, 5, 30, 240))]
    harness = KeyedHarness(the_function("flights/delay_statistics.py", "Statistics"), key="airport")

    harness.feed(*({"airport": airport, "delay": delay} for airport, delay in delays[:7]))
    harness.restart()
    last = harness.feed(*({"airport": airport, "delay": delay} for airport, delay in delays[7:]))

    of_eight = [delay for airport, delay in delays if airport == 8]
    assert last == [
        {
            "airport": 8,
            "flights": 5,
            "mean": pytest.approx(statistics.fmean(of_eight)),
            "deviation": pytest.approx(statistics.pstdev(of_eight)),
            "earliest": -12,
            "latest": 240,
        }
    ]


def a_payment(country: str, minute: int) -> dict[str, object]:
    return {"card": "c", "country": country, "time": NOON + timedelta(minutes=minute)}


def a_kafka_order(number: int, amount: float) -> dict[str, object]:
    return {"id": number, "customer": "ada", "amount": amount}
