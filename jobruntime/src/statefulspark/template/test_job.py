"""What the function does, with the state that it would have on a cluster; no Spark is started."""

from __future__ import annotations

from job import Totals
from statefulspark.testing import KeyedHarness


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
