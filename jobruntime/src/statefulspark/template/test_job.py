"""What the function does without Spark, and what the job does with it, with the state that it would have on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from job import Totals
from statefulspark.testing import JobHarness, KeyedHarness


def an_order(customer: str, amount: int) -> dict[str, object]:
    """Return a row as the function gets it."""
    return {"customer": customer, "amount": amount}


def test_orders_are_added_up_for_each_customer() -> None:
    """A batch has orders of several customers."""
    harness = KeyedHarness(Totals(), key="customer")

    totals = harness.feed(an_order("ada", 2), an_order("bob", 5), an_order("ada", 1))

    assert totals == [("ada", 2, 3), ("bob", 1, 5)]


def test_totals_go_on_after_the_process_was_killed() -> None:
    """What is stored is all that is left."""
    harness = KeyedHarness(Totals(), key="customer")
    harness.feed(an_order("ada", 2))

    harness.restart()

    assert harness.feed(an_order("ada", 40)) == [("ada", 2, 42)]


def test_no_order_is_counted_twice_when_the_job_is_killed(job_harness: Callable[..., JobHarness]) -> None:
    """The job runs on Spark, with these rows in place of its source. They are orders of ada, of 1, 4 and 7."""
    job = job_harness(Path(__file__).with_name("job.py"))
    job.add({"value": 0}, {"value": 3}, source="rate")
    job.run()
    job.add({"value": 6}, source="rate")

    job.run(kill="before-commit")
    job.restart()
    job.run()

    assert [(row["orders"], row["total"]) for row in job.output("totals")] == [(2, 5), (3, 12)]
