"""The examples with keyed functions do what their pages say; no Spark is started."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
