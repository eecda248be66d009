"""A keyed function is tested without Spark, with the state that it would have on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import statefulspark as ss
from statefulspark import errors
from statefulspark.testing import KeyedHarness

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


class Totals(ss.KeyedProcessFunction):
    """Adds amounts; a negative one is refused."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.total = ctx.value_state("total")

    def process(
        self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext
    ) -> Iterator[tuple[object, object]]:
        for row in rows:
            if row.amount < 0:
                raise ValueError(f"{key} has a negative amount")
            self.total.update((self.total.get() or 0) + row.amount)
        yield key, self.total.get()


class Means(Totals):
    """A later version, which keeps the same state."""

    def process(
        self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext
    ) -> Iterator[tuple[object, object]]:
        yield key, -1 * (self.total.get() or 0)


class Sessions(ss.KeyedProcessFunction):
    """Ends a session a minute after its last row."""

    def __init__(self, domain: str) -> None:
        self.domain = domain

    def open(self, ctx: ss.KeyedContext) -> None:
        self.count = ctx.value_state("count")

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> None:
        self.count.update((self.count.get() or 0) + len(rows))
        ctx.timers.set((rows[-1].at if self.domain == "event-time" else ctx.processing_time) + timedelta(minutes=1))

    def on_timer(self, when: datetime, ctx: ss.KeyedContext) -> Iterator[tuple[object, object]]:
        yield ctx.key, self.count.get()
        self.count.clear()


