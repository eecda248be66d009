"""Whole examples, without the systems that they read and write: what they write is right, whatever is killed."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from statefulspark.testing import JobHarness, QueryHarness

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def test_a_large_order_is_written_once_although_its_batch_runs_twice(job_harness: Callable[..., JobHarness]) -> None:
    job = job_harness(EXAMPLES / "kafka/large_orders.py", parameters={"brokers": "nobody:9092"})
    job.add(*(a_shop_order(number, 10.0) for number in (1, 2, 3)), source="orders")
    job.run()
    job.add(a_shop_order(4, 31.0), source="orders")

    job.run(kill="before-commit")
    job.restart()
    job.run()
    job.checkpoint()

    assert job.output("large") == [{"key": "ada", "value": json.dumps({"id": 4, "customer": "ada", "amount": 31.0})}]


def test_totals_and_archive_read_the_same_orders(job_harness: Callable[..., JobHarness]) -> None:
    job = job_harness(EXAMPLES / "sinks/totals.py", parameters={"brokers": "nobody:9092", "catalog": "http://nobody"})
    job.add(a_shop_order(1, 2.0), a_shop_order(2, 40.0))

    job.run()
    job.checkpoint(kill="after-checkpoint")
    job.restart()

    assert job.output("totals") == [{"customer": "ada", "total": 42.0}]
    assert [row["id"] for row in job.output("archive")] == [1, 2]


def a_shop_order(number: int, amount: float) -> dict[str, object]:
    """Return a record of the topic."""
    return {"value": json.dumps({"id": number, "customer": "ada", "amount": amount}).encode()}


def test_the_second_version_of_the_flights_goes_on_with_the_scores_of_the_first(
    job_harness: Callable[..., JobHarness], tmp_path: Path
) -> None:
    job = job_harness(
        EXAMPLES / "flights/flights.py", parameters={"input": tmp_path.as_uri(), "output": tmp_path.as_uri()}
    )
    job.add(a_flight(1, dep_delay=20), a_flight(2, dep_delay=None))
    job.run()
    job.checkpoint()

    job.restart(EXAMPLES / "flights/flights_v2.py")
    job.add(a_flight(3, dep_delay=-2))
    job.run()
    job.checkpoint()

    *_, last = job.output("carriers")
    assert (last["flights"], last["cancelled"], last["delayed_share"], last["job_version"]) == (3, 1, 0.5, 2)
    assert [row["flights"] for row in job.output("aircraft")] == [1, 2, 3]


def a_flight(number: int, *, dep_delay: int | None) -> dict[str, object]:
    return {"flight_id": number, "carrier": "UA", "tailnum": "N14228", "dep_delay": dep_delay, "arr_delay": dep_delay}


def test_the_broken_version_of_the_flights_fails_while_it_is_loaded() -> None:
    with pytest.raises(KeyError, match="summer"):
        runpy.run_path(str(EXAMPLES / "flights/flights_broken.py"))


def test_a_card_in_three_countries_is_reported_and_its_state_expires(
    query_harness: Callable[..., QueryHarness],
) -> None:
    alerts_of = runpy.run_path(str(EXAMPLES / "keyed/card_fraud.py"))["alerts_of"]
    alerts = query_harness(alerts_of, "card string, country string, time timestamp")

    two = alerts.feed(a_card_payment("AT", 0), a_card_payment("DE", 10))
    alerts.restart()
    third = alerts.feed(a_card_payment("FR", 20))
    alerts.advance_time(timedelta(hours=2))
    much_later = alerts.feed(a_card_payment("CH", 30))

    assert (two, much_later) == ([], [])
    assert third == [{"card": "c", "time": NOON + timedelta(minutes=20), "countries": ["AT", "DE", "FR"]}]


def a_card_payment(country: str, minute: int) -> dict[str, object]:
    return {"card": "c", "country": country, "time": NOON + timedelta(minutes=minute)}
