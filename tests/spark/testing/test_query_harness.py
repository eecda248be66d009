"""The harness of queries: both clocks are moved by the test, and a query goes on where it was after a kill."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import statefulspark as ss
from pyspark.sql import DataFrame, functions
from statefulspark.testing import JobTestError, QueryHarness

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
Start = Callable[..., QueryHarness]


class Reminder(ss.KeyedProcessFunction):
    """Tells an hour after the last row of a key how many rows it has had."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.count = ctx.value_state("count", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> None:
        self.count.update((self.count.get() or 0) + len(rows))
        ctx.timers.set(ctx.processing_time + timedelta(hours=1))

    def on_timer(self, when: datetime, ctx: ss.KeyedContext) -> Iterator[tuple[object, object]]:
        yield ctx.key, self.count.get()


def reminders_of(events: DataFrame) -> DataFrame:
    return ss.keyed_process(
        events,
        key="user",
        function=Reminder(),
        uid="reminders",
        schema="user string, rows int",
        timers="processing-time",
    )


def test_timers_in_processing_time_fire_when_the_test_says_so_also_after_a_kill(query_harness: Start) -> None:
    reminders = query_harness(reminders_of, "user string")
    fed = reminders.feed({"user": "ada"}, {"user": "ada"})
    early = reminders.advance_time("59m")
    reminders.restart()

    late = reminders.advance_time(timedelta(minutes=2))

    assert (fed, early, late) == ([], [], [{"user": "ada", "rows": 2}])


def test_the_sessions_of_the_example_end_with_the_watermark_also_after_a_kill(query_harness: Start) -> None:
    sessions = query_harness(
        runpy.run_path(str(EXAMPLES / "keyed/sessions.py"))["sessions_of"], "user string, time timestamp"
    )
    fed = sessions.feed(*({"user": "ada", "time": NOON + timedelta(seconds=second)} for second in (0, 30)))
    sessions.checkpoint()
    waiting = sessions.timers("sessions")
    sessions.restart()
    more = sessions.feed({"user": "ada", "time": NOON + timedelta(seconds=50)})

    before = sessions.advance_watermark(NOON + timedelta(seconds=109))
    after = sessions.advance_watermark(NOON + timedelta(seconds=110))

    assert waiting == [("ada", NOON + timedelta(seconds=90))]
    assert (fed, more, before) == ([], [], [])
    assert after == [{"user": "ada", "events": 3, "late": 0}]


def test_a_window_of_sparks_own_is_written_when_the_watermark_has_passed_it(query_harness: Start) -> None:
    def counts_of(clicks: DataFrame) -> DataFrame:
        window = functions.window("time", "1 minute").alias("window")
        counted = clicks.withWatermark("time", "0 seconds").groupBy(window).count()
        return counted.select(functions.col("window.start").alias("start"), "count")

    counts = query_harness(counts_of, "time timestamp")
    fed = counts.feed({"time": NOON}, {"time": NOON + timedelta(seconds=59)})

    written = counts.advance_watermark(NOON + timedelta(minutes=1))

    assert fed == []
    assert written == [{"start": NOON, "count": 2}]


def test_two_sources_have_the_names_of_the_parameters_and_share_a_batch(query_harness: Start) -> None:
    def joined(orders: DataFrame, payments: DataFrame) -> DataFrame:
        return orders.join(payments, "id").select("id", "amount", "method")

    payments = query_harness(joined, "id int, amount int", "id int, method string")
    payments.add({"id": 1, "amount": 5}, source="orders")
    payments.add({"id": 1, "method": "cash"}, source="payments")

    assert payments.run() == [{"id": 1, "amount": 5, "method": "cash"}]
    with pytest.raises(JobTestError, match="reads 'orders', 'payments'; say which"):
        payments.feed({"id": 2})
    with pytest.raises(JobTestError, match="has no watermark"):
        payments.advance_watermark(NOON)