class ColumnTotals(ss.VectorizedProcessFunction):
    """Adds amounts by column."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.totals = ctx.reducing_state("total", lambda a, b: a + b)

    def process_table(self, rows: pa.Table, ctx: ss.KeyedContext) -> pa.Table:
        sums = rows.group_by("customer").aggregate([("amount", "sum")])
        totals = self.totals.add_many(sums["customer"], sums["amount_sum"])
        return pa.table({"customer": sums["customer"], "total": totals})


def _order(customer: str, amount: int) -> dict[str, object]:
    return {"customer": customer, "amount": amount}


def test_rows_of_one_batch_come_by_key_and_state_is_kept_between_batches() -> None:
    harness = KeyedHarness(Totals(), key="customer")

    first = harness.feed(_order("ada", 2), _order("bob", 5), _order("ada", 1))
    second = harness.feed(_order("ada", 4))

    assert (first, second) == ([("ada", 3), ("bob", 5)], [("ada", 7)])


def test_after_a_kill_the_state_comes_back_from_what_was_stored() -> None:
    harness = KeyedHarness(Totals(), key="customer")
    harness.feed(_order("ada", 2))

    harness.restart()

    assert harness.stored_bytes > 0
    assert harness.feed(_order("ada", 3)) == [("ada", 5)]


def test_a_changed_function_goes_on_with_the_state() -> None:
    harness = KeyedHarness(Totals(), key="customer")
    harness.feed(_order("ada", 2))

    harness.restart(Means())

    assert harness.feed(_order("ada", 3)) == [("ada", -2)]


def test_a_batch_that_raises_changes_nothing_and_raises_what_the_function_raised() -> None:
    harness = KeyedHarness(Totals(), key="customer")
    harness.feed(_order("ada", 2))

    with pytest.raises(ValueError, match="bob has a negative amount"):
        harness.feed(_order("ada", 100), _order("bob", -1))

    assert harness.feed(_order("ada", 3)) == [("ada", 5)]


def test_a_key_of_several_columns_is_a_tuple() -> None:
    harness = KeyedHarness(Totals(), key=("customer", "amount"))

    assert harness.feed(_order("ada", 2)) == [(("ada", 2), 2)]


@pytest.mark.parametrize(
    ("domain", "advance"),
    [
        pytest.param("processing-time", lambda harness, by: harness.advance_time(by), id="processing time"),
        pytest.param("event-time", lambda harness, by: harness.advance_watermark(START + by), id="event time"),
    ],
)
def test_a_timer_fires_when_its_clock_has_reached_it(
    domain: str, advance: Callable[[KeyedHarness, timedelta], list[object]]
) -> None:
    harness = KeyedHarness(Sessions(domain), key="user", timers=domain, start=START)  # type: ignore[arg-type]
    harness.feed({"user": "ada", "at": START})

    early, due, later = (advance(harness, timedelta(seconds=seconds)) for seconds in (59, 61, 200))

    assert (early, due, later) == ([], [("ada", 1)], [])


def test_timers_survive_a_kill() -> None:
    harness = KeyedHarness(Sessions("processing-time"), key="user", timers="processing-time")
    harness.feed({"user": "ada"}, {"user": "ada"})

    harness.restart()

    assert harness.advance_time("2m") == [("ada", 2)]


def test_a_vectorised_function_gets_a_table() -> None:
    harness = KeyedHarness(ColumnTotals(), key="customer")
    harness.feed({"customer": 1, "amount": 2}, {"customer": 1, "amount": 3})

    assert harness.feed({"customer": 1, "amount": 10}) == [{"customer": 1, "total": 15}]


def test_a_value_that_cannot_be_stored_is_refused_in_the_test_already() -> None:
    harness = KeyedHarness(Totals(), key="customer")

    with pytest.raises(errors.StatefulSparkError, match="total"):
        harness.feed({"customer": "ada", "amount": _Amount()})


class _Amount:
    """A class of the job, which no codec knows."""

    def __add__(self, other: object) -> _Amount:
        return self

    def __radd__(self, other: object) -> _Amount:
        return self

    def __lt__(self, other: object) -> bool:
        return False


def test_a_clock_that_does_not_exist_is_told() -> None:
    with pytest.raises(
        errors.SpecRejectedError, match="timers='event_time', which is unknown; use one of 'event-time'"
    ):
        KeyedHarness(Totals(), key="customer", timers="event_time")  # type: ignore[arg-type]


def test_what_keyed_process_refuses_is_refused_in_the_test_already() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="VectorizedProcessFunction, which has no timers"):
        KeyedHarness(ColumnTotals(), key="customer", timers="event-time")
    with pytest.raises(errors.InvalidArgumentError, match=r"Sessions of keyed operator .* has an on_timer"):
        KeyedHarness(Sessions("event-time"), key="user")


@pytest.mark.parametrize(
    ("batch", "named"),
    [
        pytest.param(({"customer": 1.5, "amount": 1},), "'customer' is 1.5, a float", id="a number with a fraction"),
        pytest.param(({"customer": ["a"], "amount": 1},), r"\['a'\], a list", id="an array"),
        pytest.param(({"user": 1, "amount": 1},), "'customer' is no column", id="the key is missing"),
        pytest.param(({"customer": 1, "amount": 1}, {"customer": 2}), "{'customer': 2}", id="rows of two kinds"),
    ],
)
@pytest.mark.parametrize("function", [Totals(), ColumnTotals()], ids=["rows", "tables"])
def test_rows_that_no_operator_gets_are_refused(
    function: ss.KeyedProcessFunction, batch: tuple[dict[str, object], ...], named: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=named):
        KeyedHarness(function, key="customer").feed(*batch)


class Mails(ss.KeyedProcessFunction):
    """Sends a mail for each row, which a rehearsal must not."""

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[str]:
        yield "planned" if ctx.is_rehearsal else "sent"


@pytest.mark.parametrize(("is_rehearsal", "does"), [(False, "sent"), (True, "planned")])
def test_what_a_function_does_in_a_rehearsal_is_tested_as_well(is_rehearsal: bool, does: str) -> None:
    harness = KeyedHarness(Mails(), key="customer", is_rehearsal=is_rehearsal)

    assert harness.feed(_order("ada", 1)) == [does]


def test_a_batch_is_no_rehearsal_unless_a_test_says_so() -> None:
    assert KeyedHarness(Mails(), key="customer").feed(_order("ada", 1)) == ["sent"]


class Counting(ss.KeyedProcessFunction):
    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> None:
        ctx.metrics.counter("rows").inc()


@pytest.mark.parametrize(("is_rehearsal", "counted"), [(False, {"rows": 1}), (True, {})])
def test_a_rehearsal_counts_nothing(is_rehearsal: bool, counted: dict[str, float]) -> None:
    harness = KeyedHarness(Counting(), key="customer", is_rehearsal=is_rehearsal)

    harness.feed({"customer": "ada"})

    assert harness.metrics == counted
